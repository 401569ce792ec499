"""Games that were played, and a player that tells all that an agent can tell."""

import jax.numpy as jnp

from hackmatrix_rl.evaluation import Runner, ThinkingAgent, Thought
from hackmatrix_rl.view.replays import Match, Mind


def played(seed, player=None, *, moves=1000, **options):
    """The game that a player, the runner by default, plays by its own opinions."""
    match = Match.start(seed, **options)
    mind = Mind(player or Runner(), match)
    while match.now.end is None and match.now.number < moves:
        match.play(mind.opinion().action)
    return match


class Confident(ThinkingAgent):
    """The runner, with all that an agent can tell."""

    def think(self, observation, mask, carry, *, key):
        action, carry = Runner().act(observation, mask, carry, key=key)
        sure = (jnp.arange(mask.shape[0]) == action).astype(jnp.float32)
        numbers = jnp.arange(mask.shape[0], dtype=jnp.float32)
        thought = Thought(
            probabilities=sure,
            value=jnp.float32(1.25),
            win_probability=jnp.float32(0.5),
            search_values=numbers,
            search_visits=numbers.astype(jnp.int32),
        )
        return action, carry, thought
