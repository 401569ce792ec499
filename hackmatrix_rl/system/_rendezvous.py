"""The processes of a run connect in time, or one line says why they did not."""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.system._exits import ExitCode

CONNECT_SECONDS = 60
"""How long processes wait for one another at the start."""

# Seconds that process 0 waits longer: without it the others would lose their connection.
_FIRST_WAITS_ON = 3.0
_ADVICE = (
    "Start all processes at about the same time, with the same --coordinator and --num-processes; "
    "--connect-timeout waits longer, --num-processes 1 trains in one process."
)


def parse_address(coordinator: str) -> tuple[str, int]:
    """Host and port of `host:port`."""
    host, _, port = coordinator.rpartition(":")
    known = port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 2**16
    if not (host and known):
        raise ConfigError(
            f"--coordinator {coordinator}: not understood. Use HOST:PORT, such as 10.0.0.1:1234."
        )
    return host.strip("[]"), int(port)


def check_port_is_free(coordinator: str) -> None:
    """Checks that process 0 can listen at its port. JAX would end with a segmentation fault."""
    _, port = parse_address(coordinator)
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise ConfigError(
                f"--coordinator {coordinator}: process 0 cannot listen at port {port}: "
                f"{error.strerror}. Use another port."
            ) from error


@contextmanager
def in_time(seconds: float, coordinator: str | None, process_id: int | None) -> Iterator[None]:
    """Ends this process with one line if the body takes too long. JAX itself would abort."""

    def give_up() -> None:
        said = _why(seconds, coordinator, process_id)
        print(f"Error: {said} {_ADVICE}", file=sys.stderr, flush=True)
        os._exit(ExitCode.BAD_INPUT)

    waits = seconds + (_FIRST_WAITS_ON if process_id == 0 else 0.0)
    timer = threading.Timer(waits, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _why(seconds: float, coordinator: str | None, process_id: int | None) -> str:
    late = f"within {seconds:g} s"
    if coordinator is None:
        return f"the processes of the run did not come together {late}."
    if process_id == 0:
        return f"--coordinator {coordinator}: not all other processes came {late}."
    try:
        socket.create_connection(parse_address(coordinator), timeout=2.0).close()
    except OSError as error:
        return f"--coordinator {coordinator}: no process 0 there {late}: {error.strerror or error}."
    return (
        f"--coordinator {coordinator}: something answers there, but the run did not come together "
        f"{late}: it is not process 0, or other processes are missing."
    )
