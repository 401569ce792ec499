"""Fits the win probability at the start of a stage, the leaf value of a search with `Expert`.

    python benchmarks/fit_win_probability.py FILE [--league no-rewind] [--rollouts 30] [--games 500]

FILE is a file of weights, such as those in hackmatrix_rl/search/. The expert with these weights
plays games (with --rollouts, its search does). Each start of a stage is an example, labelled by
whether the game is won. A logistic regression, regularised towards the table of FILE, replaces it.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import keep_journal
from hackmatrix_rl.games.hackmatrix import LEAGUES, GameConfig, Program
from hackmatrix_rl.search import (
    EvaluationWeights,
    Expert,
    ExpertGuide,
    RolloutSearch,
    WinWeights,
    win_terms,
)
from hackmatrix_rl.system import enable_compilation_cache, write_whole

SEED = 20_261_205
"""The seed of the games; no measurement uses one near it."""
HELD = 0.5
"""Weight of the prior: of half the squared change of each row, in nats over all examples."""


def examples(given: argparse.Namespace, config: GameConfig) -> tuple[np.ndarray, np.ndarray]:
    """The player's resources at the start of each stage, and whether it won."""
    expert = Expert(config, EvaluationWeights.read(given.file))
    guide = ExpertGuide(config, expert, WinWeights.read(given.file))
    player = RolloutSearch(guide, given.rollouts) if given.rollouts else expert
    journal = keep_journal(
        player,
        HackMatrix(config=config, max_steps=given.max_steps),
        games=given.games,
        key=jax.random.key(SEED),
        num_envs=given.at_once,
    )
    moves = journal.moves
    print(f"{journal.won.mean():.3f} of {journal.games} games won", flush=True)
    # Those that walk to victory by UNDO have a number of their own.
    ready = (moves.programs >> Program.UNDO) & 1 & (moves.credits >= 1)
    kept = moves.new_stage & ~(ready.astype(bool) & config.rewind_across_stages)
    terms = win_terms(
        stage=jnp.asarray(moves.stage[kept]),
        hp=jnp.asarray(moves.hp[kept]),
        credits=jnp.asarray(moves.credits[kept]),
        energy=jnp.asarray(moves.energy[kept]),
        data_siphons=jnp.asarray(moves.data_siphons[kept]),
        attack_damage=jnp.asarray(moves.attack_damage[kept]),
        # The new stage has brought as many transmissions as its number.
        crowd=jnp.asarray(moves.crowd[kept] - moves.stage[kept]),
        programs=jnp.asarray(moves.programs[kept]),
    )
    return np.asarray(terms, np.float64), journal.won[journal.game[kept]]


def fit(terms: np.ndarray, won: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """A logistic regression near `prior`, by Newton's method."""
    weights = prior.copy()
    for _ in range(50):
        chance = 1 / (1 + np.exp(-terms @ weights))
        slope = terms.T @ (won - chance) - HELD * (weights - prior)
        bend = (terms * (chance * (1 - chance))[:, None]).T @ terms + HELD * np.eye(len(prior))
        weights = weights + np.linalg.solve(bend, slope)
    return weights


def loss(terms: np.ndarray, won: np.ndarray, weights: np.ndarray) -> float:
    """The mean negative log-likelihood."""
    odds = terms @ weights
    return float(np.mean(np.logaddexp(0, odds) - won * odds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="file of weights; its win probability is replaced")
    parser.add_argument("--league", choices=LEAGUES, default=LEAGUES[0])
    parser.add_argument(
        "--rollouts", type=int, default=0, help="rollouts of the search; 0: no search"
    )
    parser.add_argument("--games", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=256)
    parser.add_argument("--max-steps", type=int, default=600, help="move limit of a game")
    given = parser.parse_args()
    enable_compilation_cache()
    config = GameConfig.of_league(given.league)
    prior = np.asarray(WinWeights.read(given.file).numbers, np.float64)
    terms, won = examples(given, config)
    weights = fit(terms, won, prior)
    print(f"{len(won)} stages; loss {loss(terms, won, prior):.3f}, {loss(terms, won, weights):.3f}")
    whole: dict[str, Any] = json.loads(given.file.read_text(encoding="utf-8"))
    player = f"search of {given.rollouts} rollouts" if given.rollouts else "expert"
    whole["win_probability_note"] = (
        f"benchmarks/fit_win_probability.py, {len(won)} stages of {given.games} games, {player}"
    )
    whole[WinWeights.SECTION] = dict(
        zip(WinWeights.MEANING, weights.round(4).tolist(), strict=True)
    )
    write_whole(given.file, json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
