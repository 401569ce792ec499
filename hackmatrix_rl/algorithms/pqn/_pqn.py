"""PQN: one update collects, computes lambda-returns and learns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import (
    GAE,
    Batch,
    CollectorState,
    Constant,
    EpisodeSums,
    Linear,
    Rollout,
    RolloutCollector,
    RunningScale,
    Schedule,
    Targets,
    ValueScale,
    at,
    check_policy_shapes,
    ends_of,
    precision_of,
)
from hackmatrix_rl.agent.networks import ActorCritic
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
"""The probability of a random action by default."""


class PQNState(AlgorithmState):
    """Everything that PQN continues from; the fields are those of `PPOState`."""

    learner: Learner
    actors: CollectorState
    key: Key[Array, ""]
    update: Int32[Array, ""]
    env_steps: Counter


class PQNReport(eqx.Module):
    """The report of an update, on the device.

    Attributes:
        episodes: sums over the episodes that ended.
        means: by name; those of the loss are over the gradient steps taken.
        gradient_steps: number of gradient steps taken.
        skipped: number of gradient steps skipped because the gradient was not finite.
    """

    episodes: EpisodeSums
    means: dict[str, Float32[Array, ""]]
    gradient_steps: Int32[Array, ""]
    skipped: Int32[Array, ""]


class PQN(Algorithm[PQNState]):
    """Q-learning on rollouts of many environments, without a replay buffer or a target network.

    An update collects a rollout by epsilon-greedy actions, computes the lambda-returns of its
    steps, and descends the squared error of the Q-values on minibatches of whole sequences. The
    returns are Peng's Q(lambda): `G = r + gamma * ((1 - q_lambda) * max Q' + q_lambda * G')`,
    with the maximum over the legal actions of the next position. They bootstrap through
    truncation, and not through termination.

    The network's logits are the Q-values, in units of `value_scale`; its value is not used.
    Layer normalisation stands in for the target network, so use `ResidualActorCritic`, or on
    boards `ResNetActorCritic` or `TransformerActorCritic`. `MLPActorCritic`, `ConvActorCritic`,
    `GRUActorCritic` and `LSTMActorCritic` have no normalisation and may diverge. The heads of the
    last two read a bounded state, so they need a `value_scale` where returns are large.

    Source: Gallici et al. 2024, "Simplifying deep temporal difference learning". The paper uses
    `optax.radam` and `IdentityScale`, and minibatches of single steps.

    Attributes:
        environment: to act in.
        collect: plays the rollouts.
        epsilon: the probability of a random action.
        estimate: computes the returns.
        precision: the dtypes of the network's computation.
        optimizer: turns gradients into changes of the parameters.
        learning_rate: factor on these changes.
        value_scale: the units of Q-values before the first update.
        sizes: of an update.
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
    value_scale: ValueScale
    sizes: RolloutSizes = eqx.field(static=True)
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
        value_scale: ValueScale | None = None,
        num_envs: int = 128,
        num_steps: int = 32,
        num_minibatches: int = 32,
        update_epochs: int = 2,
        grad_accum: int = 1,
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
            value_scale: units in which the network learns Q-values; by default `RunningScale()`.
            num_envs: number of environments.
            num_steps: steps of each environment in an update.
            num_minibatches: number of minibatches in an epoch; must divide `num_envs`.
            update_epochs: number of epochs over a rollout.
            grad_accum: as for `PPO`.
            optimizer: as for `PPO`.
            learning_rate: as for `PPO`.
            precision: the dtype in which the network computes: a policy, or its name (`bf16`).
            mesh: as for `PPO`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument is out of range, or the modules do not fit together.
        """
        self.sizes = RolloutSizes(num_envs, num_steps, num_minibatches, update_epochs, grad_accum)
        self.mesh = self.sizes.mesh_for(mesh)
        check_is_environment(environment)
        if not is_ours(environment):  # tests check the package's own
            check_shapes(environment)
        self.precision = precision_of(precision)
        check_policy_shapes(policy, environment.spec, precision=self.precision)
        for name, given in {"gamma": gamma, "q_lambda": q_lambda, "epsilon": epsilon}.items():
            ends = ends_of(given) if isinstance(given, Schedule) else (finite(name, given),)
            if not all(0 <= end <= 1 for end in ends):
                raise ValueError(f"{name} must be in [0, 1], not {given}")
        value_scale = RunningScale() if value_scale is None else value_scale
        instance("value_scale", value_scale, ValueScale, "RunningScale()")
        self.optimizer, self.learning_rate = optimizer_of(optimizer, learning_rate)
        self.environment = environment
        self.collect = ShardedCollector(RolloutCollector(self.sizes.num_steps), self.mesh)
        self.epsilon = epsilon if isinstance(epsilon, Schedule) else Constant(float(epsilon))
        # With V = max Q, the value targets of GAE are the lambda-returns: advantage + V =
        # r + gamma * V' + gamma * q_lambda * (G' - V').
        self.estimate = GAE(gamma, q_lambda)
        self.value_scale = value_scale
        self.initial_policy = policy

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout, over all environments."""
        return self.sizes.num_envs * self.sizes.num_steps

    @property
    def resettable(self) -> tuple[str, ...]:
        """The environments: fresh episodes begin where their number or sizes change."""
        return ("actors",)

    @property
    def greedy(self) -> bool:
        """True: the likeliest action is the one of the largest Q-value."""
        return True

    def init(self, key: Key[Array, ""], policy: ActorCritic) -> PQNState:
        """The state before the first update."""
        actors_key, learner_key = jax.random.split(key)
        keys = env_keys(actors_key, self.sizes.num_envs)
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
        """Means over the updates, and over the episodes that ended."""
        means = {name: float(total) / dispatch.count for name, total in report.means.items()}
        steps = {"gradient_steps": int(report.gradient_steps), "skipped": int(report.skipped)}
        return dispatch.metrics(report.episodes, {**means, **steps}, batch=self.steps_per_update)

    def __call__(self, state: PQNState) -> tuple[PQNState, PQNReport]:
        """The state after one update, and what happened in it."""
        rollout, targets, actors = self.play(state)
        now = state.env_steps.as_float()
        rate = self.learning_rate(now)
        scale = state.learner.value_scale.update(targets.value_target)
        learner = eqx.tree_at(lambda x: x.value_scale, state.learner, scale)
        key = jax.random.fold_in(state.key, state.update)
        order = self.sizes.minibatches(self.sizes.num_envs, key=key)
        learner, means = self.learn(learner, Batch.of(rollout, targets, scale), order, rate)
        skipped = learner.skipped - state.learner.skipped
        after = PQNState(
            learner=learner,
            actors=actors,
            key=state.key,
            update=state.update + 1,
            env_steps=state.env_steps.add(self.steps_per_update),
        )
        scheduled = {"epsilon": self.epsilon(now), "learning_rate": rate}
        return after, PQNReport(
            episodes=rollout.episodes,
            means={**means, **scheduled, **self.precision.report(learner.scaling)},
            gradient_steps=self.sizes.minibatches.count - skipped,
            skipped=skipped,
        )

    def play(self, state: PQNState) -> tuple[Rollout, Targets, CollectorState]:
        """A rollout by epsilon-greedy actions, its lambda-returns, and the environments after it.

        Args:
            state: before the update.
        """
        now = state.env_steps.as_float()
        rollout, actors, _, _ = self.collect.collect_with(
            EpsilonGreedyChoice(self.epsilon(now)),
            (),
            state.learner.policy,
            self.environment,
            state.actors,
            precision=self.precision,
        )
        return rollout, at(self.estimate, now)(rollout, state.learner.value_scale), actors

    def learn(
        self,
        learner: Learner,
        batch: Batch,
        order: Int32[Array, "minibatches environments"],
        rate: Float32[Array, ""],
    ) -> tuple[Learner, dict[str, Float32[Array, ""]]]:
        """Descends the loss on one minibatch after another.

        Args:
            learner: to improve.
            batch: of the whole rollout.
            order: the environments of each minibatch.
            rate: factor on the optimizer's changes.

        Returns:
            The learner, and means over the gradient steps with a finite gradient.
        """
        loss = QLoss(learner.value_scale)
        take_gradient = MinibatchGradient(
            loss, self.precision, self.sizes.grad_accum, mesh=self.mesh
        )

        def descend(
            learner: Learner, environments: Int32[Array, " environments"]
        ) -> tuple[Learner, dict[str, Float32[Array, ""]]]:
            minibatch = batch.select_from_blocks(environments)
            gradient, found = take_gradient(learner.policy, minibatch, learner.scaling)
            gradient = constrain(gradient, fsdp_shardings(self.mesh, gradient))
            norm = optax.tree.norm(gradient)
            finite = jnp.isfinite(norm)
            stepped = learner.step(self.optimizer, gradient, rate, take=finite)
            scaling = self.precision.adjust(learner.scaling, finite)
            skipped = learner.skipped + (~finite).astype(jnp.int32)
            stepped = eqx.tree_at(lambda x: (x.scaling, x.skipped), stepped, (scaling, skipped))
            stepped = constrain(stepped, fsdp_shardings(self.mesh, stepped))
            return stepped, {**found, "gradient_norm": norm}

        learner, found = filter_scan(descend, learner, order)
        finite = jnp.isfinite(found["gradient_norm"])
        taken = jnp.maximum(jnp.sum(finite.astype(jnp.float32)), 1.0)
        # Not a weighted sum: the metrics of a skipped step may be NaN.
        return learner, {k: jnp.sum(jnp.where(finite, x, 0.0)) / taken for k, x in found.items()}
