"""The interface of a network, and the dtype in which it computes."""

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
from hackmatrix_rl.agent.networks._distributions import (
    Distribution,
    MaskedCategorical,
    Masks,
    Parameters,
)
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
    """Sets the dtype of all encoders in a module; also returns whether it has an encoder."""
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
    """Sets the encoders of a network with a trunk to the dtype of its parameters."""
    dtype, network = compute_dtype(module), getattr(module, "unnormalized", module)
    return module if dtype == jnp.float32 or is_ours(network) else encoding_in(module, dtype)[0]


def in_compute_dtype(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a network's `__call__`: inputs in the compute dtype, outputs in float32, as in jmp.

    The carry stays float32, as does an observation that the network's encoder reads.
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
    computation (see `PrecisionPolicy`). `__call__` follows the convention of jmp: if the parameters
    are bfloat16 or float16, then so are the features of `EnvSpec.encode` and, in a network without
    it, the observation. Logits and value are cast to float32. Subclasses need no code for this.

    The carry is float32 for every dtype of the parameters: over many steps, the rounding errors of
    16 bits would accumulate. A layer that reads it should get `carry.astype(features.dtype)`.

    The value is in the units of the `ValueScale` that the network is trained with: units of reward
    only with `IdentityScale`.

    A class that is marked `typing.final` cannot be subclassed, and a final method cannot be
    overridden. So a network runs the same code when it acts and when it learns.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Wraps `__call__` by `in_compute_dtype`; refuses to override what is final."""
        super().__init_subclass__(**options)
        for base in cls.__mro__[1:]:
            if vars(base).get("__final__", False):
                raise TypeError(
                    f"{cls.__name__}: {base.__name__} is final, because acting and learning must "
                    f"run the same code. Wrap it (an ActorCritic with a {base.__name__} in one of "
                    "its fields), or subclass ActorCritic or TrunkActorCritic"
                )
            for name in vars(base):
                method = getattr(base, name)
                if getattr(method, "__final__", False) and getattr(cls, name) is not method:
                    raise TypeError(
                        f"{cls.__name__}.{name}: {base.__name__}.{name} is final. Implement the "
                        f"abstract methods of {base.__name__} instead, or subclass ActorCritic "
                        "and write its __call__"
                    )
        call = vars(cls).get("__call__")
        # A final `__call__` calls a trunk, for which the evaluator sets the dtype. mypy forbids
        # assigning to a method.
        if call is not None and not getattr(call, "__final__", False):
            cls.__call__ = in_compute_dtype(call)  # type: ignore[method-assign]

    def initial_carry(self) -> PyTree[Array]:
        """The memory at the start of an episode. The default `()` means no memory."""
        return ()

    @abstractmethod
    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_parameters"], Float32[Array, ""], PyTree[Array]]:
        """Evaluates one observation.

        Args:
            observation: one observation with the shapes of `EnvSpec.observation`.
            carry: the carry that the last call returned, or `initial_carry()`.

        Returns:
            The parameters of the distribution of actions, `spec.actions.num_parameters`: the logits
            of all actions, including illegal ones; the value; and the next carry.
        """

    def distribution(self, parameters: Parameters, mask: Masks) -> Distribution:
        """The distribution of actions from the outputs of the network and the legal actions.

        By default the parameters are logits of a `MaskedCategorical`. A network for another space
        of actions returns another distribution, such as
        `DiagonalGaussian(parameters, spec.actions)`.
        """
        return MaskedCategorical(parameters, mask)


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

    The output of the trunk is the last hidden layer, which an auxiliary loss can use, too. A
    subclass has `heads` and defines `trunk` instead of `__call__`.
    """

    heads: eqx.AbstractVar[Heads]

    @abstractmethod
    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        """The input of the heads, and the next carry; arguments as in `__call__`."""

    @final
    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_parameters"], Float32[Array, ""], PyTree[Array]]:
        hidden, carry = self.trunk(observation, carry)
        logits, value = self.heads(hidden)
        return logits, value, carry

    def distribution(self, parameters: Parameters, mask: Masks) -> Distribution:
        return self.heads.distribution(parameters, mask)


class RecurrentActorCritic(TrunkActorCritic):
    """A network in two parts: `drive`, which does not need the memory, and `advance`, which does.

    In learning, `drive` runs on all steps as one batch, and only `advance` runs in a loop.
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

    If the environment's spec splits its features, `SparseFirstLayerEvaluator` computes this layer
    with less work.
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
    """A network of blocks of equal structure."""

    #: All blocks as one module, each array with a leading axis of blocks. The trunk scans over
    #: them, so the time to compile does not grow with their number, and calls each as
    #: `block(hidden)`. `remat="blocks"` replaces them by another module with the same call.
    blocks: eqx.AbstractVar[Callable[[Array], Array]]

    @final
    def through_blocks(self, hidden: Array, *, unroll: bool = False) -> Array:
        """The output of the last block; `unroll` applies them without a loop.

        Wrapped blocks always run in a loop: unrolled, a compiler may merge a block's recomputation
        with its first computation, or gather the weights of all blocks together.
        """
        unroll = unroll and not isinstance(self.blocks, WrappedBlock)
        return jax.lax.scan(
            lambda hidden, block: (block(hidden), None), hidden, self.blocks, unroll=unroll
        )[0]
