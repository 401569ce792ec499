"""Training: the modules composed, compiled once, and run."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int32, Key

from hackmatrix_rl.agent import (
    GAE,
    ValueScale,
    check_is_policy,
    precision_of,
)
from hackmatrix_rl.agent.networks import (
    ActorCritic,
    rematerialized,
)
from hackmatrix_rl.agent.precision import (
    FLOAT32,
    PrecisionPolicy,
    parameters_of,
)
from hackmatrix_rl.env import (
    Environment,
    check_is_environment,
    env_keys,
)
from hackmatrix_rl.errors import (
    check_key,
    whole,
)
from hackmatrix_rl.system import program_bytes
from hackmatrix_rl.training._arguments import (
    Sizes,
    check_modules,
    losses_of,
    mesh_of,
    number,
    optimizer_of,
    target_kl_of,
)
from hackmatrix_rl.training._counter import Counter
from hackmatrix_rl.training._gradients import Loss
from hackmatrix_rl.training._metrics import (
    Metrics,
    read_metrics,
)
from hackmatrix_rl.training._program import (
    compiler_options,
    is_shape,
    located,
    run_updates,
    shapes_of,
    sizes_of,
)
from hackmatrix_rl.training._schedules import Schedule
from hackmatrix_rl.training._state import (
    Learner,
    TrainState,
)
from hackmatrix_rl.training._state_shardings import (
    state_shardings,
)
from hackmatrix_rl.training._update import (
    Update,
    UpdateMetrics,
)
from hackmatrix_rl.training.sharding import (
    REPLICATED,
    ShardedCollector,
    check_offload,
    gather,
    place,
    replicated_shardings,
)


class Trainer:
    """Trains a policy in an environment by proximal policy optimization.

    Nothing is compiled or drawn before `train` (or `start` and `compile`).

    Attributes:
        update: one update, of the modules that were handed in.
        mesh: the devices that train.
        num_envs: environments side by side, over all devices.
        updates_per_dispatch: updates that one call of the compiled program does.
    """

    _compiles = True

    def __init__(
        self,
        environment: Environment,
        policy: ActorCritic,
        *,
        loss: Loss | None = None,
        gae: GAE | None = None,
        optimizer: optax.GradientTransformation | None = None,
        learning_rate: float | Schedule | None = None,
        precision: PrecisionPolicy | str = FLOAT32,
        value_scale: ValueScale | None = None,
        num_envs: int = 256,
        num_steps: int = 128,
        num_minibatches: int = 4,
        update_epochs: int = 4,
        target_kl: float | None = None,
        grad_accum: int = 1,
        remat: str = "none",
        offload_optimizer: bool = False,
        updates_per_dispatch: int = 1,
        mesh: Mesh | str | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Composes the modules.

        Args:
            environment: to train in.
            policy: to start from; it is copied, not changed.
            loss: from a policy and a `Batch` to a scalar and `LossMetrics`; by default
                `PPOLoss()`.
            gae: estimator of advantages; by default `GAE()`.
            optimizer: by default `adam()`, whose own learning rate is 1.
            learning_rate: factor on the optimizer's changes. By default 3e-4 with the default
                optimizer, and 1 with one of your own, which has a rate of its own.
            precision: in which dtype the network computes: a policy, or its name (`bf16`).
            value_scale: units in which the network learns values; by default `RunningScale()`.
            num_envs: environments side by side.
            num_steps: steps of each environment in an update.
            num_minibatches: parts of a pass over a rollout; must divide `num_envs`.
            update_epochs: passes over a rollout.
            target_kl: divergence from the policy that acted at which the rest of an update is
                left out; `None` for no limit.
            grad_accum: equal parts of a minibatch that are learned from one after another,
                with the result of learning from all at once but for rounding; must divide the
                environments of a minibatch.
            remat: what of the network's inside is computed again in the backward pass instead
                of being kept: `none`, `blocks` or `full` (see `agent.rematerialized`).
            offload_optimizer: whether the optimizer's state lies in the host's memory but for
                the moment of each gradient step.
            updates_per_dispatch: updates that one call of the compiled program does, between
                two `Metrics`.
            mesh: the devices to train on, of `hackmatrix_rl.mesh` or as a text for it
                (`data=2`); `None`: one device. The games that are played and the minibatches
                that are learned from do not depend on it.
            clock: seconds since some moment.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: an argument out of its range, or modules that do not fit together. Shapes
                and dtypes of all modules are checked; see `check_environment` and `check_policy`.
        """
        check_is_environment(environment)
        check_is_policy(policy)
        sizes = Sizes(num_envs, num_steps, num_minibatches, update_epochs, grad_accum)
        loss, gae, value_scale = losses_of(loss, gae, value_scale)
        optimizer, learning_rate = optimizer_of(optimizer, learning_rate)
        precision = precision_of(precision)
        traced = loss if self._compiles else None
        check_modules(environment, policy, traced, precision, sizes)
        rematerialized(policy, remat)  # says whether it can be done
        mesh = mesh_of(mesh, sizes)
        if offload_optimizer:
            check_offload(mesh.local_devices[0])
        # Only an auxiliary loss looks at the parts of the reward of single steps.
        auxiliary = getattr(loss, "auxiliary", None) is not None
        self._collect = ShardedCollector(
            sizes.num_steps, terms=environment.spec.terms if auxiliary else (), mesh=mesh
        )
        self.update = Update(
            environment=environment,
            collect=self._collect,
            estimate=gae,
            loss=loss,
            precision=precision,
            optimizer=optimizer,
            learning_rate=learning_rate,
            batches=sizes.minibatches,
            mesh=mesh,
            target_kl=target_kl_of(target_kl),
            grad_accum=sizes.grad_accum,
            remat=remat,
            offload=offload_optimizer,
        )
        self.mesh = mesh
        self.num_envs = sizes.num_envs
        self.updates_per_dispatch = whole("updates_per_dispatch", updates_per_dispatch)
        self._policy = policy
        self._value_scale = value_scale
        self._clock = clock
        self._state: TrainState | None = None
        self._abstract: TrainState | None = None
        self._starter: Callable[..., TrainState] | None = None
        self._program: Callable[..., Any] | None = None
        self._compiled: jax.stages.Compiled | None = None

    @property
    def batch_size(self) -> int:
        """Environment steps of one update."""
        return self.num_envs * self.update.collect.num_steps

    @property
    def policy(self) -> ActorCritic:
        """A copy of the policy as it is now, on one device, wherever training has it."""
        if self._state is None:
            return self._policy
        return gather(self._state.learner.policy, self.mesh)

    @property
    def state(self) -> TrainState:
        """Everything that going on depends on. May be set, to go on from elsewhere.

        The arrays belong to the trainer: the next dispatch writes over them. Copy what is to
        be kept.

        Raises:
            ValueError: there is none yet.
        """
        if self._state is None:
            raise ValueError("training has not started; call start(key) or train(..., key=key)")
        return self._state

    @state.setter
    def state(self, state: TrainState) -> None:
        placed = self.place(state)
        if self._state is None or sizes_of(placed) != sizes_of(self._state):
            self._program = None
        self._state = placed

    def place(self, state: TrainState) -> TrainState:
        """A copy of a state on this trainer's mesh, from the host's memory or another mesh."""
        return place(state, self._shardings(state))

    def _shardings(self, state: TrainState) -> Any:
        return state_shardings(self.mesh, state, offload=self.update.offload)

    def abstract_state(self) -> TrainState:
        """The state that `start` makes, but for its arrays their shapes, dtypes and shardings."""
        if self._abstract is None:
            given = (jax.random.key(0), self._policy, self.update)
            shapes = eqx.filter_eval_shape(self._begin, *given)
            arrays, rest = eqx.partition(shapes, is_shape)
            self._abstract = eqx.combine(located(arrays, self._shardings(shapes)), rest)
        return self._abstract

    def start(self, key: Key[Array, ""], policy: ActorCritic | None = None) -> None:
        """Starts anew from the policy that was handed in.

        Args:
            key: everything random in the training is a function of it.
            policy: to start from in place of that; of the same network. What was compiled
                serves for it, too.
        """
        check_key(key)
        if policy is not None:
            self._policy = policy
        shapes, rest = eqx.partition(self.abstract_state(), is_shape)
        given, code = eqx.partition((self._policy, self.update), eqx.is_array)
        if self._starter is None:

            def begin(key: Key[Array, ""], given: Any) -> TrainState:
                return eqx.filter(self._begin(key, *eqx.combine(given, code)), eqx.is_array)

            # Made where it is to lie: no device ever holds all of it.
            self._starter = jax.jit(
                begin,
                out_shardings=self._shardings(shapes),
                compiler_options=compiler_options(self.mesh, once=True),
            )
        given = (key, given)
        made = self._starter(*place(given, replicated_shardings(self.mesh, given)))
        if self._state is None or sizes_of(made) != sizes_of(self._state):
            self._program = None
        self._state = eqx.combine(made, rest)

    def _begin(self, key: Key[Array, ""], policy: ActorCritic, update: Update) -> TrainState:
        actors_key, learner_key = jax.random.split(key)
        keys = env_keys(actors_key, self.num_envs)
        return TrainState(
            learner=Learner(
                policy=policy,
                optimizer_state=update.optimizer.init(parameters_of(policy)),
                value_scale=self._value_scale,
                scaling=update.precision.initial_scaling(),
                skipped=jnp.zeros((), jnp.int32),
            ),
            actors=self._collect.start(policy, update.environment, keys),
            key=learner_key,
            update=jnp.zeros((), jnp.int32),
            env_steps=Counter.of(0),
        )

    @property
    def compiled(self) -> bool:
        """Whether the program for the state as it is has been compiled."""
        return self._program is not None

    def compile(self) -> float:
        """Compiles the program for the state as it is, unless that has been done.

        Returns:
            How many seconds it took.
        """
        began = self._clock()
        if self._program is None:
            compiled = self.lower().compile(compiler_options(self.mesh))
            rest = eqx.filter(self.state, eqx.is_array, inverse=True)
            modules = eqx.filter(self.update, eqx.is_array)
            modules = place(modules, replicated_shardings(self.mesh, modules))

            def run(state: TrainState, count: int) -> tuple[TrainState, UpdateMetrics]:
                arrays = eqx.filter(state, eqx.is_array)
                arrays, sums = compiled(arrays, modules, np.int32(count))
                return eqx.combine(arrays, rest), sums

            self._program = run
            self._compiled = compiled
        return self._clock() - began

    def lower(self, platforms: tuple[str, ...] | None = None) -> jax.stages.Lowered:
        """The program of a dispatch, not compiled yet.

        It is that of the state, or of the one to come if there is none; nothing is drawn.

        Args:
            platforms: to lower it for (`tpu`, say), if not for the mesh's own.
        """
        state = self.abstract_state() if self._state is None else shapes_of(self._state)
        arrays, rest = eqx.partition(state, is_shape)
        modules, code = eqx.partition(shapes_of(self.update), is_shape)
        # An environment's own arrays may be anywhere; they are placed on the mesh to run.
        modules = located(modules, replicated_shardings(self.mesh, modules))
        shardings = self._shardings(arrays)

        def program(arrays: Any, modules: Any, count: Int32[Array, ""]) -> Any:
            update, state = eqx.combine(modules, code), eqx.combine(arrays, rest)
            state, sums = run_updates(update, state, count)
            return eqx.filter(state, eqx.is_array), sums

        # The state is donated: the next one is written into its memory.
        jitted = jax.jit(
            program,
            donate_argnums=0,
            out_shardings=(shardings, NamedSharding(self.mesh, REPLICATED)),
        )
        traced = jitted.trace(arrays, modules, jax.ShapeDtypeStruct((), jnp.int32))
        return traced.lower(lowering_platforms=platforms)

    def program_memory(self) -> int | None:
        """Bytes that the compiled program needs on each device, as the compiler has it.

        Its arguments, results and temporary arrays; `None` where the backend does not tell.
        """
        self.compile()
        assert self._compiled is not None
        return program_bytes(self._compiled)

    def train(
        self, total_timesteps: int, *, key: Key[Array, ""] | None = None
    ) -> Iterator[Metrics]:
        """Trains, and tells after each dispatch how it goes.

        Args:
            total_timesteps: environment steps to reach, over all environments and counted
                from the start of training; whole updates are done.
            key: to start anew with; `None` to go on from `state`.

        Returns:
            The metrics of each dispatch. Nothing is done unless they are asked for.

        Raises:
            TypeError: the total is no number, or the key no random key.
            ValueError: there is nothing to go on from, and no key.
        """
        if number("total_timesteps", total_timesteps) < 1:
            raise ValueError(f"total_timesteps must be at least 1, not {total_timesteps}")
        if key is not None:
            self.start(key)
        elif self._state is None:
            raise ValueError("train needs a key to start with: train(..., key=jax.random.key(0))")
        return self._train(total_timesteps)

    def _train(self, total_timesteps: int) -> Iterator[Metrics]:
        self.compile()
        while (missing := total_timesteps - int(self.state.env_steps)) > 0:
            updates = math.ceil(missing / self.batch_size)
            yield self.dispatch(min(updates, self.updates_per_dispatch))

    def dispatch(self, updates: int) -> Metrics:
        """Does some updates in one call of the compiled program.

        Args:
            updates: how many.
        """
        self.compile()
        assert self._program is not None
        began = self._clock()
        self._state, sums = self._program(self.state, updates)
        sums = jax.device_get(sums)
        return read_metrics(
            sums,
            dispatched=updates,
            env_steps=int(self.state.env_steps),
            updates=int(self.state.update),
            batch=self.batch_size,
            seconds=self._clock() - began,
        )
