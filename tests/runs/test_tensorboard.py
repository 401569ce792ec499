"""TensorBoard events, read back."""

import math
import struct
import sys

import pytest
from tensorboardX.proto import event_pb2

from hackmatrix_rl.runs.sinks import TensorBoard, grouped, require_tensorboard
from hackmatrix_rl.system.errors import ConfigError


def events(folder):
    """Every event of every file in the folder: a record is length, checksum, data, checksum."""
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            yield event_pb2.Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]


def scalars(folder):
    return [
        (event.step, value.tag, value.simple_value)
        for event in events(folder)
        for value in event.summary.value
    ]


def test_known_numbers_are_scalars_by_environment_step_and_on_disk_at_once(tmp_path):
    sink = TensorBoard(tmp_path / "tensorboard", names=grouped, now=lambda: 5.0)
    numbers = {"entropy": 0.5, "seconds": 2.0, "eval/won": 1.0, "time/save": 3.0}
    sink.write({"env_steps": 64.0, "return": math.nan, **numbers})
    expected = [
        (64, "env_steps", 64.0),
        (64, "train/entropy", 0.5),
        (64, "time/seconds", 2.0),
        (64, "eval/won", 1.0),
        (64, "time/save", 3.0),
    ]
    assert scalars(tmp_path / "tensorboard") == expected
    sink.close()
    assert {event.wall_time for event in events(tmp_path / "tensorboard") if event.step} == {5.0}


def test_a_resumed_run_writes_a_second_file_that_says_from_where_it_holds(tmp_path, monkeypatch):
    for pid, steps in ((1, (100, 200, 300)), (2, (200, 300))):
        monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
        sink = TensorBoard(tmp_path)
        for step in steps:
            sink.write({"env_steps": step})
        sink.close()
    assert len(list(tmp_path.iterdir())) == 2
    starts = [e.step for e in events(tmp_path) if e.HasField("session_log")]
    assert starts == [100, 200]


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ConfigError, match=r"--tracker tensorboard needs .*'\.\[tensorboard\]'"):
        require_tensorboard()
