"""Networks whose policy and value share one hidden layer."""

from abc import abstractmethod
from collections.abc import Callable
from typing import final

import equinox as eqx
from jaxtyping import Array, Float, Float32, PyTree

from hackmatrix_rl.agent.networks._actor_critic import ActorCritic
from hackmatrix_rl.agent.networks._layers import Dense, Heads
from hackmatrix_rl.env import Features, FeatureSplit


class TrunkActorCritic(ActorCritic):
    """A network made of a trunk, and heads that compute logits and value from its output.

    The output of the trunk is the last hidden layer. An auxiliary loss can learn from it, too. A
    subclass has `heads` and defines `trunk` instead of `__call__`.

    Attributes:
        heads: the layers for logits and value.
    """

    heads: eqx.AbstractVar[Heads]

    @abstractmethod
    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """The input of the heads, and the next carry. The arguments are those of `__call__`."""

    @final
    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        """Logits, value and the next carry."""
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
    def advance(
        self, driven: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """One step of the memory.

        Args:
            driven: the result of `drive`.
            carry: the memory before the step.

        Returns:
            The input of the heads, and the memory after the step.
        """

    @final
    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """Calls `drive`, then `advance`."""
        return self.advance(self.drive(observation), carry)


class DenseInputActorCritic(TrunkActorCritic):
    """A network without memory, whose first layer is a dense layer over all features.

    If the environment's spec has a split of its features, this layer needs less work (see
    `_sparse_first_layer.py`).

    Attributes:
        encode: turns an observation into features.
        split: the split of these features; `None` if the spec has none.
    """

    encode: eqx.AbstractVar[Callable[[PyTree], Features]]
    split: eqx.AbstractVar[FeatureSplit | None]

    @property
    @abstractmethod
    def first_layer(self) -> Dense:
        """The layer over `Features.ravel()`."""

    @abstractmethod
    def above_first(self, first: Float[Array, " outputs"]) -> Float[Array, " width"]:
        """The input of the heads.

        Args:
            first: output of the first layer for one observation, before any nonlinearity.
        """

    @final
    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """The input of the heads, and the empty carry."""
        return self.above_first(self.first_layer(self.encode(observation).ravel())), carry


class BlockActorCritic(TrunkActorCritic):
    """A network of equal blocks.

    Attributes:
        blocks: all blocks as one module, each array with a leading axis of blocks. The trunk
            scans over them, and calls each as `block(hidden)`. `remat="blocks"` puts another
            module with the same call in their place.
    """

    blocks: eqx.AbstractVar[Callable[[Array], Array]]
