"""Records of `play-app`: the game as it was seen, or one line that says what is wrong."""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fuzz.commands import room
from fuzz.replays import ODD, outcome
from fuzz.worker import Fuzzer
from hackmatrix_rl.games.hackmatrix import Action, GameConfig
from hackmatrix_rl.interop.protocol import Server
from hackmatrix_rl.interop.protocol.client import SeenGame
from hackmatrix_rl.system import read_json
from hackmatrix_rl.system.errors import refusing
from hackmatrix_rl.view.replays import Replay

MOVES = 6
VALUES = st.one_of(ODD, st.sampled_from([2**31 - 1, 2**31, float("nan"), float("inf"), {}, [[]]]))


@cache
def record() -> dict[str, Any]:
    """The content of a good file."""
    server, game = Server(6), SeenGame(GameConfig())

    def legal() -> np.ndarray:
        mask = np.zeros(len(Action), bool)
        mask[server.answer({"action": "getValidActions"})["validActions"]] = True
        return mask

    game.begin(server.answer({"action": "reset"})["observation"])
    game.allow(legal())
    for number in range(MOVES):
        choices = np.flatnonzero(game.moments[-1].mask)
        action = int(choices[number % len(choices)])
        game.follow(action, server.answer({"action": "step", "actionIndex": action}))
        game.allow(legal())
    return json.loads(json.dumps(game.record(player="nobody")))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value in a tree of JSON."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for name, each in items:
        yield (*path, name)
        yield from places(each, (*path, name))


def forged(changes: tuple[tuple[int, Any], ...], actions: dict[int, int]) -> dict[str, Any]:
    """The record with another value in some places, and other actions in some moves."""
    content = deepcopy(record())
    for move, action in actions.items():
        content["moves"][move]["action"] = action
    # Each depth as often: most values are in the cells.
    for which, value in changes:
        all_places = list(places(content))
        depths = sorted({len(each) for each in all_places})
        depth = depths[which % len(depths)]
        alike = [each for each in all_places if len(each) == depth]
        *path, name = alike[which // len(depths) % len(alike)]
        at: Any = content
        for each in path:
            at = at[each]
        at[name] = value
    return content


def read(content: dict[str, Any]) -> SeenGame:
    """The game, as `replay` reads it."""
    with refusing("record: ", of=ValueError):
        return SeenGame.of_record(content)


def check(each: tuple[tuple[tuple[int, Any], ...], dict[int, int]]) -> None:
    file = Path(room()).with_name("record.json")
    file.write_text(json.dumps(forged(*each)))
    content = read_json(file)
    assert content is not None
    game, _ = outcome(lambda: read(content))
    if game is None:
        return
    match = game.match()
    assert len(match.moments) == 1 + len(content["moves"])
    assert all(moment.frame for moment in match.moments)
    assert Replay.from_match(match, player=str(content.get("player"))).summary().isprintable()


UNDO = {number: int(Action.UNDO) for number in range(MOVES)}
FUZZER = Fuzzer(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 10_000), VALUES), max_size=2).map(tuple),
        st.dictionaries(st.integers(0, MOVES - 1), st.integers(0, len(Action) - 1), max_size=2),
    ),
    check,
    examples=20,
    found=(((), UNDO),),
)
