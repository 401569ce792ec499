"""The rules alone: a batch of a thousand games of HackMatrix with random actions.

python play_random_games.py [TURNS]
"""

import sys
from collections import Counter

import jax
import jax.numpy as jnp

from hackmatrix_rl.games.hackmatrix import TERM_NAMES, GameConfig, legal_actions, new_game, play

CONFIG = GameConfig()
GAMES = 1000


def random_turn(state, key):
    """A uniformly random legal action in one game."""
    choose, happen = jax.random.split(key)
    legal = legal_actions(CONFIG, state)
    action = jax.random.categorical(choose, jnp.where(legal, 0.0, -jnp.inf))
    return play(CONFIG, state, action.astype(jnp.int32), key=happen)


def main(turns: int) -> None:
    keys = jax.random.split(jax.random.key(0), GAMES)
    games = jax.jit(jax.vmap(lambda key: new_game(CONFIG, key=key)))(keys)
    turn = jax.jit(jax.vmap(random_turn))

    over = jnp.zeros(GAMES, bool)
    terms = jnp.zeros((GAMES, len(TERM_NAMES)))
    for number in range(turns):
        keys = jax.random.split(jax.random.key(number + 1), GAMES)
        games, outcome = turn(games, keys)
        # `play` continues games that are over; their later rewards do not count.
        terms += jnp.where(over[:, None], 0.0, jax.vmap(lambda t: t.as_array())(outcome.terms))
        over |= outcome.died | outcome.won

    print(f"{int(over.sum())} of {GAMES} games are over after {turns} turns")
    stages = Counter(games.position.stage.tolist())
    print("stage reached:", dict(sorted(stages.items())))
    print("mean return of a game, by term of the reward:")
    for name, value in zip(TERM_NAMES, terms.mean(axis=0).tolist(), strict=True):
        print(f"  {name:22} {value:+.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
