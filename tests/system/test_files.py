"""Files from outside are regular and of a bounded size, or are refused; links are not followed."""

import errno
import os
import socket
from pathlib import Path

import pytest

from hackmatrix_rl.system import open_in_place, read_bounded, read_json, write_whole
from hackmatrix_rl.system._files import MOST_DEPTH
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError


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


@pytest.mark.parametrize("link", ["file", "file.part", ".part"])
def test_a_file_is_written_through_no_link(tmp_path: Path, link: str) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (tmp_path / link).symlink_to(mine)
    write_whole(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "new"
    assert not (tmp_path / "file").is_symlink()
    assert mine.read_text() == "precious"
    assert {each.name for each in tmp_path.iterdir()} == {"file", "mine", link}
    # As wide as other files: only its name was hidden.
    assert (tmp_path / "file").stat().st_mode == mine.stat().st_mode


@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe"])
def test_nothing_is_written_into_what_may_lie_elsewhere(tmp_path: Path, kind: str) -> None:
    mine, file = tmp_path / "mine", tmp_path / "file"
    mine.write_text("precious")
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "hard link":
        file.hardlink_to(mine)
    else:
        file.symlink_to(mine if kind == "link" else tmp_path / "elsewhere")
    with pytest.raises(OSError, match=f"file is a {kind.removeprefix('dangling ')}"):
        open_in_place(file, os.O_RDWR | os.O_APPEND)
    assert mine.read_text() == "precious"
    assert {each.name for each in tmp_path.iterdir()} == {"file", "mine"}


def test_a_name_under_which_nothing_can_be_read_is_not_written(here: Path) -> None:
    with pytest.raises(ConfigError, match="a line break or another control character"):
        write_whole("a\nb", "text")
    assert not list(here.iterdir())


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_what_is_no_path_is_refused(name: str) -> None:
    with pytest.raises(DamagedFileError, match="is not a valid path of a file"):
        read_json(name)


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "run.json").write_text("{}")
    monkeypatch.setattr("os.open", denied)
    with pytest.raises(DamagedFileError, match=r"cannot be read \(Permission denied\)"):
        read_json(tmp_path / "run.json")


def test_json_is_refused_where_it_is_nested_deeper_than_can_be_shown(tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    for depth, fits in ((MOST_DEPTH - 1, True), (MOST_DEPTH, False), (10**6, False)):
        file.write_text('{"a": ' + "[" * depth + "]" * depth + "}")
        if fits:
            assert repr(read_json(file)).count("[") == depth
        else:
            with pytest.raises(DamagedFileError, match="is not JSON"):
                read_json(file)
