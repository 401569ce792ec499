"""Services that never come to an end. Nothing here waits for one."""

import socket
import sys
import threading
from types import SimpleNamespace

import pytest

from hackmatrix_rl.runs._preflight import require_wandb
from hackmatrix_rl.runs.sinks import WeightsAndBiases
from hackmatrix_rl.system import within
from hackmatrix_rl.system.errors import ConfigError


@pytest.fixture
def released():
    """Set at the end of a test: lets go what was held."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_does_what_it_does_in_time_or_is_left_to_itself(released):
    assert within(10.0, lambda: 3) == 3
    assert within(10.0, lambda: None) is None
    with pytest.raises(KeyError, match="a"):
        within(10.0, lambda: {}["a"])
    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
        within(0.01, released.wait)


@pytest.fixture
def dripping(released):
    """The port of a server that sends a byte now and then, and comes to an end at last."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                for _ in range(100):
                    if released.wait(0.05):
                        return
                    connection.sendall(b"a")
                connection.sendall(b"\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=drip, daemon=True).start()
        yield server.getsockname()[1]


class Settings(SimpleNamespace):
    """Stands for the library's settings, of which this package asks what there are."""

    init_timeout: float
    finish_timeout: float


def wandb_at(port, **changes):
    """Stands for the library, whose service is at a port."""
    return SimpleNamespace(
        Error=type("Error", (Exception,), {}),
        Settings=Settings,
        login=lambda **_: True,
        setup=lambda: SimpleNamespace(
            settings=SimpleNamespace(base_url=f"http://127.0.0.1:{port}")
        ),
        **changes,
    )


def test_a_service_that_drips_bytes_is_refused(dripping, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", wandb_at(dripping))
    with pytest.raises(ConfigError, match=r"cannot be reached: no answer within 0\.2 s"):
        require_wandb(timeout=0.2)


def service(folder):
    return WeightsAndBiases(
        project="p", run_id="r", name="r", folder=folder, config={}, patience=0.01
    )


def test_a_service_that_never_lets_a_run_begin_is_refused(released, monkeypatch, tmp_path):
    monkeypatch.setattr("hackmatrix_rl.runs.sinks._weights_and_biases._SLACK", 0.01)
    asked = []
    library = wandb_at(
        0, init=lambda **_: released.wait(), teardown=lambda: asked.append(1) or released.wait()
    )
    monkeypatch.setitem(sys.modules, "wandb", library)
    with pytest.raises(ConfigError, match=r"--tracker wandb: no answer within 0\.02 s"):
        service(tmp_path)
    assert asked, "the library would wait for its service at exit"


def test_a_service_that_never_lets_a_run_end_is_left(released, monkeypatch, tmp_path):
    monkeypatch.setattr("hackmatrix_rl.runs.sinks._weights_and_biases._SLACK", 0.5)
    run = SimpleNamespace(define_metric=lambda *_, **__: None, finish=released.wait)
    asked = []
    library = wandb_at(0, init=lambda **_: run, teardown=lambda: asked.append(1) or released.wait())
    monkeypatch.setitem(sys.modules, "wandb", library)
    with pytest.raises(TimeoutError, match="no answer"):
        service(tmp_path).close()
    assert asked
