"""Processes that do not come together: real ones, which all wait at the same time."""

import contextlib
import os
import socket
import subprocess
import sys
import threading

import pytest

from hackmatrix_rl.system._hosts import check_port_is_free, parse_address
from hackmatrix_rl.system.errors import ConfigError

from .test_hosts import free_port

pytestmark = pytest.mark.processes

SECONDS = 2


@contextlib.contextmanager
def listening(answer):
    """A port at which something that is no process 0 answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):  # closed at the end of the test
                while True:
                    connection, _ = server.accept()
                    connection.sendall(answer)
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


CASES = {
    "refused": (1, "Connection refused"),
    "unknown": (1, "no process 0 there within 2 s: "),
    "another service": (1, "something answers there"),
    "is_single_process": (0, "not all other processes came within 2 s"),
}


@pytest.fixture(scope="module")
def ended():
    """Exit status and standard error of each."""
    with listening(b"HTTP/1.0 400 Bad Request\r\n\r\n") as service:
        addresses = {
            "refused": f"127.0.0.1:{free_port()}",
            "unknown": "no-such-host.invalid:1234",
            "another service": f"127.0.0.1:{service}",
            "is_single_process": f"127.0.0.1:{free_port()}",
        }
        processes = {
            name: subprocess.Popen(
                [
                    *(sys.executable, "-m", "hackmatrix_rl", "train", "--preset", "debug"),
                    *("--coordinator", addresses[name], "--num-processes", "2"),
                    *("--process-id", str(CASES[name][0]), "--connect-timeout", str(SECONDS)),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ,
            )
            for name in CASES
        }
        outputs = {name: each.communicate(timeout=120)[1] for name, each in processes.items()}
    return {name: (processes[name].returncode, outputs[name]) for name in CASES}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_processes_that_do_not_come_together_end_in_one_line(ended, name):
    status, said = ended[name]
    assert status == 2, said
    (line,) = said.splitlines()
    assert line.startswith("Error: --coordinator ")
    assert CASES[name][1] in line
    assert "--connect-timeout" in line


def test_a_port_that_is_taken_is_named():
    with (
        listening(b"") as port,
        pytest.raises(ConfigError, match=rf"--coordinator a:{port}: .*Address already in use"),
    ):
        check_port_is_free(f"a:{port}")
    check_port_is_free(f"a:{free_port()}")


@pytest.mark.parametrize(
    "text", ["host", "host:", ":1234", "host:0", "host:65536", "host:x", "²:²"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ConfigError, match="Use HOST:PORT"):
        parse_address(text)


def test_addresses_are_understood():
    assert parse_address("10.0.0.1:1234") == ("10.0.0.1", 1234)
    assert parse_address("[::1]:80") == ("::1", 80)
