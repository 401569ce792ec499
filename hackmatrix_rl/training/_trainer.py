"""The trainer: composes an algorithm, compiles its update once, and runs it."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from etils import epath
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.agent import (
    AdvantageEstimator,
    RolloutCollector,
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
)
from hackmatrix_rl.env import (
    Environment,
    check_is_environment,
)
from hackmatrix_rl.errors import (
    ConfigError,
    check_key,
    instance,
    whole,
)
from hackmatrix_rl.system import is_process_zero
from hackmatrix_rl.training._algorithm import Algorithm, AlgorithmState, Dispatch, State
from hackmatrix_rl.training._arguments import (
    Sizes,
    check_modules,
    losses_of,
    mesh_of,
    number,
    optimizer_of,
    target_kl_of,
)
from hackmatrix_rl.training._callbacks import Callback, call_back, check_callbacks
from hackmatrix_rl.training._eager import Program, eager_program
from hackmatrix_rl.training._gradients import Loss
from hackmatrix_rl.training._metrics import (
    Metrics,
)
from hackmatrix_rl.training._ppo import PPO
from hackmatrix_rl.training._program import (
    compiler_options,
    is_shape,
    located,
    run_updates,
    shapes_of,
    sizes_of,
)
from hackmatrix_rl.training._schedules import Schedule
from hackmatrix_rl.training._tree_file import read_tree, write_tree
from hackmatrix_rl.training.compiled import (
    program_bytes,
)
from hackmatrix_rl.training.sharding import (
    REPLICATED,
    ShardedCollector,
    check_offload,
    gather,
    on_device,
    place,
    replicated_shardings,
)

TRAINING = "training state"
"""The kind of file that `Trainer.save` writes."""

A = TypeVar("A", bound=Algorithm[Any])


class Trainer(Generic[A]):
    """Trains a policy in an environment.

    The constructor composes PPO from its modules; `Trainer.of` takes any other algorithm.
    Nothing is compiled or drawn before `train` (or `start` and `compile`).

    Attributes:
        algorithm: what is repeated; of the constructor's modules, a `PPO`.
        updates_per_dispatch: updates that one call of the compiled program does.
    """

    def __init__(
        self: "Trainer[PPO]",
        environment: Environment,
        policy: ActorCritic,
        *,
        loss: Loss | None = None,
        gae: AdvantageEstimator | None = None,
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
        eager: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Composes PPO of modules.

        Args:
            environment: to train in.
            policy: to start from; it is copied, not changed.
            loss: from a policy and a `Batch` to a scalar and `LossMetrics`; by default
                `PPOLoss()`.
            gae: estimates the advantages; by default `GAE()`.
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
            eager: whether each operation runs by itself, uncompiled, so that breakpoints and
                `print` work in the loss; the environment stays compiled. On one device.
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
        traced = None if eager else loss
        check_modules(environment, policy, traced, precision, sizes)
        rematerialized(policy, remat)  # says whether it can be done
        mesh = mesh_of(mesh, sizes)
        if offload_optimizer:
            check_offload(mesh.local_devices[0])
        # Only an auxiliary loss looks at the parts of the reward of single steps.
        auxiliary = getattr(loss, "auxiliary", None) is not None
        algorithm = PPO(
            environment=environment,
            collect=ShardedCollector(
                RolloutCollector(
                    sizes.num_steps,
                    terms=environment.spec.terms if auxiliary else (),
                    keep_log_probs=bool(getattr(loss, "needs_old_log_probs", False)),
                ),
                mesh,
            ),
            estimate=gae,
            loss=loss,
            precision=precision,
            optimizer=optimizer,
            learning_rate=learning_rate,
            batches=sizes.minibatches,
            mesh=mesh,
            num_envs=sizes.num_envs,
            value_scale=value_scale,
            target_kl=target_kl_of(target_kl),
            grad_accum=sizes.grad_accum,
            remat=remat,
            offload=offload_optimizer,
        )
        program = eager_program(algorithm) if eager else None
        self._begin_with(algorithm, policy, updates_per_dispatch, clock, program)

    @classmethod
    def of(
        cls,
        algorithm: A,
        policy: ActorCritic,
        *,
        updates_per_dispatch: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ) -> "Trainer[A]":
        """A trainer that repeats any algorithm.

        Args:
            algorithm: to repeat.
            policy: to start from; it is copied, not changed.
            updates_per_dispatch: as in the constructor.
            clock: as in the constructor.

        Raises:
            TypeError: an argument of the wrong kind.
            ValueError: `updates_per_dispatch` is less than 1.
        """
        instance("algorithm", algorithm, Algorithm, "an Algorithm, such as PPO(...)")
        check_is_policy(policy)
        trainer: Trainer[A] = cls.__new__(cls)
        trainer._begin_with(algorithm, policy, updates_per_dispatch, clock, None)
        return trainer

    def _begin_with(
        self,
        algorithm: A,
        policy: ActorCritic,
        updates_per_dispatch: int,
        clock: Callable[[], float],
        eager: Program | None,
    ) -> None:
        self.algorithm = algorithm
        self.updates_per_dispatch = whole("updates_per_dispatch", updates_per_dispatch)
        self._policy = policy
        self._clock = clock
        self._eager = eager
        self._state: AlgorithmState | None = None
        self._abstract: AlgorithmState | None = None
        self._starter: Callable[..., AlgorithmState] | None = None
        self._program: Callable[..., Any] | None = None
        self._compiled: jax.stages.Compiled | None = None

    @property
    def mesh(self) -> Mesh:
        """The devices that train."""
        return self.algorithm.mesh

    @property
    def environment(self) -> Environment:
        """The environment that the policy is trained in."""
        return self.algorithm.environment

    @property
    def batch_size(self) -> int:
        """Environment steps of one update."""
        return self.algorithm.steps_per_update

    @property
    def policy(self) -> ActorCritic:
        """A copy of the policy as it is now, on one device, wherever training has it."""
        if self._state is None:
            return self._policy
        return gather(self.algorithm.policy(self._state), self.mesh)

    @property
    def state(self) -> Any:
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
    def state(self, state: Any) -> None:
        placed = self.place(state)
        if self._state is None or sizes_of(placed) != sizes_of(self._state):
            self._program = None
        self._state = placed

    def place(self, state: Any) -> Any:
        """A copy of a state on this trainer's mesh, from the host's memory or another mesh."""
        return place(state, self._shardings(state))

    def _shardings(self, state: Any) -> Any:
        return self.algorithm.shardings(state)

    def abstract_state(self) -> Any:
        """The state that `start` makes, but for its arrays their shapes, dtypes and shardings."""
        if self._abstract is None:
            given = (self.algorithm, jax.random.key(0), self._policy)
            shapes = eqx.filter_eval_shape(_init, *given)
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
        given, code = eqx.partition((self.algorithm, self._policy), eqx.is_array)
        if self._starter is None:

            def begin(key: Key[Array, ""], given: Any) -> Any:
                algorithm, policy = eqx.combine(given, code)
                return eqx.filter(_init(algorithm, key, policy), eqx.is_array)

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
        if self._program is None and self._eager is not None:
            self._program = self._eager
        if self._program is None:
            compiled = self.lower().compile(compiler_options(self.mesh))
            rest = eqx.filter(self.state, eqx.is_array, inverse=True)
            modules = eqx.filter(self.algorithm, eqx.is_array)
            modules = place(modules, replicated_shardings(self.mesh, modules))

            def run(state: Any, count: int) -> tuple[Any, PyTree[Array]]:
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
        modules, code = eqx.partition(shapes_of(self.algorithm), is_shape)
        # An environment's own arrays may be anywhere; they are placed on the mesh to run.
        modules = located(modules, replicated_shardings(self.mesh, modules))
        shardings = self._shardings(arrays)

        def program(arrays: Any, modules: Any, count: Int32[Array, ""]) -> Any:
            algorithm, state = eqx.combine(modules, code), eqx.combine(arrays, rest)
            state, sums = run_updates(algorithm, state, count)
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
        assert self._compiled is not None, "an eager trainer has no compiled program"
        return program_bytes(self._compiled)

    def train(
        self,
        total_timesteps: int,
        *,
        key: Key[Array, ""] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Iterator[Metrics]:
        """Trains, and tells after each dispatch how it goes.

        Args:
            total_timesteps: environment steps to reach, over all environments and counted
                from the start of training; whole updates are done.
            key: to start anew with; `None` to go on from `state`.
            callbacks: each is called as `callback(trainer, metrics)` after each dispatch, in
                this order. What it returns (numbers by name, or nothing) joins the metrics; by
                `raise hm.StopTraining` it ends the training after this dispatch.

        Returns:
            The metrics of each dispatch. Nothing is done unless they are asked for; `fit` does
            all of it.

        Raises:
            TypeError: the total is no number, the key no random key, or a callback no function.
            ValueError: there is nothing to go on from, and no key.
        """
        callbacks = check_callbacks(callbacks)
        if number("total_timesteps", total_timesteps) < 1:
            raise ValueError(f"total_timesteps must be at least 1, not {total_timesteps}")
        if key is not None:
            self.start(key)
        elif self._state is None:
            raise ValueError("train needs a key to start with: train(..., key=jax.random.key(0))")
        return self._train(total_timesteps, callbacks)

    def _train(self, total_timesteps: int, callbacks: Sequence[Callback]) -> Iterator[Metrics]:
        self.compile()
        stop = False
        while not stop and (missing := total_timesteps - int(self.state.env_steps)) > 0:
            updates = math.ceil(missing / self.batch_size)
            metrics = self.dispatch(min(updates, self.updates_per_dispatch))
            metrics, stop = call_back(callbacks, self, metrics)
            yield metrics

    def fit(
        self,
        total_timesteps: int,
        *,
        key: Key[Array, ""] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Metrics | None:
        """Trains to the end in one call. For those who prefer callbacks to the loop of `train`.

        Args:
            total_timesteps: as for `train`; so are the others.
            key: likewise.
            callbacks: likewise.

        Returns:
            The metrics of the last dispatch; `None` where nothing was left to do.

        Raises:
            TypeError: as for `train`.
            ValueError: likewise.
        """
        last = None
        for metrics in self.train(total_timesteps, key=key, callbacks=callbacks):
            last = metrics
        return last

    def save(self, path: epath.PathLike) -> None:
        """Writes the whole state of the training into one file, to go on from by `load`.

        The modules are not in it: whoever loads it composes the trainer anew. With several
        processes, each calls this, and process 0 writes.

        Args:
            path: of the file; what is there is replaced, whole or not at all.

        Raises:
            ValueError: training has not started.
            OSError: the file cannot be written.
        """
        state = self.state

        def to_host(leaf: jax.Array) -> np.ndarray:
            leaf = on_device(leaf)
            return np.asarray(leaf if leaf.is_fully_addressable else gather(leaf, self.mesh))

        write_tree(path, TRAINING, state, to_host=to_host, write=is_process_zero())

    def load(self, path: epath.PathLike) -> None:
        """Goes on where `save` was called: the same bits follow as if training had gone on there.

        Args:
            path: of a file of `save`, by a trainer of the same environment, policy, optimizer
                and sizes. How many devices there are does not matter.

        Raises:
            ConfigError: there is no such file, it is damaged, or does not fit this trainer; the
                message names the array.
        """
        stored, like = read_tree(path, TRAINING), self.abstract_state()
        if (wrong := stored.mismatch(like, stored="the file", here="the modules here")) is not None:
            raise ConfigError(f"{path}: does not fit this trainer: {wrong}.")
        self.state = stored.fill(like)

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
        metrics = self.algorithm.metrics(
            sums,
            Dispatch(
                count=updates,
                updates=int(self.state.update),
                env_steps=int(self.state.env_steps),
                seconds=self._clock() - began,
            ),
        )
        return replace(metrics, dispatched=updates)


def _init(algorithm: Algorithm[State], key: Key[Array, ""], policy: ActorCritic) -> State:
    return algorithm.init(key, policy)
