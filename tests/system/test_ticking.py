"""What people are told while a program compiles."""

import threading

import pytest

from hackmatrix_rl.system import compiling, ticking

BEFORE = "compiling a step ... (this may take a minute, the first time)"


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_compiling_can_be_over_before_the_block_is():
    said, clock = [], Clock()
    with compiling(said.append, what="a step", clock=clock) as done:
        clock.now = 3.0
        done()
        clock.now = 60.0
        done()
    assert said == [BEFORE, "compiled in 3.0 s"]


def test_it_ticks_while_it_lasts_and_a_block_that_fails_says_nothing():
    said = []
    with pytest.raises(RuntimeError), compiling(said.append, what="a step"):
        raise RuntimeError
    assert said == [BEFORE]
    ticked = threading.Event()
    before = threading.active_count()
    with ticking(lambda seconds: ticked.set(), seconds=0.01):
        assert ticked.wait(60)
    assert threading.active_count() == before
