"""Networks whose policy and value look at one hidden layer."""

from abc import abstractmethod
from collections.abc import Callable
from typing import final

import equinox as eqx
from jaxtyping import Array, Float, Float32, PyTree

from hackmatrix_rl.agent.networks._actor_critic import ActorCritic
from hackmatrix_rl.agent.networks._layers import Dense, Heads
from hackmatrix_rl.env import Features, FeatureSplit


class TrunkActorCritic(ActorCritic):
    """A trunk, and heads for logits and value on top of it.

    The hidden layer that the heads look at is open to others: an auxiliary loss learns from it
    too. A subclass has `heads`, and writes `trunk` instead of `__call__`.

    Attributes:
        heads: logits and value.
    """

    heads: eqx.AbstractVar[Heads]

    @abstractmethod
    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """What the heads look at, and the next carry; arguments as those of a call."""

    @final
    def __call__(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""], PyTree[Array]]:
        """Logits, value and the next carry."""
        hidden, carry = self.trunk(observation, carry)
        logits, value = self.heads(hidden)
        return logits, value, carry


class RecurrentActorCritic(TrunkActorCritic):
    """A network in two parts: one that needs no memory, and the step of the memory.

    In learning, the first part runs on all steps at once, and only the second in a loop.
    """

    @abstractmethod
    def drive(self, observation: PyTree[Array]) -> PyTree[Array]:
        """What one observation sends to the memory."""

    @abstractmethod
    def advance(
        self, driven: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """One step of the memory.

        Args:
            driven: what `drive` returned.
            carry: the memory before the step.

        Returns:
            What the heads look at, and the memory after the step.
        """

    @final
    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """`advance` after `drive`."""
        return self.advance(self.drive(observation), carry)


class DenseInputActorCritic(TrunkActorCritic):
    """A network without memory whose first layer is dense and looks at all features.

    Where the environment's spec says how its features split, that layer is computed with less
    work (see `sparse_first_layer`).

    Attributes:
        encode: turns an observation into features.
        split: how these features split; `None` where that is not known.
    """

    encode: eqx.AbstractVar[Callable[[PyTree], Features]]
    split: eqx.AbstractVar[FeatureSplit | None]

    @property
    @abstractmethod
    def first_layer(self) -> Dense:
        """The layer over `Features.ravel()`."""

    @abstractmethod
    def above_first(self, first: Float[Array, " outputs"]) -> Float[Array, " width"]:
        """What the heads look at.

        Args:
            first: the first layer's result for one observation, before any nonlinearity.
        """

    @final
    def trunk(
        self, observation: PyTree[Array], carry: PyTree[Array]
    ) -> tuple[Float[Array, " width"], PyTree[Array]]:
        """What the heads look at, and the (empty) carry."""
        return self.above_first(self.first_layer(self.encode(observation).ravel())), carry


class BlockActorCritic(TrunkActorCritic):
    """A network of equal blocks.

    Attributes:
        blocks: all blocks as one module, each array with a leading axis of blocks. The trunk
            scans over them, and calls each as `block(hidden)`. `remat="blocks"` puts another
            module with the same call in their place.
    """

    blocks: eqx.AbstractVar[Callable[[Array], Array]]
