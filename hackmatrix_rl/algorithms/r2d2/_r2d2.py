"""R2D2: an update collects steps, writes them to the buffer, and takes gradient steps."""

from dataclasses import replace
from typing import Any, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl import agent, training
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.r2d2._acting import EpsilonGreedy, NewSteps, play_steps
from hackmatrix_rl.algorithms.r2d2._buffer import Buffer, Sampling, Uniform
from hackmatrix_rl.algorithms.r2d2._learning import (
    LearnerState,
    LearnFromSequences,
    SequenceLoss,
    Sizes,
)
from hackmatrix_rl.algorithms.r2d2._q_values import ValueRescaling
from hackmatrix_rl.env import Environment, check_blocks, check_discrete, check_shapes, env_keys
from hackmatrix_rl.system import available_memory, bytes_of, format_bytes
from hackmatrix_rl.system.errors import ArgumentError, instance, share, truth
from hackmatrix_rl.training.sharding import BY_ENVIRONMENT, devices_of_one, on_each_device, specs_of


class GamesAndSteps(eqx.Module):
    """The environments between two updates, and the replay buffer."""

    games: agent.CollectorState
    buffer: Buffer


class R2D2State(training.TrainState):
    """The training state of R2D2, with the target network."""

    collector_state: GamesAndSteps
    target: ActorCritic
    gradient_steps: Int32[Array, ""]


class R2D2(training.LearnerAlgorithm[R2D2State]):
    """Recurrent Q-learning with sequence replay.

    An update takes `train_freq` steps in each environment, epsilon-greedily with a different
    epsilon per environment. It writes the steps and the network's memory before them to a replay
    buffer on the device, and then takes gradient steps on sequences from the buffer. An update is
    one compiled program.

    The network's logits are the Q-values, normalized by `value_scale`. With `dueling` the logits
    are the advantages and the value is the mean Q-value. Evaluate the network greedily:
    `hm.evaluate(..., greedy=True)`.

    Source: Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement
    learning".

    Attributes:
        learn: takes the gradient steps of an update.
        optimization: the gradient step, with optimizer, learning rate, precision and mesh.
        sizes: the sizes of an update.
    """

    environment: Environment
    explore: EpsilonGreedy
    learn: LearnFromSequences
    optimization: training.Optimization
    value_scale: agent.ValueScale
    sizes: Sizes = eqx.field(static=True)
    keep_buffer: bool = eqx.field(static=True)
    initial_policy: ActorCritic

    networks = ("target",)

    def __call__(self, state: R2D2State) -> tuple[R2D2State, training.UpdateReport]:
        return self.learn_from(state, self.play(state.learner.policy, state.collector_state.games))

    def learn_from(
        self, state: R2D2State, new: NewSteps
    ) -> tuple[R2D2State, training.UpdateReport]:
        """Writes the steps that `play` returned, and takes the gradient steps of an update."""
        buffer = state.collector_state.buffer.write(new.steps, new.memory)
        rate = self.optimization.learning_rate(state.env_steps.as_float())
        learned, steps = self.learn(
            self.optimization,
            LearnerState(state.learner, state.target, buffer.priority, state.gradient_steps),
            buffer,
            rate,
            jax.random.fold_in(state.key, state.update),
        )
        collector_state = GamesAndSteps(new.collector, replace(buffer, priority=learned.priority))
        own = {"target": learned.target, "gradient_steps": learned.gradient_steps}
        means = self.optimization.metrics(learned.learner, rate)
        report = training.UpdateReport(new.episodes, steps, means)
        return self.advance(state, learned.learner, collector_state, **own), report

    def play(
        self, policy: ActorCritic, collector: agent.CollectorState, *, mesh: Mesh | None = None
    ) -> NewSteps:
        """Plays the steps of an update, each device in its own environments. See `play_steps`.

        `mesh` has the devices that act and hold policy and environments; by default `self.mesh`.
        """

        def on_one(policy: ActorCritic, environment: Environment, given: Any) -> Any:
            fields, epsilons = given
            after, steps, sums = play_steps(
                policy,
                environment,
                agent.CollectorState(**fields),
                epsilons,
                self.sizes.train_freq,
                dueling=self.learn.loss.dueling,
            )
            return vars(after), steps, jax.tree.map(lambda leaf: leaf[None], sums)

        # Cast first: fewer bytes are gathered if parameters are sharded along `fsdp`.
        policy = self.optimization.precision.cast_to_compute(policy)
        specs = specs_of(agent.CollectorState.environment_axes())
        after, steps, sums = on_each_device(
            self.mesh if mesh is None else mesh,
            on_one,
            (policy, self.environment),
            (vars(collector), self.explore.of_each(self.sizes.num_envs)),
            takes=(specs, BY_ENVIRONMENT),
            returns=(specs, BY_ENVIRONMENT, BY_ENVIRONMENT),
        )
        episodes: agent.EpisodeSums = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), sums)
        return NewSteps(collector.carry, agent.CollectorState(**after), steps, episodes)

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> R2D2State:
        games_key, learner_key = jax.random.split(key)
        keys = env_keys(games_key, self.sizes.num_envs)
        learner = self.optimization.init(policy, self.value_scale)
        games = agent.start_collector(self.environment, policy, keys)
        collector_state = GamesAndSteps(games, self._empty(policy))
        own = {"target": policy, "gradient_steps": jnp.zeros((), jnp.int32)}
        return R2D2State.first(learner_key, learner, collector_state, **own)

    def __init__(
        self,
        environment: Environment,
        policy: ActorCritic,
        *,
        gamma: float = 0.997,
        n_step: int = 5,
        dueling: bool = True,
        sampling: Sampling | None = None,
        explore: EpsilonGreedy | None = None,
        value_scale: agent.ValueScale | None = None,
        num_envs: int = 64,
        train_freq: int = 4,
        buffer_size: int = 131_072,
        sequence_length: int = 10,
        burn_in: int = 0,
        sequence_batch_size: int = 64,
        train_steps: int = 1,
        learning_starts: int = 0,
        target_update: int = 100,
        keep_buffer: bool = True,
        optimization: training.Optimization | None = None,
        **arguments: Unpack[training.OptimizationArguments],
    ) -> None:
        """Composes the algorithm from modules.

            environment = hm.Batched(hm.TMaze())
            policy = hm.GRUActorCritic(environment.spec, key=key)
            trainer = hm.Trainer(hm.R2D2(environment, policy))

        Args:
            environment: the environment to train in.
            policy: the initial network, with memory.
            gamma: discount factor, in [0, 1].
            n_step: number of rewards in a target before the bootstrap value.
            dueling: whether the value and the advantages are separate outputs of the network.
            sampling: samples the sequences; by default `Uniform()`.
            explore: the exploration; by default `EpsilonGreedy()`.
            value_scale: normalization of the Q-values: `ValueRescaling()`, the default, or
                `IdentityScale()`.
            num_envs: number of environments.
            train_freq: steps per environment in an update.
            buffer_size: capacity in steps, over all environments; rounded down to whole updates.
            sequence_length: steps of a sequence to learn from.
            burn_in: steps before them that only refresh the memory.
            sequence_batch_size: number of sequences in a gradient step. It must divide `num_envs`
                or be a multiple of it.
            train_steps: number of gradient steps per update.
            learning_starts: steps in the buffer, over all environments, before the first gradient
                step.
            target_update: gradient steps between updates of the target network.
            keep_buffer: whether checkpoints hold the buffer. A run that resumes without it refills
                it before it learns, and does not end in the same bits.
            optimization: optimizer, learning rate, precision, memory and devices. `remat` is
                `none` or `full`.
            arguments: the arguments of an `Optimization`, in place of one: `learning_rate=1e-3`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, the parts do not fit together, or the buffer
                does not fit into memory.
        """
        self.optimization = training.optimization_of(self, optimization, arguments)
        check_shapes(environment)
        sampling = Uniform() if sampling is None else sampling
        explore = EpsilonGreedy() if explore is None else explore
        scale = ValueRescaling() if value_scale is None else value_scale
        instance("sampling", sampling, Sampling, "Prioritized()")
        instance("explore", explore, EpsilonGreedy, "EpsilonGreedy(0.4)")
        if not isinstance(scale, ValueRescaling | agent.IdentityScale):
            raise TypeError(
                f"value_scale is a {type(scale).__name__}; expected ValueRescaling() or "
                "IdentityScale(): replayed sequences need a constant normalization of the Q-values"
            )
        gamma = share("gamma", gamma)
        dueling = truth("dueling", dueling)
        check_discrete(environment.spec, "R2D2")
        self.optimization.check_policy(policy, environment.spec)
        if not jax.tree.leaves(policy.initial_carry()):
            raise ArgumentError(
                f"{{policy:only}} is a {type(policy).__name__} without memory, and replayed "
                "sequences are for networks with memory, such as hm.GRUActorCritic or "
                "hm.LSTMActorCritic",
                policy=policy,
            )
        sequences = sequence_length, burn_in, n_step, sequence_batch_size
        steps = train_steps, learning_starts, target_update
        sizes = Sizes(num_envs, train_freq, buffer_size, *sequences, *steps)
        parts = self.optimization.grad_accum
        sizes.in_blocks.check_mesh(self.mesh, grad_accum=parts, samples="sequences")
        check_blocks(environment, num_envs, devices_of_one(self.mesh))
        self.environment = environment
        self.explore = explore
        self.value_scale = scale
        self.sizes = sizes
        self.keep_buffer = truth("keep_buffer", keep_buffer)
        self.initial_policy = policy
        loss = SequenceLoss(sampling, gamma, sizes.n_step, sizes.burn_in, dueling)
        self.learn = LearnFromSequences(loss, sizes)
        self._check_memory(policy)

    @property
    def steps_per_update(self) -> int:
        """Environment steps of an update, over all environments."""
        return self.sizes.num_envs * self.sizes.train_freq

    @property
    def reinit_fields(self) -> tuple[str, ...]:
        """The environments and the buffer, which resuming reinitializes if their sizes change.

        If only the sizes of the buffer change, the environments continue.
        """
        return ("collector_state", "collector_state.games")

    @property
    def greedy(self) -> bool:
        return True  # the logits are Q-values

    def checkpoint_state(self, state: R2D2State) -> PyTree:
        """The state, without the buffer unless `keep_buffer`."""
        if self.keep_buffer:
            return state
        return eqx.tree_at(lambda state: state.collector_state.buffer, state, None)

    def working_bytes(self, state: R2D2State) -> int:
        """Bytes of the sequences of a gradient step, on one device."""
        steps = self.sizes.length * self.sizes.num_envs
        step = bytes_of(state.collector_state.buffer.steps) // steps
        return (
            step * self.sizes.window * self.sizes.sequence_batch_size // devices_of_one(self.mesh)
        )

    @property
    def sequences(self) -> tuple[str, int]:
        """The name of the argument for the length of a sequence, and its value."""
        return "sequence_length", self.sizes.sequence_length

    def value_scale_of(self, state: R2D2State) -> agent.ValueScale | None:
        """The value scale with `dueling`; `None` without it, since the value is unused."""
        return state.learner.value_scale if self.learn.loss.dueling else None

    def _empty(self, policy: ActorCritic) -> Buffer:
        return Buffer.empty(
            self.environment,
            policy,
            num_envs=self.sizes.num_envs,
            length=self.sizes.length,
            train_freq=self.sizes.train_freq,
            priorities=self.learn.loss.sampling.uses_priorities,
        )

    def _check_memory(self, policy: ActorCritic) -> None:
        """Raises an ArgumentError unless a device has memory for its part of the buffer."""
        needed = bytes_of(eqx.filter_eval_shape(self._empty, policy)) // devices_of_one(self.mesh)
        room = available_memory()
        if room is None or needed <= room[0]:
            return
        fits = self.sizes.buffer_size * room[0] // needed // 2
        raise ArgumentError(
            f"{{buffer_size}} takes {format_bytes(needed)} on each device, which has "
            f"{format_bytes(room[0])} of {room[1]}; use {{buffer_size:={fits}}} or less",
            buffer_size=self.sizes.buffer_size,
        )
