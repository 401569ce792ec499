"""PQN: one update collects, computes lambda-returns and learns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import (
    GAE,
    IDENTITY_SCALE,
    Batch,
    CollectorState,
    Constant,
    EpisodeSums,
    Linear,
    RolloutCollector,
    Schedule,
    ValueScale,
    at,
    check_is_policy,
    check_policy_shapes,
    ends_of,
    precision_of,
)
from hackmatrix_rl.agent.networks import ActorCritic, rematerialized
from hackmatrix_rl.agent.precision import FLOAT32, PrecisionPolicy, parameters_of
from hackmatrix_rl.algorithms.pqn._exploration import EpsilonGreedyChoice
from hackmatrix_rl.algorithms.pqn._loss import QLoss
from hackmatrix_rl.env import Environment, check_is_environment, check_shapes, env_keys
from hackmatrix_rl.errors import finite, instance, is_ours
from hackmatrix_rl.training import (
    Algorithm,
    AlgorithmState,
    Counter,
    Dispatch,
    Learner,
    Metrics,
    Minibatches,
    MinibatchGradient,
    RolloutSizes,
    filter_scan,
    optimizer_of,
)
from hackmatrix_rl.training.sharding import (
    BY_ENVIRONMENT,
    REPLICATED,
    ShardedCollector,
    constrain,
    each_array,
    fsdp_shardings,
    replicated_shardings,
)

EPSILON = Linear(1.0, 0.05, over=100_000)
"""Exploration by default."""


class PQNState(AlgorithmState):
    """Everything that PQN continues from.

    Attributes:
        learner: the network and everything that changes with it.
        actors: the environments, between two rollouts.
        key: constant; every draw of the learner is a function of it and of `update`.
        update: number of updates done.
        env_steps: number of environment steps taken, over all environments.
    """

    learner: Learner
    actors: CollectorState
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter


class PQNReport(eqx.Module):
    """The report of an update, on the device.

    Attributes:
        episodes: sums over the episodes that ended.
        means: by name, means over the gradient steps taken, and what was scheduled.
        gradient_steps: number of gradient steps taken.
        skipped: number of steps skipped because the gradient was not finite.
    """

    episodes: EpisodeSums
    means: dict[str, Float32[Array, ""]]
    gradient_steps: Int32[Array, ""]
    skipped: Int32[Array, ""]


class PQN(Algorithm[PQNState]):
    """Q-learning on rollouts of many environments, without a replay buffer or a target network.

    An update collects a rollout by epsilon-greedy actions, computes the lambda-returns of its
    steps, and descends the squared error of the Q-values on minibatches of whole sequences. The
    returns are Peng's Q(lambda): `G = r + gamma * ((1 - lambda) * max Q' + lambda * G')`, with
    the maximum over the legal actions of the next position. They bootstrap through truncation,
    and not through termination.

    The network's logits are the Q-values, in units of `value_scale`; its value is not used.

    PQN relies on layer normalisation in place of a target network. Use `ResidualActorCritic`, or
    `ResNetActorCritic` or `TransformerActorCritic` on boards. `MLPActorCritic` and
    `ConvActorCritic` have no normalisation: they may diverge. Neither have `GRUActorCritic` and
    `LSTMActorCritic`, whose heads read a bounded state.

    Source: Gallici et al. 2024, "Simplifying deep temporal difference learning".

    Attributes:
        environment: to act in.
        collect: plays the rollouts.
        epsilon: the probability of a random action.
        estimate: computes the returns.
        gradient: of the loss on a minibatch, but for the units of the Q-values.
        optimizer: turns gradients into changes of the parameters.
        learning_rate: factor on these changes.
        batches: how a rollout is cut up.
        num_envs: number of environments, over all devices.
        value_scale: the units of Q-values before the first update.
        mesh: the devices that share the environments.
        initial_policy: the network to start from.
    """

    environment: Environment
    collect: ShardedCollector
    epsilon: Schedule
    estimate: GAE
    precision: PrecisionPolicy
    optimizer: optax.GradientTransformation = eqx.field(static=True)
    learning_rate: Schedule
    batches: Minibatches
    num_envs: int = eqx.field(static=True)
    value_scale: ValueScale
    grad_accum: int = eqx.field(static=True)
    remat: str = eqx.field(static=True)
    mesh: Mesh = eqx.field(static=True)
    initial_policy: ActorCritic

    def __init__(
        self,
        environment: Environment,
        policy: ActorCritic,
        *,
        gamma: float | Schedule = 0.99,
        q_lambda: float = 0.65,
        epsilon: float | Schedule = EPSILON,
        value_scale: ValueScale = IDENTITY_SCALE,
        num_envs: int = 128,
        num_steps: int = 32,
        num_minibatches: int = 32,
        update_epochs: int = 2,
        grad_accum: int = 1,
        remat: str = "none",
        optimizer: optax.GradientTransformation | None = None,
        learning_rate: float | Schedule | None = None,
        precision: PrecisionPolicy | str = FLOAT32,
        mesh: Mesh | str | None = None,
    ) -> None:
        """Composes the algorithm from modules.

            policy = hm.ResidualActorCritic(environment.spec, key=key)
            trainer = hm.Trainer(hm.PQN(environment, policy, learning_rate=5e-4))

        Args:
            environment: the environment to train in.
            policy: the network to start from, with or without memory; see the class.
            gamma: discount of a step, in [0, 1].
            q_lambda: weight between one-step targets (0) and whole returns (1).
            epsilon: probability of a random action, in [0, 1]. The default falls linearly from 1
                to 0.05 over the first 100,000 environment steps.
            value_scale: units in which the network learns Q-values; by default those of reward.
            num_envs: number of environments.
            num_steps: steps of each environment in an update.
            num_minibatches: number of minibatches in one pass over a rollout; must divide
                `num_envs`.
            update_epochs: number of passes over a rollout.
            grad_accum: as for `PPO`.
            remat: as for `PPO`.
            optimizer: an optimizer of optax; by default `radam()` with a learning rate of 1.
            learning_rate: factor on the optimizer's updates. The default is 2.5e-4 with the
                default optimizer, and 1 with a custom one, which has its own learning rate.
            precision: the dtype in which the network computes: a policy, or its name (`bf16`).
            mesh: the devices to train on, as for `PPO`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or the modules do not fit together.
        """
        sizes = RolloutSizes(num_envs, num_steps, num_minibatches, update_epochs, grad_accum)
        check_is_environment(environment)
        check_is_policy(policy)
        instance("value_scale", value_scale, ValueScale, "IdentityScale()")
        if not isinstance(epsilon, Schedule):
            epsilon = Constant(finite("epsilon", epsilon))
        if not isinstance(gamma, Schedule):
            gamma = finite("gamma", gamma)
        for name, given in {"epsilon": epsilon, "q_lambda": finite("q_lambda", q_lambda)}.items():
            for end in ends_of(given):
                if not 0 <= end <= 1:
                    raise ValueError(f"{name} must be in [0, 1], not {end}")
        if optimizer is None:
            optimizer = radam()
            learning_rate = 2.5e-4 if learning_rate is None else learning_rate
        self.optimizer, self.learning_rate = optimizer_of(optimizer, learning_rate)
        self.precision = precision_of(precision)
        if not is_ours(environment):
            check_shapes(environment)
        check_policy_shapes(policy, environment.spec, precision=self.precision)
        rematerialized(policy, remat)  # raises if the policy has no such remat
        self.environment = environment
        self.mesh = sizes.mesh_for(mesh)
        self.collect = ShardedCollector(RolloutCollector(sizes.num_steps), self.mesh)
        self.epsilon = epsilon
        # With the largest Q-value as the value of a position, the value targets of GAE are the
        # lambda-returns: advantage + value = r + gamma * ((1 - lambda) * value' + lambda * G').
        self.estimate = GAE(gamma, q_lambda)
        self.batches = sizes.minibatches
        self.num_envs = sizes.num_envs
        self.value_scale = value_scale
        self.grad_accum = sizes.grad_accum
        self.remat = remat
        self.initial_policy = policy

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout, over all environments."""
        return self.num_envs * self.collect.num_steps

    @property
    def resettable(self) -> tuple[str, ...]:
        """The environments: fresh games begin where their number or sizes change."""
        return ("actors",)

    @property
    def greedy(self) -> bool:
        """True: the likeliest action is the one of the largest Q-value."""
        return True

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> PQNState:
        """The state before the first update."""
        actors_key, learner_key = jax.random.split(key)
        keys = env_keys(actors_key, self.num_envs)
        return PQNState(
            learner=Learner(
                policy=policy,
                optimizer_state=self.optimizer.init(parameters_of(policy)),
                value_scale=self.value_scale,
                scaling=self.precision.initial_scaling(),
                skipped=jnp.zeros((), jnp.int32),
            ),
            actors=self.collect.start(policy, self.environment, keys),
            key=learner_key,
            update=jnp.zeros((), jnp.int32),
            env_steps=Counter.of(0),
        )

    def policy(self, state: PQNState) -> ActorCritic:
        """The network. Its likeliest action is the one of the largest Q-value."""
        return state.learner.policy

    def value_scale_of(self, state: PQNState) -> None:
        """`None`: the network's value is not trained."""

    def shardings(self, state: PQNState) -> PyTree[NamedSharding]:
        """The learner is cut along `fsdp`, the environments along `data`."""
        by_environment = NamedSharding(self.mesh, BY_ENVIRONMENT)
        whole = NamedSharding(self.mesh, REPLICATED)
        shardings: PyTree[NamedSharding] = eqx.tree_at(
            lambda state: (state.learner, state.actors),
            replicated_shardings(self.mesh, state),
            (
                fsdp_shardings(self.mesh, state.learner),
                each_array(lambda leaf: by_environment if leaf.ndim else whole, state.actors),
            ),
        )
        return shardings

    def metrics(self, report: PQNReport, dispatch: Dispatch) -> Metrics:
        """Means of the losses over the updates, and of the episodes that ended."""
        episode, reward = report.episodes.means()
        return Metrics(
            env_steps=dispatch.env_steps,
            updates=dispatch.updates,
            seconds=dispatch.seconds,
            steps_per_second=dispatch.count * self.steps_per_update / max(dispatch.seconds, 1e-9),
            episodes=int(report.episodes.count),
            episode=episode,
            reward=reward,
            learning={
                **{name: float(total) / dispatch.count for name, total in report.means.items()},
                "gradient_steps": int(report.gradient_steps),
                "skipped": int(report.skipped),
            },
        )

    def __call__(self, state: PQNState) -> tuple[PQNState, PQNReport]:
        """The state after one update, and what happened in it."""
        now = state.env_steps.as_float()
        epsilon, rate = self.epsilon(now), self.learning_rate(now)
        rollout, actors, _, _ = self.collect.collect_with(
            EpsilonGreedyChoice(epsilon),
            (),
            state.learner.policy,
            self.environment,
            state.actors,
            precision=self.precision,
        )
        targets = at(self.estimate, now)(rollout, state.learner.value_scale)
        scale = state.learner.value_scale.update(targets.value_target)
        batch = Batch.of(rollout, targets, scale)
        order = self.batches(self.num_envs, key=jax.random.fold_in(state.key, state.update))
        learner = eqx.tree_at(lambda x: x.value_scale, state.learner, scale)
        learner, means, finite = self.learn(learner, batch, order, rate)
        after = PQNState(
            learner=learner,
            actors=actors,
            key=state.key,
            update=state.update + 1,
            env_steps=state.env_steps.add(self.steps_per_update),
        )
        return after, PQNReport(
            episodes=rollout.episodes,
            means={
                **means,
                "epsilon": epsilon,
                "learning_rate": rate,
                **self.precision.report(learner.scaling),
            },
            gradient_steps=jnp.sum(finite, dtype=jnp.int32),
            skipped=jnp.sum(~finite, dtype=jnp.int32),
        )

    def learn(
        self,
        learner: Learner,
        batch: Batch,
        order: Int32[Array, "minibatches environments"],
        rate: Float32[Array, ""],
    ) -> tuple[Learner, dict[str, Float32[Array, ""]], Bool[Array, " minibatches"]]:
        """Descends the loss on one minibatch after another.

        Args:
            learner: to improve.
            batch: of the whole rollout.
            order: the environments of each minibatch.
            rate: factor on the optimizer's changes.

        Returns:
            The learner; the metrics of the loss and `gradient_norm`, means over the steps taken;
            and whether each step was taken: whether its gradient was finite.
        """
        take_gradient = MinibatchGradient(
            QLoss(learner.value_scale), self.precision, self.grad_accum, self.remat, self.mesh
        )

        def descend(
            learner: Learner, environments: Int32[Array, " environments"]
        ) -> tuple[Learner, tuple[dict[str, Float32[Array, ""]], Bool[Array, ""]]]:
            minibatch = batch.select_from_blocks(environments)
            gradient, losses = take_gradient(learner.policy, minibatch, learner.scaling)
            gradient = constrain(gradient, fsdp_shardings(self.mesh, gradient))
            norm = optax.tree.norm(gradient)
            finite = jnp.isfinite(norm)
            learner = learner.step(self.optimizer, gradient, rate, take=finite)
            learner = eqx.tree_at(
                lambda x: (x.scaling, x.skipped),
                learner,
                (
                    self.precision.adjust(learner.scaling, finite),
                    learner.skipped + (~finite).astype(jnp.int32),
                ),
            )
            learner = constrain(learner, fsdp_shardings(self.mesh, learner))
            return learner, ({**losses, "gradient_norm": norm}, finite)

        learner, (found, finite) = filter_scan(descend, learner, order)
        taken = jnp.maximum(jnp.sum(finite.astype(jnp.float32)), 1.0)
        # Not a weighted sum: the metrics of a skipped step may be NaN.
        means = {name: jnp.sum(jnp.where(finite, x, 0.0)) / taken for name, x in found.items()}
        return learner, means, finite


def radam(max_grad_norm: float = 10.0) -> optax.GradientTransformation:
    """Rectified Adam with learning rate 1 on clipped gradients: the optimizer of the paper.

    Source: Liu et al. 2020, "On the variance of the adaptive learning rate and beyond".

    Args:
        max_grad_norm: largest Euclidean norm of the gradient over all parameters.

    Raises:
        ValueError: `max_grad_norm` is not positive.
    """
    if not max_grad_norm > 0:  # also refuses NaN
        raise ValueError(f"max_grad_norm must be positive, not {max_grad_norm}")
    clip = optax.clip_by_global_norm(max_grad_norm)
    return optax.chain(clip, optax.scale_by_radam(), optax.scale(-1.0))
