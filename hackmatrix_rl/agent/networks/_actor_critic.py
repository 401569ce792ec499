"""The interface of a network to the rest of the package, and the dtype in which it computes."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, PyTree

from hackmatrix_rl.agent.networks._blocks import WrappedBlock
from hackmatrix_rl.agent.networks._layers import Dense, Heads
from hackmatrix_rl.agent.precision import parameters_of
from hackmatrix_rl.env import Encoder, EnvSpec, Features, FeatureSplit
from hackmatrix_rl.system.errors import is_ours

M = TypeVar("M", bound=eqx.Module)

TrunkOutput = tuple[Float[Array, " width"], PyTree[Array]]
"""The input of the heads, and the next carry."""


def compute_dtype(module: PyTree) -> np.dtype[Any]:
    """The narrowest floating-point dtype of a module's parameters; float32 without parameters."""
    dtypes = [leaf.dtype for leaf in jax.tree.leaves(parameters_of(module))]
    real = [dtype for dtype in dtypes if jnp.issubdtype(dtype, jnp.floating)]
    return min(real, key=lambda dtype: dtype.itemsize, default=jnp.dtype(jnp.float32))


def encoding_in(module: M, dtype: Any) -> tuple[M, bool]:
    """The module with features in a dtype from all encoders within, and whether there is one."""
    found = False

    def copied(module: Any) -> Any:
        copy = object.__new__(type(module))
        for name, value in vars(module).items():
            object.__setattr__(copy, name, jax.tree.map(replaced, value, is_leaf=is_node))
        return copy

    def is_node(value: Any) -> bool:
        return isinstance(value, Encoder | EnvSpec | eqx.Module)

    def replaced(node: Any) -> Any:
        nonlocal found
        if isinstance(node, Encoder):
            found = True
            return replace(node, dtype=dtype)
        if isinstance(node, EnvSpec):
            return replace(node, encode=replaced(node.encode))
        return copied(node) if isinstance(node, eqx.Module) else node

    encoding: M = copied(module)
    return encoding, found


def following_parameters(module: M) -> M:
    """A network with a trunk, with features in the dtype of its parameters."""
    dtype = compute_dtype(module)
    return module if dtype == jnp.float32 or is_ours(module) else encoding_in(module, dtype)[0]


def in_compute_dtype(call: Callable[..., Any]) -> Callable[..., Any]:
    """A network's `__call__` under jmp's rule: inputs in the compute dtype, results in float32.

    The carry stays float32. So does an observation from which an encoder makes the features.
    """

    @wraps(call)
    def called(network: Any, observation: PyTree, carry: PyTree) -> Any:
        dtype = compute_dtype(network)
        if dtype == jnp.float32:
            return call(network, observation, carry)
        network, encodes = encoding_in(network, dtype)
        if not encodes:
            observation = _cast(observation, jnp.float32, dtype)
        return _cast(call(network, observation, carry), dtype, jnp.float32)

    return called


def _cast(tree: PyTree, old: Any, new: Any) -> PyTree:
    def cast(leaf: Any) -> Any:
        return leaf.astype(new) if eqx.is_array(leaf) and leaf.dtype == old else leaf

    return jax.tree.map(cast, tree)


class ActorCritic(eqx.Module):
    """A policy and a value estimate over one observation, with or without memory.

    Both methods work on ONE environment; callers use `jax.vmap`. An `Evaluator` applies a network
    to batches and sequences (see `evaluator_of`).

    A network computes in the dtype of its parameters, so a cast of the parameters casts the
    computation (see `PrecisionPolicy`). The class sees to it that `__call__` follows jmp's rule.
    If the parameters are bfloat16 or float16, then so are the features of `EnvSpec.encode` and, in
    a network without it, the observation. Logits and value become float32.

    The carry is float32 for every dtype of the parameters: it lives for many steps, and the
    rounding errors of 16 bits would add up. A layer that reads it should get
    `carry.astype(features.dtype)`.

    The value is in the units of the `ValueScale` that the network is trained with. Only with
    `IdentityScale` these are units of reward.

    A class that is marked `typing.final` cannot be subclassed, and a final method cannot be
    overridden. So a network runs the same code when it acts and when it learns.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Applies jmp's rule to `__call__`; refuses to override what is final."""
        super().__init_subclass__(**options)
        for base in cls.__mro__[1:]:
            if vars(base).get("__final__", False):
                raise TypeError(
                    f"{cls.__name__}: {base.__name__} is final, so that it learns by the function "
                    f"that it acts by. Wrap it (an ActorCritic with a {base.__name__} in one of "
                    "its fields), or write an ActorCritic or a TrunkActorCritic"
                )
            for name in vars(base):
                method = getattr(base, name)
                if getattr(method, "__final__", False) and getattr(cls, name) is not method:
                    raise TypeError(
                        f"{cls.__name__}.{name}: {base.__name__}.{name} is final. Write the "
                        f"abstract methods of {base.__name__} instead, or an ActorCritic, which "
                        "has its own __call__"
                    )
        call = vars(cls).get("__call__")
        # The final one calls a trunk, to which an evaluator applies the rule. To mypy, a method
        # cannot be assigned.
        if call is not None and not getattr(call, "__final__", False):
            cls.__call__ = in_compute_dtype(call)  # type: ignore[method-assign]

    def initial_carry(self) -> PyTree[Array]:
        """The memory at the start of an episode. The default `()` means no memory."""
        return ()

    @abstractmethod
    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        """Evaluates one observation.

        Args:
            observation: one observation with the shapes of `EnvSpec.observation`.
            carry: the carry that the last call returned, or `initial_carry()`.

        Returns:
            The logits of all actions, including illegal ones; the value; and the next carry.
        """


def reset_carry(
    carry: PyTree[Array], initial: PyTree[Array], ended: Bool[Array, " batch"]
) -> PyTree[Array]:
    """The carries of a batch, each leaf `[batch, ...]`, reset to `initial` where an episode ended.

    `initial` has no batch axis.
    """

    def choose(leaf: Array, first: Array) -> Array:
        where = ended.reshape(-1, *(1 for _ in first.shape))
        return jnp.where(where, first[None], leaf)

    return jax.tree.map(choose, carry, initial)


class TrunkActorCritic(ActorCritic):
    """A network made of a trunk, and heads that compute logits and value from its output.

    The output of the trunk is the last hidden layer. An auxiliary loss can learn from it, too. A
    subclass has `heads` and defines `trunk` instead of `__call__`.
    """

    heads: eqx.AbstractVar[Heads]

    @abstractmethod
    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        """The input of the heads, and the next carry; arguments as in `__call__`."""

    @final
    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        hidden, carry = self.trunk(observation, carry)
        logits, value = self.heads(hidden)
        return logits, value, carry


class RecurrentActorCritic(TrunkActorCritic):
    """A network in two parts: `drive`, which does not need the memory, and `advance`, which does.

    In learning, `drive` runs on all steps at once, and only `advance` runs in a loop.
    """

    @abstractmethod
    def drive(self, observation: PyTree[Array]) -> PyTree[Array]:
        """The input of the memory from one observation."""

    @abstractmethod
    def advance(self, driven: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        """One step of the memory: the input of the heads, and the memory after the step."""

    @final
    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        return self.advance(self.drive(observation), carry)


class DenseInputActorCritic(TrunkActorCritic):
    """A network without memory, whose first layer is a dense layer over all features.

    If the environment's spec has a split of its features, this layer needs less work (see
    `_sparse_first_layer.py`).
    """

    encode: eqx.AbstractVar[Callable[[PyTree], Features]]
    #: The split of these features; `None` if the spec has none.
    split: eqx.AbstractVar[FeatureSplit | None]

    @property
    @abstractmethod
    def first_layer(self) -> Dense:
        """The layer over `Features.ravel()`."""

    @abstractmethod
    def above_first(self, first: Float[Array, " outputs"]) -> Float[Array, " width"]:
        """The input of the heads, from the first layer's output before any nonlinearity."""

    @final
    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        return self.above_first(self.first_layer(self.encode(observation).ravel())), carry


class BlockActorCritic(TrunkActorCritic):
    """A network of equal blocks."""

    #: All blocks as one module, each array with a leading axis of blocks. The trunk scans over
    #: them, and calls each as `block(hidden)`. `remat="blocks"` puts another module with the same
    #: call in their place.
    blocks: eqx.AbstractVar[Callable[[Array], Array]]

    @final
    def through_blocks(self, hidden: Array, *, unroll: bool = False) -> Array:
        """The output of the last block; `unroll` applies them without a loop.

        Wrapped blocks are always in a loop: without it, a compiler may merge what a block computes
        twice, or gather all blocks at once.
        """
        unroll = unroll and not isinstance(self.blocks, WrappedBlock)
        return jax.lax.scan(
            lambda hidden, block: (block(hidden), None), hidden, self.blocks, unroll=unroll
        )[0]
