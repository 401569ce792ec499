"""Replays of selected games of an evaluation."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Key

from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.evaluation import Evaluation
from hackmatrix_rl.system.errors import ConfigError, described
from hackmatrix_rl.view.replays._match import Match, game_seed
from hackmatrix_rl.view.replays._replay import Replay

MOST_REPLAYS = 1000


@dataclass(frozen=True)
class ChosenGame:
    """The number of a game of an evaluation; `name` has its rank, return and stage."""

    name: str
    game: int


def parse_choice(text: str) -> dict[str, int]:
    """The number of games of each kind: `best:5,worst:5 -> {"best": 5, "worst": 5}`."""
    found: dict[str, int] = {}
    for part in text.split(","):
        kind, _, count = (each.strip() for each in part.partition(":"))
        # `isdecimal` also accepts non-ASCII digits.
        whole = count.isascii() and count.isdecimal() and len(count) < 10 and int(count) > 0
        if kind not in _ORDERS or not whole:
            raise ConfigError(
                f"{part.strip() or 'nothing'} is not understood; write a kind of game "
                f"({', '.join(_ORDERS)}) and how many: best:5,worst:5"
            )
        if kind in found:
            raise ConfigError(f"{kind} is given twice; once is enough: best:5,worst:5")
        found[kind] = int(count)
    if sum(found.values()) > MOST_REPLAYS:
        raise ConfigError(
            f"{sum(found.values()):,} replays are too many; use {MOST_REPLAYS:,} at most"
        )
    return found


def choose_games(evaluation: Evaluation, choice: str) -> list[ChosenGame]:
    """The games of an evaluation of HackMatrix that `choice` selects; fewer if there are too few.

    See `parse_choice` for the format. `best`, `worst` and `median` are by return; `random` selects
    the same games of every evaluation of this size; `won` and `lost` select the first ones.
    """
    returns, stages = (evaluation.values[name] for name in ("return", "stage"))
    return [
        ChosenGame(
            f"{kind}-{place + 1}_return-{returns[game]:.2f}_stage-{int(stages[game])}", int(game)
        )
        for kind, count in parse_choice(choice).items()
        for place, game in enumerate(_ORDERS[kind](evaluation)[:count])
    ]


def median_game(evaluation: Evaluation) -> int:
    """The number of the game with the median return."""
    return int(_from_the_middle(evaluation)[0])


def replays_of(
    evaluation: Evaluation,
    environment: Environment,
    *,
    key: Key[Array, ""],
    choice: str = "best:1",
    player: str = "",
) -> Iterator[tuple[str, Match, Replay]]:
    """Replays selected games of an evaluation.

    The evaluation must come from `evaluate(..., record=True)` with this environment, a HackMatrix,
    and this key.

    Yields:
        The name of a replay, the game, and its replay.
    """
    if not isinstance(environment, HackMatrix):
        raise TypeError(f"environment is {described(environment)}; replays are of hm.HackMatrix")
    if evaluation.actions is None:
        raise ValueError("the evaluation has no actions; use evaluate(..., record=True)")
    for chosen in choose_games(evaluation, choice):
        match = Match(
            game_seed(key, chosen.game), config=environment.config, max_steps=environment.max_steps
        )
        for action in evaluation.actions[chosen.game].tolist():
            match.play(action)
        _check(evaluation, chosen, match)
        yield chosen.name, match, Replay.from_match(match, player=player)


def _check(evaluation: Evaluation, chosen: ChosenGame, match: Match) -> None:
    """Raises unless a game ended as in the evaluation."""
    position = match.now.state.position
    found = {
        "return": match.total_reward,
        "stage": float(position.stage),
        "score": float(position.player.score),
    }
    expected = {name: float(evaluation.values[name][chosen.game]) for name in found}
    # A float32 sum depends on the order of its terms.
    if not all(np.isclose(found[name], expected[name], rtol=1e-4, atol=1e-2) for name in found):
        raise ConfigError(
            f"{chosen.name}: the replayed game ends differently: {_said(found)}, but "
            f"{_said(expected)} in the evaluation. Use the key and the environment of the "
            "evaluation"
        )


def _said(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {number:g}" for name, number in numbers.items())


def _by_return(evaluation: Evaluation) -> np.ndarray:
    return np.argsort(evaluation.values["return"], kind="stable")


def _from_the_middle(evaluation: Evaluation) -> np.ndarray:
    order = _by_return(evaluation)
    return order[np.argsort(np.abs(np.arange(len(order)) - (len(order) - 1) // 2), kind="stable")]


_ORDERS: Mapping[str, Callable[[Evaluation], np.ndarray]] = {
    "best": lambda found: np.argsort(-found.values["return"], kind="stable"),
    "worst": _by_return,
    "median": _from_the_middle,
    "random": lambda found: np.random.default_rng(0).permutation(found.episodes),
    "won": lambda found: np.flatnonzero(found.values["won"]),
    "lost": lambda found: np.flatnonzero(found.values["won"] == 0),
}
"""The games of each kind, in the order of selection."""
