"""The rules alone in a one-ply search: it plays the action with the best mean over random playouts.

The search is fair: each playout resamples the hidden information, and uses no key of the real game.

python one_ply_search.py [GAMES] [MOVES]
"""

import sys

import jax
import jax.numpy as jnp

from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS,
    GameConfig,
    State,
    legal_actions,
    new_game,
    play,
)
from hackmatrix_rl.search import draw_unseen
from hackmatrix_rl.system.batching import Chance

CONFIG = GameConfig()
PLAYOUTS, LENGTH = 8, 12


def playout(state, action, key):
    """The reward of an action and of some random moves after it."""
    hidden, *keys = jax.random.split(key, LENGTH + 1)
    position = draw_unseen(state.position, chance=Chance.from_key(hidden))
    first = play(CONFIG, State(position, state.history), action, key=keys[0])

    def move(carry, key):
        state, over, total = carry
        choose, happen = jax.random.split(key)
        legal = legal_actions(CONFIG, state)
        action = jax.random.categorical(choose, jnp.where(legal, 0.0, -jnp.inf))
        after, outcome = play(CONFIG, state, action.astype(jnp.int32), key=happen)
        total = total + jnp.where(over, 0.0, outcome.terms.total())
        return (after, over | outcome.died | outcome.won, total), None

    state, outcome = first
    start = (state, outcome.died | outcome.won, outcome.terms.total())
    (_, _, total), _ = jax.lax.scan(move, start, jnp.stack(keys[1:]))
    return total


def best_action(state, key):
    """The legal action with the best mean over its playouts."""
    keys = jax.random.split(key, PLAYOUTS)
    actions = jnp.arange(NUM_ACTIONS)
    each = jax.vmap(jax.vmap(playout, (None, None, 0)), (None, 0, None))
    worth = each(state, actions, keys).mean(axis=1)
    return jnp.argmax(jnp.where(legal_actions(CONFIG, state), worth, -jnp.inf))


def main(games: int, moves: int) -> None:
    @jax.jit
    @jax.vmap
    def move(state, over, total, key):
        think, happen = jax.random.split(key)
        after, outcome = play(CONFIG, state, best_action(state, think), key=happen)
        ends = outcome.died | outcome.won
        return after, over | ends, total + jnp.where(over, 0.0, outcome.terms.total())

    keys = jax.random.split(jax.random.key(0), games)
    state = jax.jit(jax.vmap(lambda key: new_game(CONFIG, key=key)))(keys)
    over, total = jnp.zeros(games, bool), jnp.zeros(games)
    for number in range(moves):
        keys = jax.random.split(jax.random.key(number + 1), games)
        state, over, total = move(state, over, total, keys)
    print(f"{games} games, {moves} moves, {int(over.sum())} of them over")
    print(f"mean return {total.mean():+.2f}, mean stage {state.position.stage.mean():.2f}")


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:]]
    main(*numbers, *(64, 40)[len(numbers) :])
