"""Whatever can choose actions: a network, or a script."""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic


class Agent(eqx.Module):
    """Chooses actions in ONE environment; callers use `jax.vmap`."""

    def initial_carry(self) -> PyTree[Array]:
        """The memory at the start of an episode; by default `()`: no memory."""
        return ()

    @abstractmethod
    def act(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array]]:
        """Chooses an action.

        Args:
            observation: what to act on.
            mask: the legal actions.
            carry: what the last call returned, or `initial_carry()`.
            key: randomness of the choice.

        Returns:
            The action and the next carry.
        """


class PolicyAgent(Agent):
    """Plays as a network says.

    Attributes:
        policy: the network.
        greedy: take the likeliest action, instead of drawing one as training does.
    """

    policy: ActorCritic
    greedy: bool = eqx.field(static=True, default=False)

    def initial_carry(self) -> PyTree[Array]:
        """The network's."""
        return self.policy.initial_carry()

    def act(
        self,
        observation: PyTree[Array],
        mask: Bool[Array, " num_actions"],
        carry: PyTree[Array],
        *,
        key: Key[Array, ""],
    ) -> tuple[Int32[Array, ""], PyTree[Array]]:
        """Draws from the network's probabilities over the legal actions, or takes the likeliest."""
        logits, _, carry = self.policy(observation, carry)
        chances = MaskedCategorical(logits, mask)
        action: Array = chances.mode() if self.greedy else chances.sample(key)
        return action, carry
