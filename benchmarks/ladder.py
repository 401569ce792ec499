"""Measures return, score and wins of players: the table of benchmarks/learning.md.

    python benchmarks/ladder.py PLAYER [PLAYER ...] [--games 1000] [--league no-rewind]
        [--max-steps 1000] [--greedy] [--without-undo] [--search 32] [--at-once 256]

Results are written to benchmarks/learning/ladder.json after each part of the games, and a
measurement that is stopped continues from there. Without players the table is printed. The games
have a seed that no training and no choice of settings has used.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import Estimate, PolicyAgent, evaluate, rate_of
from hackmatrix_rl.games.hackmatrix import LEAGUES
from hackmatrix_rl.runs import find_player
from hackmatrix_rl.system import enable_compilation_cache

FILE = Path(__file__).parent / "learning" / "ladder.json"
SEED = 20_261_123
"""Of the games; no other seed of the repository is near it."""
Z = 1.96
KEPT = ("won", "return", "stage", "score", "length", "siphons", "programs", "undos")


def measure(given: argparse.Namespace, name: str, found: dict[str, Any]) -> None:
    """Plays the games that are still missing."""
    label = name + (f" --search {given.search}" if given.search else "")
    label += (", greedy" if given.greedy else "") + (", without UNDO" if given.without_undo else "")
    parts = found.setdefault(f"{label} | {given.league} | {given.max_steps}", [])
    done = sum(part["games"] for part in parts)
    if done >= given.games:
        return
    player, environment = find_player(name, league=given.league, simulations=given.search)
    assert isinstance(environment, HackMatrix)
    if given.without_undo:
        environment = replace(environment, without_undo_share=1.0)
    if given.greedy:
        assert isinstance(player, PolicyAgent), f"{name}: only a network can be greedy"
        player = PolicyAgent(player.policy, greedy=True)
    while done < given.games:
        games = min(given.at_once, given.games - done)
        began = time.perf_counter()
        played = evaluate(
            player,
            environment,
            episodes=games,
            key=jax.random.fold_in(jax.random.key(SEED), done),
            num_envs=games,
            max_steps=given.max_steps,
        )
        seconds = round(time.perf_counter() - began, 1)
        means = {each: round(float(np.mean(played.values[each])), 4) for each in KEPT}
        deviation = round(float(np.std(played.values["return"], ddof=1)), 2)
        told = {"games": games, "cut": played.unfinished, "seconds": seconds}
        parts.append(told | means | {"return_deviation": deviation})
        done += games
        FILE.write_text(json.dumps(found, indent=1) + "\n")
        print(line(label, given.league, parts), flush=True)


def return_of(parts: list[dict[str, Any]]) -> Estimate:
    """The mean return of all games; without an interval where a part has no deviation."""
    games = np.array([part["games"] for part in parts])
    means = np.array([part["return"] for part in parts])
    mean = float(np.average(means, weights=games))
    spreads = np.array([part.get("return_deviation", np.nan) for part in parts])
    squares = (games - 1) * spreads**2 + games * (means - mean) ** 2
    half = Z * float(np.sqrt(squares.sum() / (games.sum() - 1) / games.sum()))
    return Estimate(mean, mean - half, mean + half)


def line(label: str, league: str, parts: list[dict[str, Any]]) -> str:
    """A line of the table."""
    games = [part["games"] for part in parts]
    means = {each: np.average([part[each] for part in parts], weights=games) for each in KEPT}
    won = rate_of(np.arange(sum(games)) < round(means.pop("won") * sum(games)))
    rate = f"{100 * won.mean:.1f} ({100 * won.low:.1f} to {100 * won.high:.1f})"
    mean = return_of(parts)
    ends = "" if np.isnan(mean.low) else f" ({mean.low:.0f} to {mean.high:.0f})"
    cut = 100 * sum(part["cut"] for part in parts) / sum(games)
    cells = [
        label,
        league,
        f"{means.pop('return'):.0f}{ends}",
        f"{means.pop('score'):.1f}",
        rate,
        f"{sum(games)}",
        f"{cut:.1f}",
        *map("{:.1f}".format, means.values()),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("players", nargs="*", metavar="PLAYER")
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--league", choices=LEAGUES, default=LEAGUES[0])
    parser.add_argument("--max-steps", type=int, default=1000, help="move limit of a game")
    parser.add_argument("--at-once", type=int, default=256)
    parser.add_argument("--search", type=int, help="simulations of a tree search")
    parser.add_argument("--greedy", action="store_true")
    parser.add_argument("--without-undo", action="store_true")
    given = parser.parse_args()
    enable_compilation_cache()
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in given.players:
        measure(given, name, found)
    for name, parts in found.items():
        label, league, _ = name.split(" | ")
        print(line(label, league, parts))


if __name__ == "__main__":
    main()
