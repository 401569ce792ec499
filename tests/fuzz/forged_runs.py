"""Runs with forged settings and right sums: no code is imported, and no more than a line said."""

import shutil
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from runs.checkpoints.kept import NEWEST, forge, forge_config, unpack

from fuzz.commands import LONG_WORK, accept, assert_answered, room, run_here
from fuzz.worker import Fuzzer
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs.config import RunConfig, algorithms, rename
from hackmatrix_rl.training import Trainer

MODULE = "evil_module"
COMMANDS = (
    ("eval", "RUN"),
    ("eval", "RUN", "--search", "2"),
    ("eval", "search(RUN, 15)"),
    ("train", "--resume-run", "RUN", "--dry-run"),
    ("train", "--init", "RUN", "--preset", "debug", "--dry-run"),
    ("train", "--preset", "debug", "--algorithm", "imitation", "--teacher", "RUN", "--dry-run"),
    ("selfplay", "--resume-run", "RUN", "--dry-run"),
    ("bench", "--init", "RUN"),
    ("report", "RUN", "--output", "../page.html"),
)
CODE = (f"{MODULE}:make", f"{MODULE}.part:make", f" {MODULE}:make", f"{MODULE}:make\x1b[2J")

NAMES = sorted({each.name for kind in algorithms().values() for each in fields(kind)})
values: st.SearchStrategy[Any] = st.one_of(
    *(st.none(), st.booleans(), st.floats(), st.text(max_size=8)),
    *(st.integers(-3, 40), st.integers(-(2**70), 2**70), st.just(10**400)),
    st.sampled_from(["\ud800", "\x1b[2J", "\n\n", "\0", "a/" * 900, "gs://x/y", "http://x", *CODE]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)
changes = st.dictionaries(
    st.one_of(st.sampled_from(NAMES), st.sampled_from(NAMES), st.text(max_size=8)),
    values,
    max_size=3,
)
networks = st.one_of(st.none(), *[st.just(name) for name in CODE])


@cache
def run() -> Path:
    """A stored run, and a module beside it that its settings may name."""
    beside = Path(room()).with_name("beside")
    beside.mkdir()
    (beside / f"{MODULE}.py").write_text("")
    sys.path.append(str(beside))
    stored = unpack(NEWEST, beside)
    forge(stored, lambda metadata: metadata.update(config=rename(metadata["config"])[0]))
    return stored


@cache
def composed(settings: RunConfig) -> Trainer[Any]:
    return compose(settings)


def compose_for_a_teacher(settings: RunConfig, **_: Any) -> Trainer[Any]:
    """The teacher is looked for after the student is made; others are not made at all."""
    return composed(settings) if hasattr(settings, "teacher") else accept()


REPLACED = {**dict.fromkeys(LONG_WORK, accept), "runs._launch.compose": compose_for_a_teacher}


def check(each: tuple[tuple[str, ...], str | None, dict[str, Any]]) -> None:
    command, network, settings = each
    place = run().with_name("forged")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run(), place)
    named = {} if network is None else {"network": network}
    forge_config(place, **{**settings, **named})
    arguments = [part.replace("RUN", str(place)) for part in command]
    answer = run_here(arguments, REPLACED)
    assert MODULE not in sys.modules, f"{arguments} imported {MODULE}"
    for line in answer[2].splitlines():
        assert line.isprintable(), ascii(line)
        assert len(line) < 700, line
    assert_answered(arguments, answer, str(place), "--", "setting")


FUZZER = Fuzzer(
    st.tuples(st.sampled_from(COMMANDS), networks, changes),
    check,
    examples=20,
    shrinks=False,
    found=tuple((command, CODE[0], {}) for command in COMMANDS),
)
