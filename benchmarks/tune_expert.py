"""Tunes the weights of `ReturnExpert` for the game's return, by the cross-entropy method.

    python benchmarks/tune_expert.py --out FILE [--league no-rewind] [--seconds 1500]

Each generation samples candidates around a mean, plays the same new games with each, and moves the
mean towards the best quarter. Then the mean and the deviations are written to `--out`; if that file
exists, the tuning continues from it. It has the format of the files of weights in
hackmatrix_rl/search/, which it can replace.

Source: Szita and Lorincz 2006, "Learning Tetris using the noisy cross-entropy method".
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.games.hackmatrix import LEAGUES, GameConfig, State, legal_actions, new_game, play
from hackmatrix_rl.search import Harvester, ReturnExpert, ReturnWeights
from hackmatrix_rl.system import enable_compilation_cache, write_whole
from hackmatrix_rl.system.batching import one_round_loop

MOST_MOVES = 1500
ELITE, STEP = 0.25, 0.7
"""The share of best candidates towards which the mean moves, and the step size."""
_MOVES_AT_ONCE, _SHARE = 8, 4


class Game(NamedTuple):
    """A game of a candidate."""

    state: State
    moves: jax.Array
    over: jax.Array
    won: jax.Array
    total: jax.Array  #: The return so far.
    carry: Any  #: What the player remembers.


def play_games(
    config: GameConfig, numbers: jax.Array, keys: jax.Array, *, harvest: bool = False
) -> Game:
    """Plays a full game for each candidate and key.

    Args:
        config: sizes and league of the game.
        numbers: the weights of each candidate.
        keys: of the games; all candidates play the same.
        harvest: whether the script of `Harvester` plays, too.

    Returns:
        The games at their ends, candidates first.
    """
    with jax.ensure_compile_time_eval():
        expert = ReturnExpert(config)
        given_player = Harvester(HackMatrix(config), expert) if harvest else expert

    def numbers_of(player: Any) -> jax.Array:
        numbers: jax.Array = (player.player if harvest else player).weights.numbers
        return numbers

    def begin(key: jax.Array) -> Game:
        no = jnp.bool_(False)
        state = new_game(config, key=jax.random.fold_in(key, 0))
        return Game(state, jnp.int32(0), no, no, jnp.float32(0), given_player.initial_carry())

    def goes_on(game: Game, given: Any) -> jax.Array:
        return ~game.over

    def move(game: Game, given: Any) -> Game:
        numbers, key = given
        player = eqx.tree_at(numbers_of, given_player, numbers)
        mask = legal_actions(config, game.state)
        key = jax.random.fold_in(key, 1 + game.moves)
        think, act = jax.random.split(key)
        action, carry, _ = player.think(game.state, mask, game.carry, key=think)
        state, outcome = play(config, game.state, action, key=act)
        moves = game.moves + 1
        over = outcome.died | outcome.won | ~outcome.legal | (moves >= MOST_MOVES)
        total = game.total + outcome.terms.total()
        return Game(state, moves, over, outcome.won, total, carry)

    def some_moves(game: Game, given: Any) -> Game:
        def one(_: Any, game: Game) -> Game:
            after = move(game, given)
            return jax.tree.map(lambda new, old: jnp.where(game.over, old, new), after, game)

        return jax.lax.fori_loop(0, _MOVES_AT_ONCE, one, game)

    def whole(numbers: jax.Array, key_data: jax.Array) -> Game:
        key = jax.random.wrap_key_data(key_data)
        return one_round_loop(goes_on, some_moves, begin(key), (numbers, key), share=_SHARE)

    candidates, games = len(numbers), len(keys)
    everybody = jnp.repeat(numbers, games, axis=0)
    found = jax.vmap(whole)(everybody, jnp.tile(jax.random.key_data(keys), (candidates, 1)))
    return jax.tree.map(lambda leaf: leaf.reshape(candidates, games, *leaf.shape[1:]), found)


def read(file: Path, league: str) -> dict[str, Any]:
    """The state of the tuning: from its file, or around the package's weights."""
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if found.get("league") != league or "deviations" not in found:
            raise SystemExit(f"--out {file} is no tuning in the league {league}; name another file")
        return found
    weights = ReturnWeights.shipped(league).as_dict()
    return {
        "note": "",
        "league": league,
        "generation": 0,
        ReturnWeights.SECTION: weights,
        "deviations": {name: 0.1 * abs(mean) + 0.1 for name, mean in weights.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, required=True, help="file of weights; the tuning continues from it"
    )
    parser.add_argument("--league", choices=LEAGUES, default=LEAGUES[0])
    parser.add_argument("--harvest", action="store_true", help="with the script of harvest(...)")
    parser.add_argument(
        "--seconds", type=float, default=1500, help="time after which no generation begins"
    )
    parser.add_argument("--candidates", type=int, default=32, help="candidates of a generation")
    parser.add_argument("--games", type=int, default=64, help="games of each candidate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.candidates < 8 or options.games < 1:
        parser.error("--candidates must be at least 8, and --games at least 1.")
    enable_compilation_cache()
    config = GameConfig.of_league(options.league)
    tuned, began = read(options.out, options.league), time.monotonic()
    names = list(ReturnWeights.MEANING)
    games = jax.jit(partial(play_games, config, harvest=options.harvest))
    while time.monotonic() - began < options.seconds:
        generation = tuned["generation"]
        mean, deviation = (
            np.array([tuned[table][name] for name in names])
            for table in (ReturnWeights.SECTION, "deviations")
        )
        random = np.random.default_rng([options.seed, generation])
        drawn = mean + deviation * random.normal(size=(options.candidates, len(names)))
        drawn[0] = mean  # the file also has the results of the mean
        key = jax.random.fold_in(jax.random.key(options.seed), generation)
        found = games(jnp.asarray(drawn, jnp.float32), jax.random.split(key, options.games))
        result = np.asarray(found.total).mean(axis=1)
        elite = drawn[np.argsort(-result)[: int(ELITE * options.candidates)]]
        won = np.asarray(found.won)
        mean = (1 - STEP) * mean + STEP * elite.mean(axis=0)
        spread = (1 - STEP) * deviation + STEP * elite.std(axis=0, ddof=1)
        spread = spread + 0.01 * np.abs(mean) + 0.004
        tuned |= {
            "note": f"benchmarks/tune_expert.py --league {options.league}, {generation + 1} "
            f"generations of {options.candidates} candidates and {options.games} games",
            "generation": generation + 1,
            ReturnWeights.SECTION: dict(zip(names, mean.round(4).tolist(), strict=True)),
            "deviations": dict(zip(names, spread.round(4).tolist(), strict=True)),
        }
        write_whole(options.out, json.dumps(tuned, indent=1) + "\n")
        print(
            f"generation {generation + 1}, {time.monotonic() - began:.0f} s: the mean before won "
            f"{won[0].mean():.3f}, all {won.mean():.3f}; returns: mean {result[0]:.0f}, all "
            f"{result.mean():.0f}, best {result.max():.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
