"""Files from outside are regular and of a bounded size, or are refused."""

import errno
import os
import socket
from pathlib import Path

import pytest

from hackmatrix_rl.errors import DamagedFileError
from hackmatrix_rl.system import read_bounded, read_json


def test_a_file_is_read_whole_up_to_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(file)
    assert read_bounded(file, 5) == read_bounded(tmp_path / "link", 5) == b"12345"
    with pytest.raises(DamagedFileError, match="is too large: more than 4 bytes"):
        read_bounded(file, 4)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        read_bounded(file / "below")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name in ("pipe", "zero", "socket"):
            with pytest.raises(DamagedFileError, match="cannot be read"):
                read_json(tmp_path / name)
    with pytest.raises(DamagedFileError, match="is a folder, not a file"):
        read_json(tmp_path)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_what_is_no_path_is_refused(name: str) -> None:
    with pytest.raises(DamagedFileError, match="is no path of a file"):
        read_json(name)


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "run.json").write_text("{}")
    monkeypatch.setattr("os.open", denied)
    with pytest.raises(DamagedFileError, match=r"cannot be read \(Permission denied\)"):
        read_json(tmp_path / "run.json")
