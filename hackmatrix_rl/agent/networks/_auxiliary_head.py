"""A head for auxiliary tasks: to predict the immediate result of an action, and the victory."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32, Key

from hackmatrix_rl.agent.networks._layers import HIDDEN_GAIN, VALUE_GAIN, Dense


class AuxiliaryHead(eqx.Module):
    """Predicts the immediate result of an action from a hidden layer and the action.

    Attributes:
        hidden: a layer over both.
        terms: predicts the parts of the reward, on the scale of `symlog`.
        terminated: logit of the episode's end.
        won: logit of the episode's victory, from the hidden layer alone; `None` if it is not
            predicted.
    """

    hidden: Dense
    terms: Dense
    terminated: Dense
    won: Dense | None
    num_actions: int = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        num_actions: int,
        num_terms: int,
        *,
        width: int = 64,
        wins: bool = False,
        key: Key[Array, ""],
    ) -> None:
        """Draws the weights.

        Args:
            inputs: width of the hidden layer, the input of the head.
            num_actions: number of actions.
            num_terms: number of parts of the reward.
            width: units of its own layer.
            wins: whether it predicts the victory.
            key: randomness of the weights.
        """
        hidden_key, terms_key, end_key = jax.random.split(key, 3)
        self.hidden = Dense(inputs + num_actions, width, gain=HIDDEN_GAIN, key=hidden_key)
        self.terms = Dense(width, num_terms, gain=VALUE_GAIN, key=terms_key)
        self.terminated = Dense(width, 1, gain=VALUE_GAIN, key=end_key)
        self.won = None
        if wins:
            # Apart, so that the other weights are those of a head that does not predict it.
            won_key = jax.random.fold_in(key, 0)
            self.won = Dense(inputs, 1, gain=VALUE_GAIN, key=won_key)
        self.num_actions = num_actions

    def __call__(
        self, hidden: Float[Array, " inputs"], action: Int32[Array, ""]
    ) -> tuple[Float32[Array, " terms"], Float32[Array, ""]]:
        """The parts of the reward on the scale of `symlog`, and the logit of the end."""
        chosen = jax.nn.one_hot(action, self.num_actions, dtype=hidden.dtype)
        known = jax.nn.relu(self.hidden(jnp.concatenate([hidden, chosen])))
        return self.terms.full(known), self.terminated.full(known)[0]

    def win_logit(self, hidden: Float[Array, " inputs"]) -> Float32[Array, ""] | None:
        """The logit of the probability that this episode is won; `None` if not predicted."""
        return None if self.won is None else self.won.full(hidden)[0]
