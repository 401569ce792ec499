"""Spaces of actions."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, no_type_check

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Float32, Int32, Key, Shaped

from hackmatrix_rl.system.errors import check_actions, check_array, described, whole

Mask = Bool[Array, " mask_size"]


class ActionSpace(ABC):
    """The actions of an environment: `Discrete`, `MultiDiscrete` or `Box`."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one action."""

    @property
    @abstractmethod
    def dtype(self) -> DTypeLike:
        """The dtype of an action."""

    @property
    def count(self) -> int:
        """The number of actions; 0 unless they are a list."""
        return 0

    @property
    @abstractmethod
    def mask_size(self) -> int:
        """The length of the mask of legal actions; 0 for a space without one."""

    @property
    def num_parameters(self) -> int:
        """The number of outputs of a policy, which parametrize its distribution of actions."""
        return self.mask_size

    def zeros(self, *batch: int) -> Shaped[Array, "*batch_and_shape"]:
        """Zeros with the shape and dtype of a batch of actions."""
        return jnp.zeros((*batch, *self.shape), self.dtype)

    def every(self) -> Bool[Array, " mask_size"]:
        """The mask with which all actions are legal."""
        return jnp.ones(self.mask_size, bool)

    def check(self, actions: Any, keys: Any) -> None:
        """Raises unless `actions` has one action for each of the keys."""
        shape, hint = (*keys.shape, *self.shape), "one action for each environment"
        check_array("actions is", actions, str(np.dtype(self.dtype)), shape, hint=hint)

    @abstractmethod
    def lacks_action(self, mask: Bool[np.ndarray, "batch mask_size"]) -> Bool[np.ndarray, " batch"]:
        """Where a mask leaves no action."""

    @abstractmethod
    def sample(self, mask: Mask, *, key: Key[Array, ""]) -> Shaped[Array, "*shape"]:
        """A uniformly random legal action; the first action if none is legal."""

    @property
    def num_features(self) -> int:
        """The length of `features`."""
        return self.mask_size

    @abstractmethod
    def features(self, action: Shaped[Array, "*shape"], dtype: DTypeLike) -> Float[Array, " n"]:
        """One action as the input of a network."""

    def clip(self, actions: Shaped[Array, "*batch_and_shape"]) -> Shaped[Array, "*batch_and_shape"]:
        """The nearest actions within the bounds; by default the same."""
        return actions


@dataclass(frozen=True)
class Discrete(ActionSpace):
    """One of `n` actions: an int32 from 0 to `n - 1`. The mask has `n` entries.

    Raises:
        TypeError: `n` is not an integer.
        ValueError: `n` is less than 1.
    """

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole("n", self.n))

    shape = ()
    dtype = np.dtype(np.int32)

    @property
    def count(self) -> int:
        return self.n

    @property
    def mask_size(self) -> int:
        return self.n

    def check(self, actions: Any, keys: Any) -> None:
        check_actions(actions, keys)

    def lacks_action(self, mask: Bool[np.ndarray, "batch mask_size"]) -> Bool[np.ndarray, " batch"]:
        return np.asarray(~mask.any(axis=1))

    def sample(self, mask: Mask, *, key: Key[Array, ""]) -> Int32[Array, ""]:
        lots = (jax.random.bits(key, mask.shape, jnp.uint32) >> 1).astype(jnp.int32)
        return jnp.argmax(jnp.where(mask, lots, np.int32(-1))).astype(jnp.int32)

    def features(self, action: Int32[Array, ""], dtype: DTypeLike) -> Float[Array, " n"]:
        return jax.nn.one_hot(action, self.n, dtype=dtype)


@no_type_check  # of beartype at run time: the constructor converts other sequences
@dataclass(frozen=True)
class MultiDiscrete(ActionSpace):
    """Several discrete parts at once: int32 `[parts]`. The mask concatenates the parts' masks.

    Attributes:
        sizes: number of actions of each part.

    Raises:
        TypeError: `sizes` is not a sequence of integers.
        ValueError: `sizes` is empty, or a size is less than 1.
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, tuple | list | np.ndarray):
            raise TypeError(
                f"sizes is {described(self.sizes)}; expected the number of actions of each part, "
                "such as MultiDiscrete((3, 2))"
            )
        sizes = tuple(whole(f"sizes[{part}]", size) for part, size in enumerate(self.sizes))
        if not sizes:
            raise ValueError("sizes is empty; expected the number of actions of each part")
        object.__setattr__(self, "sizes", sizes)

    dtype = np.dtype(np.int32)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.sizes),)

    @property
    def mask_size(self) -> int:
        return sum(self.sizes)

    def split(self, values: Any) -> list[Any]:
        """Values by action, such as a mask or logits, as one array for each part."""
        ends = np.cumsum(self.sizes).tolist()
        return [values[..., end - size : end] for size, end in zip(self.sizes, ends, strict=True)]

    def lacks_action(self, mask: Bool[np.ndarray, "batch mask_size"]) -> Bool[np.ndarray, " batch"]:
        return np.asarray(np.any([~part.any(axis=1) for part in self.split(mask)], axis=0))

    def sample(self, mask: Mask, *, key: Key[Array, ""]) -> Int32[Array, " parts"]:
        keys = jax.random.split(key, len(self.sizes))
        parts = zip(self.sizes, self.split(mask), keys, strict=True)
        return jnp.stack([Discrete(size).sample(part, key=key) for size, part, key in parts])

    def features(self, action: Int32[Array, " parts"], dtype: DTypeLike) -> Float[Array, " n"]:
        parts = zip(self.sizes, action, strict=True)
        return jnp.concatenate([Discrete(size).features(part, dtype) for size, part in parts])


@no_type_check  # of beartype, as above
@dataclass(frozen=True)
class Box(ActionSpace):
    """A vector of real numbers between bounds: float32 `[k]`. It has no mask.

    Attributes:
        low: the lower bound of each number; any sequence of numbers.
        high: the upper bound of each number.

    Raises:
        TypeError: a bound is not a sequence of numbers.
        ValueError: the bounds are empty, infinite or NaN, of different lengths, or a lower bound
            is not less than the upper one.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _bounds(name, getattr(self, name)))
        if len(self.low) != len(self.high):
            raise ValueError(
                f"low has {len(self.low)} numbers and high has {len(self.high)}; expected as many"
            )
        for number, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if not low < high:
                raise ValueError(
                    f"low[{number}] is {low} and high[{number}] is {high}; expected low < high"
                )

    dtype = np.dtype(np.float32)
    mask_size = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.low),)

    @property
    def num_parameters(self) -> int:
        return 2 * len(self.low)

    def clip(self, actions: Shaped[Array, "*batch k"]) -> Shaped[Array, "*batch k"]:
        low, high = (np.asarray(bound, np.float32) for bound in (self.low, self.high))
        return jnp.clip(actions, *(jnp.broadcast_to(bound, actions.shape) for bound in (low, high)))

    def lacks_action(self, mask: Bool[np.ndarray, "batch mask_size"]) -> Bool[np.ndarray, " batch"]:
        return np.zeros(mask.shape[0], bool)

    def sample(self, mask: Mask, *, key: Key[Array, ""]) -> Float32[Array, " k"]:
        low, high = (jnp.asarray(bound, jnp.float32) for bound in (self.low, self.high))
        return jax.random.uniform(key, self.shape, jnp.float32, low, high)

    @property
    def num_features(self) -> int:
        return len(self.low)

    def features(self, action: Float32[Array, " k"], dtype: DTypeLike) -> Float[Array, " k"]:
        return action.astype(dtype)

    def __str__(self) -> str:
        if len(self.low) <= 4:
            return f"Box({self.low}, {self.high})"
        return f"Box of {len(self.low)} numbers"


def _bounds(name: str, given: Any) -> tuple[float, ...]:
    numbers = np.zeros((), np.float32)
    with suppress(TypeError, ValueError):
        numbers = np.asarray(given, np.float32)
    if numbers.ndim != 1 or not numbers.size:
        raise TypeError(
            f"{name} is {described(given)}; expected one bound for each number of an action, such "
            "as Box((-1.0, 0.0), (1.0, 2.0))"
        )
    if not np.isfinite(numbers).all():
        odd = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ValueError(
            f"{name}[{odd}] is {numbers[odd]}; expected a finite bound: a policy scales its "
            "actions to the bounds"
        )
    return tuple(float(number) for number in numbers)


def as_space(actions: Any) -> ActionSpace:
    """A space of actions; a whole number becomes a `Discrete`.

    Raises:
        TypeError: `actions` is neither.
        ValueError: the number is less than 1.
    """
    if isinstance(actions, ActionSpace):
        return actions
    if isinstance(actions, bool) or not isinstance(actions, int | np.integer):
        raise TypeError(
            f"actions is {described(actions)}; expected hm.Discrete(n), hm.MultiDiscrete((n, m)), "
            "hm.Box(low, high), or a whole number, such as actions=2"
        )
    return Discrete(whole("actions", actions))
