"""The nine minutes on an accelerator: what is kept when a part takes too long, and its tables."""

import json
import subprocess
import sys
from pathlib import Path

import lent_accelerator as lent
import pytest

pytestmark = pytest.mark.devices

SCRIPT = Path(lent.__file__)
# A part that writes something, starts a process, and never ends.
HANGS = 'echo "[1, 2]" > "$0"; sleep 600 & echo $! > "$0.pid"; wait'
WRITES = 'echo "[3]" > "$0"'


def part(name, script, seconds, status=0, start="first"):
    """A part of one process, whose table is its JSON."""

    def command(file, small, folder):
        return ["sh", "-c", f"{script}; exit {status}", str(file)]

    commands = lent.one_command(name, command)
    return lent.Part(f"Part {name}", commands, seconds, lambda found: [str(found)], start)


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setattr(lent, "device_here", lambda: "cpu (1 x cpu)")


def sections(folder):
    """The lines of each part in `results.md`, without when and on what it ran."""
    first, *rest = (folder / "results.md").read_text().split("\n## ")
    assert first.startswith("# cpu (1 x cpu)")
    return [[line for line in text.splitlines() if line] for text in rest]


def measured(monkeypatch, folder, minutes=9.0, **parts):
    """Measures other parts than those of the script."""
    monkeypatch.setattr(lent, "PARTS", parts)
    return lent.measure(list(parts), folder, minutes=minutes, small=True)


def test_a_part_that_hangs_is_stopped_with_all_that_it_started(tmp_path, monkeypatch, on_cpu):
    parts = {"first": part("first", HANGS, 2, start="last"), "second": part("second", WRITES, 120)}
    assert not measured(monkeypatch, tmp_path, **parts)
    first, second = sections(tmp_path)
    assert first[0] == "Part first"
    assert any(line.startswith("first: stopped after 2 s") for line in first)
    assert first[-1] == "[[1, 2]]"
    assert second[-1] == "[[3]]"
    started = Path("/proc", (tmp_path / "first.json.pid").read_text().strip(), "stat")
    # Its new parent may not have asked yet how it ended.
    assert not started.exists() or ") Z " in started.read_text()


def test_results_are_there_after_each_part(tmp_path, monkeypatch, on_cpu):
    class Gone(Exception):
        """The machine is gone."""

    measure = lent.Process.measure

    def vanish(self, seconds):
        if self.name == "second":
            raise Gone
        return measure(self, seconds)

    monkeypatch.setattr(lent.Process, "measure", vanish)
    parts = {name: part(name, WRITES, 60) for name in ("first", "second")}
    with pytest.raises(Gone):
        measured(monkeypatch, tmp_path, **parts)
    assert [text[-1] for text in sections(tmp_path)] == ["[[3]]"]


def test_a_part_that_fails_or_writes_nothing_says_so(tmp_path, monkeypatch, on_cpu):
    parts = {"fails": part("fails", "true", 60, 3), "odd": part("odd", 'echo "{" > "$0"', 60)}
    assert not measured(monkeypatch, tmp_path, **parts)
    fails, odd = sections(tmp_path)
    assert any(line.startswith("fails: ended with status 3") for line in fails)
    assert fails[-1] == odd[-1] == "Nothing was measured."


GATED = (
    'touch "$LENT_GATE.ready"; while [ ! -e "$LENT_GATE.go" ]; do sleep 0.05; done; '
    'ls "$(dirname "$0")" | grep -c ready > "$0"'
)


def test_all_have_compiled_before_the_first_measures(tmp_path, monkeypatch, on_cpu):
    names = ("first", "second", "third")
    parts = {name: part(name, GATED, 60) for name in names}
    assert measured(monkeypatch, tmp_path, **parts)
    assert [text[-1] for text in sections(tmp_path)] == ["[3]"] * 3


def test_parts_inherit_the_time_that_others_leave_over(tmp_path, monkeypatch, on_cpu):
    limits = []
    monkeypatch.setattr(
        lent.Process, "measure", lambda _, seconds: limits.append(seconds) or "done"
    )
    seconds = (10, 20, 40)
    parts = {f"{each}": part(f"{each}", "true", each) for each in seconds}
    measured(monkeypatch, tmp_path, **parts)
    assert limits == pytest.approx([10, 30, 70], abs=5)


def test_the_nine_minutes_are_all_that_the_parts_have():
    parts = sum(part.seconds for part in lent.PARTS.values())
    assert parts + lent.COMPILING <= lent.MINUTES * 60 - lent.STARTING


ROW = {
    **{"precision": "bf16", "games": 16384, "minibatches": 16, "steps": 2**19, "network": "cells"},
    "seconds": {"median": 0.5, "min": 0.25, "max": 1.0},
    "steps_per_second": {"median": 2**20, "min": 2**19, "max": 2**21},
    **{"program_bytes": 3 * 2**20, "peak_bytes": None, "compile_seconds": 31.26},
    **{"cycles": None, "kernels": None, "asking_loops": None},
}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"cycles": 525_000_000},
            "at least 525,000,000 cycles: 1,050 million in a second of these",
        ),
        (
            {"kernels": 50_000, "asking_loops": 24},
            "at least 50,000 kernels: 10.0 microseconds each; 24 loops ask the host",
        ),
        ({}, "nothing"),
    ],
)
def test_what_the_compiler_says_stands_beside_what_was_measured(said, words):
    assert lent.training_table([ROW | said])[2] == (
        "| bf16 | 16,384 | 16 | 1,048,576 (524,288 to 2,097,152) | 500 (250 to 1,000) | "
        f"{words} | 3 |  | 31.3 |"
    )


def test_precisions_are_compared_for_as_long_as_fits(tmp_path):
    assert lent.compared_steps(tmp_path, 60) == lent.COMPARED
    for name, speed in {
        "training-bf16-64": 4e6,
        "training-f32-64": 1e6,
        "environment-64": 9,
    }.items():
        found = {"steps_per_second": {"median": speed}}
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    assert lent.compared_steps(tmp_path, 60) == 1e6 * 30 / 6


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--out", "."), "--out .: exists already; give a new or an empty folder"),
        (("--minutes", "0.1"), "--minutes 0.1: use more than 0.25"),
        (("--only", "chess"), "invalid choice: 'chess'"),
        ((), "JAX sees no accelerator here. Use --small for a rehearsal on the CPU."),
    ],
)
def test_what_cannot_be_measured_is_told_at_once(tmp_path, arguments, words):
    (tmp_path / "mine").touch()
    ended = run(tmp_path, *arguments)
    assert ended.returncode in (1, 2)
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_part_runs_as_on_the_accelerator(tmp_path):
    """Self-play, since it compiles fastest."""
    ended = run(tmp_path, "--small", "--only", "self-play", "--out", "found")
    assert ended.returncode == 0, ended.stdout + (tmp_path / "found" / "log.txt").read_text()
    text = (tmp_path / "found" / "results.md").read_text()
    assert "## Self-play" in text
    assert "| n=14, k=4, with learning | 4 | 8 |" in text


@pytest.mark.nightly
def test_all_parts_run_as_on_the_accelerator(tmp_path):
    ended = run(tmp_path, "--small", "--minutes", "30", "--out", "found")
    assert ended.returncode == 0, ended.stdout + (tmp_path / "found" / "log.txt").read_text()
    text = (tmp_path / "found" / "results.md").read_text()
    for part in lent.PARTS.values():
        assert f"## {part.title}" in text
    for words in ("Nothing was measured", "No table", "failed", "stopped after"):
        assert words not in text
    assert "15 tests passed on cpu (cpu)" in text
