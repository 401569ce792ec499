"""How long compiling took last time: said before it begins, and never a reason to fail."""

import json
import threading

import jax
import pytest

from hackmatrix_rl.system import CompileTimes, compiling, ticking
from hackmatrix_rl.system import _compile_times as module
from hackmatrix_rl.system._compile_times import FILE

FIRST = "compiling ... (this may take a minute, the first time)"


@pytest.fixture
def cache(tmp_path):
    """An empty compilation cache of the test's own."""
    before = jax.config.jax_compilation_cache_dir
    folder = tmp_path / "cache"
    folder.mkdir()
    jax.config.update("jax_compilation_cache_dir", str(folder))
    yield folder
    jax.config.update("jax_compilation_cache_dir", before)


def times(kind="train"):
    return CompileTimes(kind)


def compile_once(cache, seconds, *, name=None, kind="train"):
    """What is said before compiling; a program of a name is new in the cache after it."""
    each = times(kind)
    said = each.line()
    if name is not None:
        (cache / f"{name}-cache").write_text("")
    each.keep(seconds)
    assert each.notes == []
    return said


def test_the_first_time_there_is_no_number_and_then_that_of_last_time(cache):
    assert compile_once(cache, 14.2, name="one") == FIRST
    assert compile_once(cache, 12.9, name="two") == "compiling ... (14 s last time)"
    assert times().line() == "compiling ... (13 s last time)"


def test_a_program_from_the_cache_has_a_time_of_its_own(cache):
    compile_once(cache, 14.2, name="one")
    compile_once(cache, 3.66)
    assert times().line() == "compiling ... (last time 3.7 s from the cache, 14 s without)"
    compile_once(cache, 20.0, name="two")
    assert times().line() == "compiling ... (last time 3.7 s from the cache, 20 s without)"


def test_each_kind_of_program_has_a_time_of_its_own(cache):
    compile_once(cache, 14.2, name="one")
    assert times("eval").line() == FIRST
    compile_once(cache, 2.0, name="two", kind="eval")
    assert times("eval").line() == "compiling ... (2.0 s last time)"
    assert times().line() == "compiling ... (14 s last time)"


@pytest.mark.parametrize("content", ["", "{", "[1]", "\x00"])
def test_a_file_that_cannot_be_used_is_set_aside(cache, content):
    (cache / FILE).write_text(content)
    each = times()
    assert each.line() == FIRST
    each.keep(14.2)
    (note,) = each.notes
    assert f"{FILE}: is " in note
    assert f"it is now {FILE}.damaged" in note
    assert (cache / f"{FILE}.damaged").read_text() == content
    assert "last time" in times().line()


def test_a_folder_in_its_place_is_set_aside(cache):
    (cache / FILE).mkdir()
    compiling = times()
    compiling.keep(14.2)
    assert "is a folder" in compiling.notes[0]
    assert "last time" in times().line()


@pytest.mark.parametrize(
    "known", [3, "14 s", None, {"compiled": -1}, {"compiled": "14"}, {"compiled": True}, [14]]
)
def test_an_entry_that_makes_no_sense_is_not_shown(cache, known):
    compile_once(cache, 14.2, name="one")
    (kind,) = json.loads((cache / FILE).read_text())
    (cache / FILE).write_text(json.dumps({kind: known}))
    assert compile_once(cache, 9.0, name="two") == FIRST
    assert times().line() == "compiling ... (9.0 s last time)"


def test_a_file_that_cannot_be_written_is_told(cache, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_json", refuse)
    each = times()
    each.keep(14.2)
    assert each.notes == [f"could not write {cache / FILE}: No space left on device"]


def test_one_that_can_be_neither_read_nor_renamed_is_told(cache, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system")

    (cache / FILE).write_text("{")
    monkeypatch.setattr(module, "set_aside", refuse)
    assert times().notes == [
        f"{cache / FILE}: is not JSON; it cannot be renamed: Read-only file system"
    ]


def test_the_file_does_not_grow_for_ever(cache, monkeypatch):
    monkeypatch.setattr(module, "_MOST", 2)
    for width in (1, 2, 3):
        compile_once(cache, width, name=width, kind=f"width={width}")
    assert len(json.loads((cache / FILE).read_text())) == 2
    assert times("width=1").line() == FIRST
    assert times("width=3").line() == "compiling ... (3.0 s last time)"


def test_a_cache_that_is_not_there_yet_is_made(cache):
    cache.rmdir()
    compile_once(cache, 2.0)
    assert times().line() == "compiling ... (2.0 s last time)"


def test_a_file_in_place_of_the_cache_is_told(cache):
    cache.rmdir()
    cache.write_text("")
    each = times()
    assert each.line() == FIRST
    each.keep(2.0)
    assert each.notes == [f"could not write {cache / FILE}: File exists"]


def test_without_a_cache_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = jax.config.jax_compilation_cache_dir
    for folder in (None, "gs://bucket/cache"):
        jax.config.update("jax_compilation_cache_dir", folder)
        try:
            assert compile_once(tmp_path, 14.2) == "compiling ... (this may take a minute)"
            assert times().line() == "compiling ... (this may take a minute)"
        finally:
            jax.config.update("jax_compilation_cache_dir", before)
    assert list(tmp_path.iterdir()) == []


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_block_says_how_long_it_takes_and_keeps_it(cache):
    said, clock = [], Clock()
    with compiling("eval", said.append, clock=clock):
        clock.now = 3.0
    assert said == [FIRST, "compiled in 3.0 s"]
    assert times("eval").line() == "compiling ... (3.0 s last time)"


def test_compiling_can_be_over_before_the_block_is(cache):
    said, clock = [], Clock()
    with compiling("eval", said.append, clock=clock) as done:
        clock.now = 3.0
        done()
        clock.now = 60.0
        done()
    assert said == [FIRST, "compiled in 3.0 s"]
    assert times("eval").line() == "compiling ... (3.0 s last time)"


def test_a_block_that_fails_while_it_compiles_keeps_nothing(cache):
    said = []
    with pytest.raises(RuntimeError), compiling("eval", said.append):
        raise RuntimeError
    assert said == [FIRST]
    assert times("eval").line() == FIRST


def test_it_ticks_while_it_lasts(cache):
    ticked = threading.Event()
    before = threading.active_count()
    with ticking(lambda seconds: ticked.set(), seconds=0.01):
        assert ticked.wait(60)
    assert threading.active_count() == before
