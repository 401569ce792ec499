"""Imitation learning: a student learns the teacher's actions in the positions of both (DAgger)."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key, UInt32

from hackmatrix_rl.agent import CollectorState, Constant, Schedule, resolve_schedules, scheduled_at
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.imitation._buffer import Buffer, Labelled
from hackmatrix_rl.algorithms.imitation._labelling import Label, Labelling, Teaching
from hackmatrix_rl.algorithms.imitation._loss import Agreement, ImitationMetrics, Kinds
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import Discrete, Environment, HackMatrix, Symmetry, whole_games
from hackmatrix_rl.evaluation import Agent, ThinkingAgent, check_player
from hackmatrix_rl.games.hackmatrix import FIRST_PROGRAM, NUM_ACTIONS, SIPHON
from hackmatrix_rl.system.errors import ArgumentError, instance, share
from hackmatrix_rl.training import (
    Counter,
    Learner,
    LearnerAlgorithm,
    Minibatches,
    Optimization,
    StepReport,
    TrainState,
    UpdateReport,
    check_capacity,
    scan_and_sum,
)
from hackmatrix_rl.training.sharding import ShardedCollector


class TaughtGames(eqx.Module):
    """The environments between two updates, the teacher's state, and the labelled positions.

    Every array except counters has a leading axis of environments.
    """

    games: CollectorState
    teaching: Teaching
    buffer: Buffer


class ImitationState(TrainState):
    """The training state of imitation."""

    collector_state: TaughtGames


class Imitation(LearnerAlgorithm[ImitationState]):
    """DAgger: an update plays, queries the teacher, and learns from a buffer of labels.

    In every step the teacher labels the position with its action. The teacher plays an episode with
    probability `beta`, else the student does (see `Labelling`). Rollouts, value targets, precision
    and gradient steps are PPO's with a `CloneLoss`.

    Source: Ross et al. 2011, "A reduction of imitation learning and structured prediction to
    no-regret online learning" (DAgger).

    Attributes:
        ppo: the modules that both algorithms share.
        teacher: the player to learn from. A resumed run must get the same one.
        beta: probability that the teacher plays an episode, as a schedule of environment steps.
        random_share: fraction of steps with a random legal action.
        slots: capacity of the buffer in rollouts.
        augment: random symmetries of the sampled positions; `None`: no augmentation.
        soft_labels: whether the student learns the teacher's probabilities instead of its actions.
    """

    ppo: PPO
    teacher: Agent
    beta: Schedule
    random_share: float = eqx.field(static=True)
    slots: int = eqx.field(static=True)
    augment: Symmetry | None
    soft_labels: bool = eqx.field(static=True)

    def __call__(self, state: ImitationState) -> tuple[ImitationState, ImitationMetrics]:
        learner, before = state.learner, state.collector_state
        now = state.env_steps.as_float()
        assert isinstance(self.ppo.collect, ShardedCollector)
        collect = replace(self.ppo.collect.collect, choice=self._labelling(state.env_steps))
        rollout, games = ShardedCollector(collect, self.mesh)(
            learner.policy,
            self.environment,
            replace(before.games, choice_state=before.teaching),
            precision=self.ppo.precision,
        )
        teaching, games = games.choice_state, replace(games, choice_state=())
        labels: Label = rollout.notes
        targets = resolve_schedules(self.ppo.estimate, now)(rollout, learner.value_scale)
        scale = learner.value_scale.update(targets.value_target)
        learner = eqx.tree_at(lambda x: x.value_scale, learner, scale)
        seen = rollout.observation, rollout.mask, labels.action, rollout.done
        positions = Labelled(*seen, targets.value_target, labels.probabilities)
        buffer = before.buffer.write(positions, rollout.initial_carry)

        rate = self.optimization.learning_rate(now)
        key = jax.random.fold_in(state.key, state.update)
        learner, steps = self._learn(learner, buffer, rate, key)
        after = self.advance(state, learner, TaughtGames(games, teaching, buffer))
        means = {
            "explained_variance": targets.explained_variance(),
            **self.optimization.metrics(learner, rate),
            **scheduled_at(self.ppo.estimate, now),
        }
        kinds = KINDS if isinstance(whole_games(self.environment), HackMatrix) else ()
        report = UpdateReport(rollout.episodes, steps, means)
        return after, ImitationMetrics(report, Agreement.from_labels(labels, kinds))

    def _labelling(self, env_steps: Counter) -> Labelling:
        beta = self.beta(env_steps.as_float())
        actions = self.environment.spec.actions
        return Labelling(self.teacher, beta, self.random_share, self.soft_labels, actions)

    def _learn(
        self, learner: Learner, buffer: Buffer, rate: Float32[Array, ""], key: Key[Array, ""]
    ) -> tuple[Learner, StepReport]:
        """The gradient steps of an update; each epoch samples a batch of the size of a rollout."""
        once = Minibatches(self.ppo.sizes.num_minibatches, 1)

        def epoch(learner: Learner, number: UInt32[Array, ""]) -> tuple[Learner, StepReport]:
            draw_key, order_key = jax.random.split(jax.random.fold_in(key, number))
            num_steps, scale = self.ppo.collect.num_steps, learner.value_scale
            batch = buffer.draw(num_steps, self.mesh, self.augment, scale, key=draw_key)
            order = once(self.ppo.sizes.num_envs, key=order_key)
            return self.ppo.learn(learner, self.ppo.loss, batch, order, rate)

        epochs = jnp.arange(self.ppo.sizes.update_epochs, dtype=jnp.uint32)
        return scan_and_sum(epoch, learner, epochs)

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> ImitationState:
        plain = self.ppo.init(key, policy)
        teaching = self._labelling(plain.env_steps).start(plain.collector_state.keys)
        buffer = Buffer.empty(
            self.environment.spec,
            policy,
            num_envs=self.ppo.sizes.num_envs,
            num_steps=self.ppo.collect.num_steps,
            slots=self.slots,
            soft=self.soft_labels,
        )
        collector_state = TaughtGames(plain.collector_state, teaching, buffer)
        shared = {name: part for name, part in vars(plain).items() if name != "teacher"}
        return ImitationState(**{**shared, "collector_state": collector_state})

    def __init__(
        self,
        ppo: PPO,
        teacher: Agent,
        *,
        beta: Schedule | None = None,
        random_share: float = 0.02,
        buffer_size: int = 524_288,
        augment: Symmetry | None = None,
        soft_labels: bool = False,
    ) -> None:
        """Composes the algorithm from PPO and a teacher.

            ppo = hm.PPO(environment, policy, loss=CloneLoss())
            trainer = hm.Trainer(hm.Imitation(ppo, Runner()))

        Args:
            ppo: PPO with the environment, the student as its policy, and a `CloneLoss`.
            teacher: the player to learn from. A resumed run must get the same one.
            beta: probability that the teacher plays an episode, as a schedule of environment steps,
                evaluated when the episode starts; by default 1.
            random_share: fraction of steps with a random legal action.
            buffer_size: capacity in labelled positions, over all environments; at least the
                positions of an update, and rounded down to whole updates.
            augment: random symmetries of the sampled positions; only for a student without memory.
            soft_labels: whether to learn the teacher's probabilities instead of its actions. The
                teacher must be a network or a `Searcher`.

        Raises:
            TypeError: an argument has the wrong type, or the teacher is not a player.
            ValueError: an argument is out of range, or the parts do not fit together.
        """
        instance("ppo", ppo, PPO, "hm.PPO(environment, policy, loss=CloneLoss())")
        check_player(teacher, whole_games(ppo.environment))
        if not isinstance(ppo.collect, ShardedCollector):
            raise ValueError(
                f"ppo has the collector {type(ppo.collect).__name__}, but teacher and student "
                "choose the actions here; use a RolloutCollector, or leave collector out"
            )
        num_envs, num_steps = ppo.sizes.num_envs, ppo.collect.num_steps
        check_capacity(buffer_size, num_envs=num_envs, num_steps=num_steps)
        if augment is not None and jax.tree.leaves(ppo.initial_policy.initial_carry()):
            raise ArgumentError(
                "{augment:only} transforms single positions, but the student has a memory of the "
                "original ones; use augment=None",
                augment=augment,
            )
        if soft_labels and not isinstance(ppo.environment.spec.actions, Discrete):
            raise ArgumentError(
                "{soft_labels:only} are probabilities of Discrete actions, and this environment's "
                f"are {ppo.environment.spec.actions}; use {{soft_labels:=False}}",
                soft_labels=soft_labels,
            )
        if soft_labels and not (isinstance(teacher, ThinkingAgent) and teacher.tells_probabilities):
            raise ArgumentError(
                "{soft_labels:only} are the teacher's probabilities, and "
                f"{type(teacher).__name__} has none; use {{soft_labels:=False}}, or a network or "
                "a Searcher as the teacher",
                soft_labels=soft_labels,
            )
        # The buffer holds raw observations, because `augment` transforms them.
        collect = replace(ppo.collect.collect, precompute=False)
        sharded = ShardedCollector(collect, ppo.collect.mesh)
        self.ppo = eqx.tree_at(lambda ppo: ppo.collect, ppo, sharded)
        self.teacher = teacher
        self.beta = Constant(1.0) if beta is None else beta
        self.random_share = share("random_share", random_share)
        self.slots = buffer_size // ppo.steps_per_update
        self.augment = augment
        self.soft_labels = soft_labels

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def environment(self) -> Environment:  # type: ignore[override]
        """The environment that student and teacher act in."""
        return self.ppo.environment

    @property  # type: ignore[misc]
    def optimization(self) -> Optimization:  # type: ignore[override]
        """The gradient step of PPO."""
        return self.ppo.optimization

    @property  # type: ignore[misc]
    def initial_policy(self) -> ActorCritic:  # type: ignore[override]
        """The initial policy of the student."""
        return self.ppo.initial_policy

    @property
    def sequences(self) -> tuple[str, int]:
        """The name of PPO's argument for the length of a sequence, and its value."""
        return self.ppo.sequences

    @property
    def steps_per_update(self) -> int:
        """Environment steps of a rollout, over all environments."""
        return self.ppo.steps_per_update

    def check(self, policy: ActorCritic) -> None:
        """Traces a custom loss; see `PPO.check`."""
        self.ppo.check(policy)


KINDS: Kinds = (("siphons", SIPHON, FIRST_PROGRAM), ("programs", FIRST_PROGRAM, NUM_ACTIONS))
"""The kinds of HackMatrix actions with a separate accuracy."""
