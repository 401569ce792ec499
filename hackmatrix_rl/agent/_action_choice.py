"""What chooses the actions of a rollout."""

from abc import abstractmethod

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent._collector_state import CollectorState
from hackmatrix_rl.agent._distribution import MaskedCategorical


class ActionChoice(eqx.Module):
    """Chooses the actions of a batch of environments, perhaps with a memory of its own."""

    @abstractmethod
    def choose(
        self,
        actors: CollectorState,
        chances: MaskedCategorical,
        memory: PyTree[Array],
        keys: Key[Array, " num_envs"],
    ) -> tuple[Int32[Array, " num_envs"], PyTree[Array], PyTree[Array]]:
        """Chooses an action in each environment.

        Args:
            actors: the environments before the action.
            chances: the policy's distribution over the actions.
            memory: of this choice; each leaf has a leading axis of environments.
            keys: one for each environment.

        Returns:
            The actions, the memory after them, and notes to keep for each step.
        """

    @abstractmethod
    def begin_anew(
        self, memory: PyTree[Array], done: Bool[Array, " num_envs"], keys: Key[Array, " num_envs"]
    ) -> PyTree[Array]:
        """The memory after an action, where new episodes may have begun.

        Args:
            memory: of this choice.
            done: whether the episode of each environment ended.
            keys: those of the action.
        """

    def counts(self, memory: PyTree[Array]) -> Bool[Array, " num_envs"] | None:
        """Whether the policy itself plays the episode of each environment; `None`: all.

        Episodes of another player are left out of the sums of a rollout.

        Args:
            memory: of this choice, after the action.
        """
        return None

    def state_value(
        self,
        logits: Float32[Array, "num_envs num_actions"],
        value: Float32[Array, " num_envs"],
        mask: Bool[Array, "num_envs num_actions"],
    ) -> Float32[Array, " num_envs"]:
        """The value of observations by the network's outputs: by default `value`.

        An algorithm whose logits are Q-values computes the value from them.

        Args:
            logits: the network's first output.
            value: its second output.
            mask: the legal actions.
        """
        return value


class Drawn(ActionChoice):
    """Draws the actions from the policy's distribution."""

    def choose(
        self,
        actors: CollectorState,
        chances: MaskedCategorical,
        memory: PyTree[Array],
        keys: Key[Array, " num_envs"],
    ) -> tuple[Int32[Array, " num_envs"], PyTree[Array], PyTree[Array]]:
        """One draw in each environment."""
        return jax.vmap(MaskedCategorical.sample)(chances, keys), memory, ()

    def begin_anew(
        self, memory: PyTree[Array], done: Bool[Array, " num_envs"], keys: Key[Array, " num_envs"]
    ) -> PyTree[Array]:
        """The same memory."""
        return memory


DRAWN = Drawn()
