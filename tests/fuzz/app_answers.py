"""Answers of an app: a game goes on, or ends in one line, and what was seen of it is kept."""

import functools
import json
import operator
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
from hypothesis import strategies as st

from fuzz.replays import ODD, outcome
from fuzz.worker import Fuzzer
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import RandomAgent
from hackmatrix_rl.games.hackmatrix import Action, GameConfig
from hackmatrix_rl.interop.protocol import Server
from hackmatrix_rl.interop.protocol.client import App, SeenGame, play_app

MOVES = 4

NUMBERS = st.sampled_from(
    [
        *(0, -1, 1, 3, 8, 9, 10, 15, 16, 31, 36, 10**9, 10**9 + 1, 2**31 - 1, 2**31, 10**400),
        *(float("nan"), float("inf"), -float("inf"), 1e12, 1e308, -1e308, 0.5, True, False),
    ]
)


@functools.cache
def answers() -> tuple[str, ...]:
    """The answers of a game of some moves, as lines."""
    server = Server(6)
    said = [server.answer({"action": "reset"})]
    for _ in range(MOVES):
        said.append(server.answer({"action": "getValidActions"}))
        legal = said[-1]["validActions"]
        said.append(server.answer({"action": "step", "actionIndex": legal[-1]}))
    return tuple(json.dumps(each) for each in said)


@dataclass(frozen=True)
class Forgery:
    """What is changed in which answer: the value at a path, by its number, or the whole line."""

    answer: int
    place: int | tuple[Any, ...]
    value: Any
    deletes: bool = False
    nested: int = 0

    def of(self, line: str) -> str:
        """The line, changed."""
        found = json.loads(line)
        place = self.place
        if isinstance(place, int):
            places = sorted(paths(found), key=str)
            # Nothing is left where another forgery has deleted it: a LookupError.
            place = places[place % max(len(places), 1)]
        *way, last = place
        within = functools.reduce(operator.getitem, way, found)
        if self.deletes:
            del within[last]
        else:
            within[last] = "%" if self.nested else self.value
        return json.dumps(found).replace('"%"', "[" * self.nested + "]" * self.nested)


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """The ways to all that is in a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inside:
        yield (key,)
        if isinstance(each, dict | list):
            yield from ((key, *rest) for rest in paths(each))


class Lines:
    """The pipes of an app that answers so."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = deque(lines)

    def write(self, line: bytes) -> None:
        """Takes a request."""

    def read(self, until: float) -> bytes:
        """The next answer; at last nothing."""
        return self.lines.popleft().encode("utf-8", "surrogatepass") if self.lines else b""

    def wait(self, seconds: float) -> int:
        """The exit status."""
        return 0


def app(lines: list[str]) -> App:
    """An app without a process."""
    made = App.__new__(App)
    made._name, made._patience, made._person = "app", 1.0, False
    made._moves, made._pipes, made._process = deque(), Lines(lines), Lines([])
    return made


def check(each: tuple[list[Forgery], int]) -> None:
    forgeries, league = each
    lines = list(answers())
    for forgery in forgeries:
        try:
            lines[forgery.answer] = forgery.of(lines[forgery.answer])
        except (LookupError, RecursionError, TypeError, ValueError):
            continue  # another forgery has taken the place away, or nested it too deeply
    config = GameConfig.of_league(("original", "no-rewind")[league])
    game, key = SeenGame(config), jax.random.key(0)
    outcome(lambda: play_app(app(lines), RandomAgent(), HackMatrix(config), game, key=key))
    if game.moments:
        kept = json.loads(json.dumps(game.record(player="nobody"), allow_nan=False, indent=0))
        assert len(SeenGame.of_record(kept).moments) == len(game.moments)


ONE_UNDO = [Forgery(1, ("validActions",), [Action.UNDO.value])]
forgeries = st.builds(
    Forgery,
    st.integers(0, 2 * MOVES),
    st.one_of(
        st.integers(0, 10_000),
        st.sampled_from(
            [
                *(("reward",), ("validActions",), ("done",), ("info", "reward_breakdown", "kills")),
                *(("observation", name) for name in ("credits", "stage", "turn", "cells", "score")),
            ]
        ),
    ),
    st.one_of(NUMBERS, NUMBERS, ODD),
    deletes=st.sampled_from([False, False, False, True]),
    nested=st.sampled_from([0, 0, 0, 0, 0, 30, 900, 985, 990, 100_000]),
)

FUZZER = Fuzzer(
    st.tuples(st.lists(forgeries, min_size=1, max_size=3), st.integers(0, 1)),
    check,
    examples=40,
    found=(
        ([Forgery(2, ("reward",), float("nan"))], 0),
        ([Forgery(2, ("reward",), 10**400)], 0),
        ([Forgery(2, ("observation", "credits"), 2 * 10**9)], 0),
        ([Forgery(0, ("observation", "stage"), 9)], 0),
        ([Forgery(0, ("observation", "cells", 2, 2, "isExit"), True)], 0),
        (ONE_UNDO, 0),
        (ONE_UNDO, 1),
    ),
)
