"""The journal of a sweep: after a full disk, after a kill, and from a stranger."""

import errno
import os
from pathlib import Path

import pytest
from cli.commands import assert_refused, done, invoke
from fuzz.journals import FUZZER, good_lines

from hackmatrix_rl.runs.sweeps import _study as studies
from hackmatrix_rl.system import ExitCode
from hackmatrix_rl.system.errors import ConfigError

from .test_sweep import RATE, opened, trials, write

pytestmark = pytest.mark.processes

pytest.importorskip("optuna")
JOURNAL = Path("sweep", studies.JOURNAL)


def test_an_append_that_a_full_disk_refuses_leaves_no_part_of_a_line(here, monkeypatch):
    sweep = opened()
    before = JOURNAL.read_bytes()
    real = os.write

    def full(file, data):
        if not data.startswith(b'{"op_code"'):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[:10])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"No space left on device: 'sweep/journal\.log'"):
            sweep.take()
    assert JOURNAL.read_bytes() == before
    assert sweep.take().number == 0
    assert len(trials("sweep")) == 1


@pytest.mark.parametrize("whole", [0, 1, 2], ids=["nothing", "a study", "a study and its space"])
def test_half_a_line_at_the_end_is_told_left_out_and_cut_off(here, whole):
    opened()
    lines = JOURNAL.read_bytes().splitlines(keepends=True)
    assert len(lines) == 2
    JOURNAL.write_bytes(b"".join(lines[:whole]) + b'{"op_code":4,"worker_id":"')
    told = f"{JOURNAL}: ends in half a line, because a write was cut short; it is left out"
    if whole:
        assert invoke("report", "sweep").stderr.splitlines()[-1] == told
    notes = []
    assert opened(report=notes.append).take().number == 0
    assert notes[0] == told
    assert JOURNAL.read_bytes().count(b'"worker_id":""') == 0
    # Whatever line the worker had come to, the study knows its space now.
    with pytest.raises(ConfigError, match="holds a sweep of another space: metric is"):
        opened(metric="entropy")


def test_a_study_of_one_line_keeps_its_direction(here):
    opened()
    JOURNAL.write_bytes(JOURNAL.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(ConfigError, match="holds a sweep of another space: metric, to be large"):
        opened(minimize=True)


def test_a_worker_without_room_in_the_journal_leaves_its_trial_to_the_next(here, monkeypatch):
    """A report is left out; the result of a trial, and its settings, are not."""
    real = os.write

    def full(file, data):
        if data.startswith((b'{"op_code":7', b'{"op_code":6')):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data)

    command = ("sweep", write(), "--trials", 1, "--folder", "sweep", *RATE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        stopped = invoke(*command)
    assert stopped.exit_code == ExitCode.UNSAVED, stopped.output
    assert "could not report learning_rate at 12%: [Errno 28]" in stopped.stdout
    assert "journal.log: cannot be written: No space left on device" in stopped.stderr
    assert [each.state.name for each in trials("sweep")] == ["RUNNING"]


@pytest.mark.parametrize("forged", FUZZER.found, ids=map(str, range(len(FUZZER.found))))
def test_a_forged_journal_is_refused_in_one_line(here, forged):
    Path("sweep").mkdir()
    JOURNAL.write_bytes(forged)
    refused = invoke("report", "sweep")
    assert_refused(refused, "--folder sweep: the journal cannot be used: ")
    assert not Path("sweep", "report.html").exists()


def test_what_optuna_writes_is_not_refused(here):
    Path("sweep").mkdir()
    JOURNAL.write_bytes(b"".join(good_lines()))
    done("report", "sweep")
