"""A sink in a thread of its own. Nothing here waits for a clock."""

import threading

import pytest

from hackmatrix_rl.runs.sinks import Queued, Sink


class Slow(Sink):
    """Takes a row only when it is let."""

    def __init__(self):
        self.rows, self.closed = [], False
        self.busy, self.let = threading.Event(), threading.Event()

    def write(self, row):
        self.busy.set()
        assert self.let.wait(10)
        self.rows.append(row["n"])

    def note(self, message):
        pass

    def close(self):
        self.closed = True


class Broken(Sink):
    """Raises whatever comes."""

    def __init__(self):
        self.tried = threading.Semaphore(0)

    def write(self, row):
        try:
            raise RuntimeError("no route\nto host")
        finally:
            self.tried.release()

    def note(self, message):
        pass

    def close(self):
        raise RuntimeError("still none")


def test_rows_arrive_in_order_and_the_sink_is_closed_after_them():
    slow, said, row = Slow(), [], {}
    sink = Queued(slow, report=said.append)
    for n in range(50):
        row["n"] = n  # each is kept as it was when it was written
        sink.write(row)
    slow.let.set()
    sink.close()
    assert slow.rows == list(range(50))
    assert slow.closed
    assert said == []


def test_a_sink_that_hangs_holds_up_nobody_and_what_finds_no_room_is_counted():
    slow, said = Slow(), []
    sink = Queued(slow, capacity=3, report=said.append)
    sink.write({"n": 0})
    assert slow.busy.wait(10)  # the first row is being written, three more may wait
    for n in range(1, 10):
        sink.write({"n": n})
        if n == 4:
            assert len(said) == 1, "said as soon as it begins"
    assert "Slow: does not keep up" in said[0]
    assert sink.dropped == 6
    slow.let.set()
    while len(slow.rows) < 4:
        pass
    sink.write({"n": 10})  # the outage is over
    sink.close()
    assert slow.rows == [0, 1, 2, 3, 10]
    assert said[1:] == ["Slow: 6 rows and messages were dropped, 0 failed"]


def test_what_the_sink_raises_is_said_once_in_one_line():
    broken, said = Broken(), []
    sink = Queued(broken, report=said.append)
    for n in range(3):
        sink.write({"n": n})
        assert broken.tried.acquire(timeout=10)
    sink.close()
    assert said[0] == "Broken: RuntimeError: no route to host. Training continues."
    assert said[1:] == ["Broken: 0 rows and messages were dropped, 4 failed"]


def test_closing_waits_for_a_bounded_time():
    slow, said = Slow(), []
    sink = Queued(slow, patience=0.01, report=said.append)
    for n in range(3):
        sink.write({"n": n})
    assert slow.busy.wait(10)
    sink.close()
    assert said == ["Slow: gave up after 0.01 s; 2 rows and messages were still waiting"]
    slow.let.set()


def test_room_for_nothing_is_an_error():
    with pytest.raises(ValueError, match="capacity"):
        Queued(Slow(), capacity=0, report=pytest.fail)
