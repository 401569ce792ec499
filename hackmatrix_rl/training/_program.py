"""The programs of a training: its initial state, and several updates, compiled or eager."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int32, Key, PyTree

from hackmatrix_rl.agent import as_arguments
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Environment, EnvSpec, Timestep
from hackmatrix_rl.system import cpu_options, gpu_options, is_here
from hackmatrix_rl.training._algorithm import Algorithm, AlgorithmState, RunsEagerly, State
from hackmatrix_rl.training.compiled import Operations, operations_of_update
from hackmatrix_rl.training.sharding import REPLICATED, constrain, place, replicated_shardings

T = TypeVar("T")
A = TypeVar("A", bound=Algorithm[Any])
Program = Callable[[Any, int], tuple[Any, PyTree[Array]]]
"""A function of a state and a number of updates: the next state, and the sum of the reports."""


def run_updates(
    algorithm: Algorithm[State], state: State, count: Int32[Array, ""]
) -> tuple[State, PyTree[Array]]:
    """Runs `count` updates on the device; returns the last state and the sum of the reports.

    `count` is an argument of the program, so one program also serves a shorter last dispatch.
    """
    arrays, rest = eqx.partition((algorithm, state), eqx.is_array)
    modules, arrays = arrays

    # Jitted, so it is traced once for both uses.
    @jax.jit
    def once(modules: Any, arrays: Any) -> tuple[Any, PyTree[Array]]:
        algorithm, state = eqx.combine((modules, arrays), rest)
        state, report = algorithm(state)
        state = constrain(state, algorithm.shardings(state))
        return eqx.filter(state, eqx.is_array), report

    _, report = jax.eval_shape(once, modules, arrays)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), report)

    def body(_: Int32[Array, ""], carry: tuple[Any, PyTree[Array]]) -> tuple[Any, PyTree[Array]]:
        arrays, sums = carry
        arrays, report = once(modules, arrays)
        return arrays, jax.tree.map(jnp.add, sums, report)

    arrays, sums = jax.lax.fori_loop(0, count, body, (arrays, zeros))
    return eqx.combine(arrays, rest[1]), sums


def traced(algorithm: Algorithm[State], state: State) -> jax.stages.Traced:
    """The program of a dispatch, neither lowered nor compiled.

    `state` has shapes with shardings.
    """
    arrays, rest = eqx.partition(state, is_shape)
    modules, code = eqx.partition(shapes_of(_arguments(algorithm)), is_shape)
    # Arrays of an environment may be on any device. `bind` places them on the mesh.
    modules = located(modules, replicated_shardings(algorithm.mesh, modules))
    # A list, which fits any algorithm of the same settings: functions in a structure are compared
    # by identity.
    modules, structure = jax.tree.flatten(modules)

    def program(arrays: Any, modules: list[Array], count: Int32[Array, ""]) -> Any:
        algorithm = eqx.combine(jax.tree.unflatten(structure, modules), code)
        state, sums = run_updates(algorithm, eqx.combine(arrays, rest), count)
        return eqx.filter(state, eqx.is_array), sums

    # The state is donated: the next state is written into its memory.
    jitted = jax.jit(
        program,
        donate_argnums=0,
        out_shardings=(algorithm.shardings(arrays), NamedSharding(algorithm.mesh, REPLICATED)),
    )
    return jitted.trace(arrays, modules, jax.ShapeDtypeStruct((), jnp.int32))


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """A compiled program of `traced`, which serves every algorithm and state that it `fits`."""

    executable: jax.stages.Compiled
    operations: Operations | None  #: Of one update.
    sizes: Any  #: Of the states and of the algorithm's arrays; see `sizes_of_program`.

    def fits(self, algorithm: Algorithm[State], state: State) -> bool:
        """Whether it is the program of this algorithm, of the same settings, for this state."""
        return bool(self.sizes == sizes_of_program(algorithm, state))

    def bind(self, algorithm: Algorithm[State], state: State) -> Program:
        """The program as a function of a state and a number of updates."""
        rest = eqx.filter(state, eqx.is_array, inverse=True)
        modules = jax.tree.leaves(eqx.filter(_arguments(algorithm), eqx.is_array))
        modules = place(modules, replicated_shardings(algorithm.mesh, modules))

        def run(state: Any, count: int) -> tuple[Any, PyTree[Array]]:
            given = eqx.filter(state, eqx.is_array), modules, np.int32(count)
            arrays, sums = self.executable(*given)
            return eqx.combine(arrays, rest), sums

        return run


@dataclass(frozen=True, eq=False)
class LoweredProgram:
    """A lowered program of `traced`."""

    lowered: jax.stages.Lowered
    mesh: Mesh
    operations: Operations | None
    sizes: Any

    @classmethod
    def of(
        cls, traced: jax.stages.Traced, algorithm: Algorithm[State], state: State
    ) -> "LoweredProgram":
        """The lowered program of an algorithm, for a state of arrays or of shapes."""
        sizes = sizes_of_program(algorithm, state)
        return cls(traced.lower(), algorithm.mesh, operations_of_update(traced.jaxpr), sizes)

    def compile(self) -> CompiledProgram:
        executable = self.lowered.compile(compiler_options(self.mesh))
        return CompiledProgram(executable, self.operations, self.sizes)


def sizes_of_program(algorithm: Algorithm[State], state: State) -> tuple[Any, ...]:
    """The sizes of a state, and the shapes and dtypes of the algorithm's arrays."""
    arrays = jax.tree.leaves(eqx.filter(_arguments(algorithm), eqx.is_array))
    return sizes_of(state), [(leaf.shape, leaf.dtype) for leaf in arrays]


def _arguments(algorithm: A) -> A:
    """The algorithm with the numbers of its schedules as arrays: arguments, not constants."""
    return as_arguments(without_policy(algorithm))


def without_policy(algorithm: A) -> A:
    """The algorithm without its initial policy, which would waste memory on every device."""
    return eqx.tree_at(lambda each: each.initial_policy, algorithm, None)


def compiler_options(mesh: Mesh, *, once: bool = False) -> dict[str, str | bool]:
    """The compiler options for programs on these devices.

    CPUs and GPUs get options for this version of jaxlib (`system/_compatibility.py`). TPUs get
    XLA's defaults, as do all devices with `jax_disable_most_optimizations`. Without a GPU on this
    machine, kernels cannot be autotuned. `once` is for a program that runs only once, for which
    compilation dominates.
    """
    device = mesh.devices.flat[0]
    if device.platform == "gpu" and not is_here(device):
        return {**gpu_options(), "xla_gpu_autotune_level": "0"}
    if jax.config.read("jax_disable_most_optimizations"):
        return {}
    if device.platform == "cpu":
        return cpu_options(once=once)
    return gpu_options() if device.platform == "gpu" else {}


def is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def shapes_of(tree: T) -> T:
    """The tree with shapes, and their shardings, in place of arrays."""

    def shape(leaf: Any) -> Any:
        if not eqx.is_array(leaf):
            return leaf
        sharding = getattr(leaf, "sharding", None)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.tree.map(shape, tree)


def located(shapes: T, shardings: Any) -> T:
    """The shapes, each with its sharding."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes,
        shardings,
    )


def sizes_of(state: AlgorithmState) -> tuple[Any, ...]:
    """The structure, shapes and dtypes of a state. States with equal ones share a program."""
    arrays = eqx.filter(state, lambda leaf: eqx.is_array(leaf) or is_shape(leaf))
    leaves, structure = jax.tree.flatten(arrays)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def first_state(
    algorithm: Algorithm[State], policy: ActorCritic, generator: str | None = None
) -> State:
    """The initial state, with a shape, dtype and sharding in place of each array.

    `generator` is the implementation of its random keys (`rbg`); by default JAX's default.
    """
    shapes = eqx.filter_eval_shape(algorithm.init, jax.random.key(0, impl=generator), policy)
    arrays, rest = eqx.partition(shapes, is_shape)
    return eqx.combine(located(arrays, algorithm.shardings(shapes)), rest)


class Starter:
    """Makes initial states of one algorithm, and others of the same settings, with one program."""

    def __init__(self, algorithm: Algorithm[Any], policy: ActorCritic) -> None:
        algorithm = without_policy(algorithm)
        shapes, self._rest = eqx.partition(first_state(algorithm, policy), is_shape)
        arrays, code = eqx.partition((algorithm, policy), eqx.is_array)
        structure = jax.tree.structure(arrays)  # see `traced`
        self._mesh = algorithm.mesh
        self._shapes = [
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in _given(algorithm, policy)
        ]

        def begin(key: Key[Array, "*members"], given: list[Array]) -> Any:
            algorithm, policy = eqx.combine(jax.tree.unflatten(structure, given), code)
            return eqx.filter(algorithm.init(key, policy), eqx.is_array)

        # The state is made with its final sharding, so no device holds all of it.
        self._begin: Any = jax.jit(
            begin,
            out_shardings=algorithm.shardings(shapes),
            compiler_options=compiler_options(algorithm.mesh, once=True),
        )

    def fits(self, algorithm: Algorithm[Any], policy: ActorCritic) -> bool:
        """Whether it is the program of this algorithm, of the same settings."""
        there = _given(without_policy(algorithm), policy)
        sizes = [(leaf.shape, leaf.dtype) for leaf in there]
        return sizes == [(leaf.shape, leaf.dtype) for leaf in self._shapes]

    def compile(self, key: Key[Array, "*members"]) -> None:
        """Compiles the program before its first call, for keys of this shape."""
        shapes = shapes_of((key, self._shapes))
        there = located(shapes, replicated_shardings(self._mesh, shapes))
        self._begin = self._begin.lower(*there).compile()

    def __call__(
        self, key: Key[Array, "*members"], algorithm: Algorithm[State], policy: ActorCritic
    ) -> State:
        given = (key, _given(without_policy(algorithm), policy))
        made = self._begin(*place(given, replicated_shardings(self._mesh, given)))
        return eqx.combine(made, self._rest)


def _given(algorithm: Algorithm[Any], policy: ActorCritic) -> list[Array]:
    """The arrays that the first state depends on, as a list; see `traced`."""
    return jax.tree.leaves(eqx.filter((algorithm, policy), eqx.is_array))


def eager_program(algorithm: Algorithm[Any]) -> Program:
    """A program that runs each operation uncompiled, so breakpoints and `print` work.

    Raises a ValueError if the algorithm does not support it.
    """
    if not isinstance(algorithm, RunsEagerly):
        raise ValueError(
            f"{type(algorithm).__name__} cannot run operation by operation; use eager=False"
        )
    update = algorithm.eager()

    def run(state: Any, count: int) -> tuple[Any, PyTree[Array]]:
        with jax.disable_jit():
            state, sums = update(state)
            for _ in range(count - 1):
                state, report = update(state)
                sums = jax.tree.map(jnp.add, sums, report)
        return state, sums

    return run


class CompiledEnvironment(Environment):
    """An environment that stays compiled inside `jax.disable_jit()`.

    A step of HackMatrix has thousands of operations.
    """

    environment: Environment

    @property
    def spec(self) -> EnvSpec:
        return self.environment.spec

    @property
    def truncates(self) -> bool:
        return self.environment.truncates

    @property
    def pure(self) -> bool:
        return self.environment.pure

    def reset(self, keys: Key[Array, " num_envs"]) -> tuple[PyTree[Array], Timestep]:
        with jax.disable_jit(False):
            return eqx.filter_jit(self.environment.reset)(keys)

    def step(
        self,
        state: PyTree[Array],
        actions: Int32[Array, " num_envs"],
        keys: Key[Array, " num_envs"],
    ) -> tuple[PyTree[Array], Timestep]:
        with jax.disable_jit(False):
            return eqx.filter_jit(self.environment.step)(state, actions, keys)
