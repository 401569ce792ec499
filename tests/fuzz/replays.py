"""Replay files: the same game again, or one line that names the file and what is wrong."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.commands import room
from fuzz.worker import Fuzzer
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import Match, Replay
from hackmatrix_rl.view.replays._match import MOST_SNAPSHOTS

ODD = st.one_of(
    *(st.none(), st.booleans(), st.floats(), st.text(max_size=8)),  # lone surrogates, too
    *(st.integers(-3, 40), st.integers(-(2**70), 2**70), st.sampled_from([10**400, -(10**400)])),
    st.sampled_from(["\x1b]0;t\x07", "\x9b2J", "\ud800", "\u202e", "x" * 20_000]),
    st.lists(st.integers(-1, 2**33), max_size=3),
    st.dictionaries(
        st.sampled_from(["max_enemies", "max_transmissions", "history", "size"]),
        st.one_of(st.integers(-1, 10**12), st.just(10**400), st.text(max_size=3)),
        max_size=3,
    ),
)


@functools.cache
def replay() -> dict[str, object]:
    """The content of a good file."""
    match = Match.start(0)
    for number in range(12):
        match.play(match.now.legal[number % len(match.now.legal)])
    return Replay.from_match(match, player="nobody").as_dict()


NAMES = sorted({field.name for field in Replay.__dataclass_fields__.values()} | {"format"})
fields = st.dictionaries(st.sampled_from(NAMES), ODD, max_size=2)
moves = st.one_of(
    st.none(),
    st.text("udlrsABCW", max_size=14),
    st.sampled_from(["u", "s"]).map(lambda letter: 20_000 * letter),
)
cuts = st.one_of(st.none(), st.none(), st.integers(0, 400))


def outcome(act: Callable[[], Any]) -> tuple[Any, str | None]:
    """What it gives, or what it is refused with."""
    try:
        return act(), None
    except ConfigError as error:
        said = str(error)
    assert said.isprintable(), said
    assert len(said) < 500, said
    return None, said


def check(each: tuple[dict[str, object], str | None, int | None]) -> None:
    changed, actions, cut = each
    content = {**replay(), **({} if actions is None else {"actions": actions}), **changed}
    file = Path(room()).with_name("game.json")
    file.write_text(json.dumps(content)[:cut])
    found, said = outcome(lambda: Replay.load(file))
    assert said is None or said.startswith(f"{file}: "), said
    # Other sizes of the game would compile it anew each time.
    if found is None:
        return
    assert found.summary().isprintable()
    snapshots = (1 + len(found.actions)) * found.config.history
    assert snapshots <= 2 * MOST_SNAPSHOTS, f"{snapshots} snapshots"
    if found.config != Replay.from_dict(replay()).config:
        return
    match, said = outcome(found.match)
    assert said is None or "replay" in said, said
    assert match is None or match.actions == found.actions


FUZZER = Fuzzer(st.tuples(fields, moves, cuts), check, examples=300)
