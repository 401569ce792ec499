"""The nine minutes on an accelerator: what is kept when a part takes too long, and its tables."""

import json
import subprocess
import sys
from pathlib import Path

import lent_accelerator as lent
import pytest

SCRIPT = Path(lent.__file__)
# A part that writes something, starts a process, and never ends.
HANGS = 'echo "[1, 2]" > "$0"; sleep 600 & echo $! > "$0.pid"; wait'
WRITES = 'echo "[3]" > "$0"'


def part(script, seconds, status=0):
    """A part whose table is its JSON."""

    def command(file, small, folder):
        return ["sh", "-c", f"{script}; exit {status}", str(file)]

    return lent.Part(f"Part of {seconds} s", command, seconds, lambda found: [str(found)])


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setattr(lent, "device_here", lambda: "cpu (1 x cpu)")


def sections(folder):
    """The lines of each part in `results.md`, without when and on what it ran."""
    first, *rest = (folder / "results.md").read_text().split("\n## ")
    assert first.startswith("# cpu (1 x cpu)")
    return [[line for line in text.splitlines() if line] for text in rest]


def test_a_part_that_hangs_is_stopped_with_all_that_it_started(tmp_path, monkeypatch, on_cpu):
    parts = {"first": part(HANGS, 2), "second": part(WRITES, 120)}
    monkeypatch.setattr(lent, "PARTS", parts)
    minutes = (122 + lent.STARTING) / 60
    assert not lent.measure(["first", "second"], tmp_path, minutes=minutes, small=True)
    first, second = sections(tmp_path)
    assert first[0] == "Part of 2 s"
    assert any(line.startswith("Stopped after 2 s") for line in first)
    assert first[-1] == "[1, 2]"
    assert second[-1] == "[3]"
    started = Path("/proc", (tmp_path / "first.json.pid").read_text().strip(), "stat")
    # Its new parent may not have asked yet how it ended.
    assert not started.exists() or ") Z " in started.read_text()


def test_results_are_there_after_each_part(tmp_path, monkeypatch, on_cpu):
    class Gone(Exception):
        """The machine is gone."""

    monkeypatch.setattr(lent, "PARTS", {"first": part(WRITES, 60), "second": part(WRITES, 60)})
    limited = lent.limited

    def vanish(command, *rest):
        if command[-1].endswith("second.json"):
            raise Gone
        return limited(command, *rest)

    monkeypatch.setattr(lent, "limited", vanish)
    with pytest.raises(Gone):
        lent.measure(["first", "second"], tmp_path, minutes=9, small=True)
    assert [text[-1] for text in sections(tmp_path)] == ["[3]"]


def test_a_part_that_fails_or_writes_nothing_says_so(tmp_path, monkeypatch, on_cpu):
    parts = {"fails": part("true", 60, status=3), "odd": part('echo "{" > "$0"', 60)}
    monkeypatch.setattr(lent, "PARTS", parts)
    assert not lent.measure(list(parts), tmp_path, minutes=9, small=True)
    fails, odd = sections(tmp_path)
    assert any(line.startswith("Ended with status 3") for line in fails)
    assert fails[-1] == odd[-1] == "Nothing was measured."


def test_parts_inherit_the_time_that_others_leave_over(tmp_path, monkeypatch, on_cpu):
    limits = []
    monkeypatch.setattr(lent, "limited", lambda _, seconds, *rest: limits.append(seconds) or "done")
    assert lent.measure(list(lent.PARTS), tmp_path, minutes=9, small=True)
    share = (9 * 60 - lent.STARTING) / sum(part.seconds for part in lent.PARTS.values())
    shares = [share * part.seconds for part in lent.PARTS.values()]
    inherited = [sum(shares[: place + 1]) for place in range(len(shares))]
    assert limits == pytest.approx(inherited, abs=20)


def test_the_nine_minutes_are_all_that_the_parts_have():
    assert sum(part.seconds for part in lent.PARTS.values()) <= lent.MINUTES * 60 - lent.STARTING


ROW = {
    **{"precision": "bf16", "games": 16384, "steps": 2**19, "network": "cells"},
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
    assert lent.updates_table([ROW | said])[2] == (
        "| bf16 | 16,384 | 1,048,576 (524,288 to 2,097,152) | 500 (250 to 1,000) | "
        f"{words} | 3 |  | 31.3 |"
    )


def test_precisions_are_compared_for_as_long_as_fits(tmp_path):
    assert lent.compared_steps(tmp_path, 60) == lent.COMPARED
    parts = [
        {"part": "env", "failure": None, "steps_per_second": {"median": 9e9}},
        {"part": "train", "failure": None, "steps_per_second": {"median": 4e6}},
        {"part": "train", "failure": None, "steps_per_second": {"median": 1e6}},
        {"part": "train", "failure": "too large"},
    ]
    (tmp_path / "bench.json").write_text(json.dumps({"parts": parts}))
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
    for words in ("Nothing was measured", "No table", "failed", "Stopped"):
        assert words not in text
    assert "15 tests passed on cpu (cpu)" in text
