"""Numbers that change over training, as float32 functions of environment steps."""

import math
import numbers
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32

from hackmatrix_rl.system.errors import finite

T = TypeVar("T")


class Schedule(eqx.Module):
    """A number as a function of environment steps.

    Unlike gradient steps, environment steps mean the same for any number of epochs and
    minibatches, and after a resume with another batch.
    """

    @abstractmethod
    def __call__(self, env_steps: Float32[Array, ""]) -> Float32[Array, ""]:
        """The number after `env_steps` steps over all environments."""


Scheduled = float | Schedule | Float32[Array, ""]
"""A number of a loss or an estimator: fixed, a schedule, or a result of `resolve_schedules`."""


class Constant(Schedule):
    """A constant number."""

    value: float

    def __call__(self, env_steps: Float32[Array, ""]) -> Float32[Array, ""]:
        return _float32(self.value)


class _Ramp(Schedule):
    """Interpolates between two numbers, constant after its end."""

    initial: float
    final: float
    over: int

    def __check_init__(self) -> None:
        if self.over < 1:
            kind = type(self).__name__.lower()
            raise ValueError(f"a {kind} schedule must take at least 1 step, not {self.over}")

    def __call__(self, env_steps: Float32[Array, ""]) -> Float32[Array, ""]:
        part = self._progress(jnp.minimum(env_steps / _float32(self.over), 1.0))
        return self.initial + (self.final - self.initial) * part

    @abstractmethod
    def _progress(self, part: Float32[Array, ""]) -> Float32[Array, ""]:
        """The fraction of the change that is done after a fraction of the steps."""


class Linear(_Ramp):
    """Linear interpolation between two numbers, constant after its end.

    Attributes:
        initial: the number at the start.
        final: the number from step `over` on.
        over: length of the interpolation in environment steps.
    """

    def _progress(self, part: Float32[Array, ""]) -> Float32[Array, ""]:
        return part


class Cosine(_Ramp):
    """Half a cosine wave between two numbers, constant after its end.

    The fields are the same as in `Linear`.

    Source: Loshchilov and Hutter 2017, "SGDR: stochastic gradient descent with warm restarts".
    """

    def _progress(self, part: Float32[Array, ""]) -> Float32[Array, ""]:
        return 0.5 - 0.5 * jnp.cos(math.pi * part)


class Piecewise(Schedule):
    """A piecewise constant number.

    Attributes:
        values: the numbers in order; the first one starts at step 0.
        starts: environment steps at which the others start.
    """

    values: tuple[float, ...]
    starts: tuple[int, ...]

    def __check_init__(self) -> None:
        if len(self.values) != len(self.starts) + 1 or [*self.starts] != sorted(self.starts):
            raise ValueError(
                f"a piecewise schedule of {len(self.values)} numbers needs {len(self.values) - 1} "
                f"steps in rising order at which the later ones start, not {self.starts}"
            )

    def __call__(self, env_steps: Float32[Array, ""]) -> Float32[Array, ""]:
        begun = sum((env_steps >= _float32(start)).astype(jnp.int32) for start in self.starts)
        return jnp.stack([_float32(each) for each in self.values])[begun]


class After(Schedule):
    """A delayed schedule, constant at its first number until it starts."""

    schedule: Schedule  #: The schedule.
    steps: int  #: Environment steps before its start.

    def __call__(self, env_steps: Float32[Array, ""]) -> Float32[Array, ""]:
        return self.schedule(jnp.maximum(env_steps - _float32(self.steps), 0.0))


class FromFunction(Schedule):
    """Wraps a function of environment steps, such as an optax schedule."""

    function: Callable[[Float32[Array, ""]], Any] = eqx.field(static=True)  #: Returns the number.

    def __call__(self, env_steps: Float32[Array, ""]) -> Float32[Array, ""]:
        return _float32(self.function(env_steps))


def as_arguments(tree: T) -> T:
    """Converts the numbers of this module's schedules in a tree to arrays.

    Arrays are arguments of a compiled program, Python numbers are constants in it: another learning
    rate, or another length of the training, would compile another program.
    """

    def arrays(node: Any) -> Any:
        if type(node) is After:
            parts = arrays(node.schedule), _float32(node.steps)
            return eqx.tree_at(lambda after: (after.schedule, after.steps), node, parts)
        return jax.tree.map(_float32, node) if type(node) in _PLAIN else node

    return jax.tree.map(arrays, tree, is_leaf=_is_schedule)


def _float32(number: Any) -> Float32[Array, "*members"]:
    """The number as an array; integers may exceed the range of int32."""
    is_plain = isinstance(number, int | float)
    return jnp.asarray(float(number) if is_plain else number, jnp.float32)


_PLAIN = (Constant, Linear, Cosine, Piecewise)


def ends_of(number: Any) -> tuple[float, ...]:
    """Numbers that bound a `Scheduled`; empty if they are unknown before the training."""
    if isinstance(number, After):
        return ends_of(number.schedule)
    if isinstance(number, Constant):
        return (number.value,)
    if isinstance(number, Piecewise):
        return number.values
    if isinstance(number, _Ramp):
        return number.initial, number.final
    return (float(number),) if isinstance(number, numbers.Real) else ()


def fraction_of(name: str, given: Any) -> Schedule:
    """Converts an argument to a schedule of numbers in [0, 1]; a number becomes a `Constant`.

    Raises:
        TypeError: it is neither a schedule nor a number.
        ValueError: a number is not in [0, 1].
    """
    schedule = given if isinstance(given, Schedule) else Constant(finite(name, given))
    if not all(0 <= end <= 1 for end in ends_of(schedule)):
        raise ValueError(f"{name} must be in [0, 1], not {given}")
    return schedule


def number_of(number: Scheduled) -> float | Float32[Array, ""]:
    """A `Scheduled` that is resolved; raises a TypeError for a schedule."""
    if isinstance(number, Schedule):
        raise TypeError(
            f"{type(number).__name__} is a schedule, not yet a number: call "
            "resolve_schedules(module, env_steps) first, as PPO does"
        )
    return number


def resolve_schedules(module: T, env_steps: Float32[Array, ""]) -> T:
    """The module with each schedule replaced by its current value.

    An algorithm calls this on its loss and its estimator before each update. `env_steps` counts
    from the start of training, over all environments.
    """

    def number(leaf: Any) -> Any:
        return leaf(env_steps) if isinstance(leaf, Schedule) else leaf

    return jax.tree.map(number, module, is_leaf=_is_schedule)


def scheduled_at(module: Any, env_steps: Float32[Array, ""]) -> dict[str, Float32[Array, ""]]:
    """The current value of each schedule in a module, by the name of its field."""
    leaves = jax.tree.leaves_with_path(module, is_leaf=_is_schedule)
    return {
        str(getattr(path[-1], "name", path[-1])): leaf(env_steps)
        for path, leaf in leaves
        if _is_schedule(leaf)
    }


def _is_schedule(leaf: Any) -> bool:
    return isinstance(leaf, Schedule)
