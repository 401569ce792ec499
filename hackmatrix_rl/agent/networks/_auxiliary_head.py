"""A head for auxiliary tasks: it predicts the immediate result of an action, and the victory."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent.networks._actor_critic import ActorCritic, TrunkActorCritic, TrunkOutput
from hackmatrix_rl.agent.networks._layers import HIDDEN_GAIN, VALUE_GAIN, Dense, Heads
from hackmatrix_rl.env import EnvSpec


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
        """Draws the weights; `width` is that of its own layer, `wins` adds the victory."""
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


VICTORY = "victory"
"""The part of the reward that is above 0 exactly where an episode is won."""


@final
class WithAuxiliaryHead(TrunkActorCritic):
    """A network, and a further head that acting does not use (see `AuxiliaryLoss`).

    The names of parameters leave the field `headless` out (see `path_name`), so they do not change
    with the head.
    """

    auxiliary: AuxiliaryHead
    headless: TrunkActorCritic

    def __init__(self, headless: TrunkActorCritic, auxiliary: AuxiliaryHead) -> None:
        self.auxiliary = auxiliary
        self.headless = headless

    # An `AbstractVar` may be a property, which type checkers do not know.
    @property  # type: ignore[misc]
    def heads(self) -> Heads:  # type: ignore[override]
        """The heads of the network without the auxiliary head."""
        return self.headless.heads

    def initial_carry(self) -> PyTree[Array]:
        return self.headless.initial_carry()

    def trunk(self, observation: PyTree[Array], carry: PyTree[Array]) -> TrunkOutput:
        return self.headless.trunk(observation, carry)


def add_auxiliary_head(
    policy: ActorCritic, spec: EnvSpec, *, wins: bool = False, key: Key[Array, ""]
) -> WithAuxiliaryHead:
    """The policy with a head that predicts what an action will bring (see `AuxiliaryLoss`).

    None of the policy's numbers change. With `wins`, the head also predicts the victory; the parts
    of the reward then have one of the name `victory`.

    Raises:
        ValueError: the policy's hidden layer is not open, the reward has no parts, or none of
            them is the victory's.
    """
    if not isinstance(policy, TrunkActorCritic):
        raise ValueError(
            f"{type(policy).__name__} is no TrunkActorCritic, whose hidden layer others may look at"
        )
    if not spec.terms:
        raise ValueError("the environment's spec names no parts of the reward")
    if wins and VICTORY not in spec.terms:
        raise ValueError(
            f"the environment's spec names no part of the reward {VICTORY!r}, which tells who won"
        )
    seen = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), spec.observation)
    hidden, _ = eqx.filter_eval_shape(policy.trunk, seen, policy.initial_carry())
    head = AuxiliaryHead(hidden.shape[0], spec.num_actions, len(spec.terms), wins=wins, key=key)
    return WithAuxiliaryHead(policy, head)
