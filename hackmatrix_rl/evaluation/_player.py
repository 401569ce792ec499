"""Players: a network or a script that chooses actions."""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic


class Agent(eqx.Module):
    """Chooses actions in one environment; callers use `jax.vmap`."""

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
            observation: one observation.
            mask: the legal actions.
            carry: the carry of the last call, or `initial_carry()`.
            key: randomness of the choice.

        Returns:
            The action and the next carry.
        """


class PolicyAgent(Agent):
    """Plays with a network.

    Attributes:
        policy: the network.
        greedy: takes the likeliest action instead of drawing one as in training.
    """

    policy: ActorCritic
    greedy: bool = eqx.field(static=True, default=False)

    def initial_carry(self) -> PyTree[Array]:
        """The network's initial carry."""
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
