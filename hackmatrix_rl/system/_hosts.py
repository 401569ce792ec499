"""Runs with several processes: their connection and their agreement."""

import hashlib
import importlib.util
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import equinox as eqx
import jax
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import PyTree

from hackmatrix_rl._plugins import accelerator_present
from hackmatrix_rl.system._exits import ExitCode
from hackmatrix_rl.system._files import write_whole
from hackmatrix_rl.system._processes import CONNECT_SECONDS, HEARTBEAT_SECONDS, is_single_process
from hackmatrix_rl.system.errors import AgreedError, ConfigError, flag, is_key, refusing

# Additional seconds that process 0 waits: its exit would disconnect the others.
_FIRST_WAITS_ON = 3.0
_ADVICE = (
    "Start all processes at about the same time, with the same --coordinator and --num-processes; "
    "--connect-timeout waits longer, --num-processes 1 trains in one process."
)

# Words in the errors of a lost connection.
_LOSS = ("Gloo", "NCCL", "UNAVAILABLE", "Connection", "coordination service", "eartbeat")


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
    """Checks that process 0 can listen at its port. In JAX, failing to is a segmentation fault."""
    _, port = parse_address(coordinator)
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        said = f"--coordinator {coordinator}: process 0 cannot listen at port {port}: "
        with refusing(said, ". Use another port.", of=OSError):
            probe.bind(("", port))


@contextmanager
def in_time(seconds: float, coordinator: str | None, process_id: int | None) -> Iterator[None]:
    """Exits with one line if the block takes too long. JAX would abort the process instead."""

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


@dataclass(frozen=True)
class Requests:
    """The requests of a process at an update."""

    stop: int = 0  #: Number of the signal to stop; 0 without one.
    save: bool = False
    unhealthy: bool = False  #: Whether training is unhealthy.
    removed: bool = False  #: Whether a folder of the run was removed.


def connect(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    heartbeat_seconds: int = HEARTBEAT_SECONDS,
    connect_seconds: int = CONNECT_SECONDS,
    environment: Mapping[str, str] = os.environ,
) -> bool:
    """Connects to the other processes of a run. Call it before a device starts.

    With `num_processes=1` it ignores the environment.

    Args:
        coordinator: `host:port` of process 0; `None` if a launcher sets it.
        num_processes: number of processes; `None` if a launcher sets it.
        process_id: number of this process, from 0; `None` if a launcher sets it.
        heartbeat_seconds: a process without a heartbeat for this long counts as lost.
        connect_seconds: if the others are not there by then, this process exits with status 2.
        environment: the variables of launchers.

    Returns:
        Whether the run has several processes.

    Raises:
        ConfigError: the arguments are inconsistent, or the others cannot be reached.
    """
    given = {
        "--coordinator": coordinator,
        "--num-processes": num_processes,
        "--process-id": process_id,
    }
    missing = [name for name, value in given.items() if value is None]
    if num_processes == 1 and process_id in (None, 0):
        return False
    if len(missing) == len(given) and not launched_together(environment):
        return False
    if missing and len(missing) < len(given):
        raise ConfigError(
            f"{', '.join(missing)} missing: give all of {', '.join(given)}, or none of them if "
            "SLURM, Open MPI or a TPU pod sets them."
        )
    if process_id is not None and num_processes is not None and process_id >= num_processes:
        raise ConfigError(
            f"--process-id {process_id} of --num-processes {num_processes}: use 0 to "
            f"{num_processes - 1}."
        )
    if coordinator is not None:
        parse_address(coordinator)
        if process_id == 0:
            check_port_is_free(coordinator)
    # Its SIGTERM handler would replace ours, which saves first.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        with in_time(connect_seconds, coordinator, process_id):
            jax.distributed.initialize(
                coordinator,
                num_processes,
                process_id,
                # Longer than `in_time`, because JAX aborts the process after it.
                initialization_timeout=connect_seconds + 60,
                heartbeat_timeout_seconds=heartbeat_seconds,
                # At the end the others wait while process 0 plays the games of the summary.
                shutdown_timeout_seconds=3600,
            )
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"--coordinator {coordinator}: the processes of the run did not come together: "
            f"{str(error).splitlines()[0]} {_ADVICE}"
        ) from error
    return True


def launched_together(environment: Mapping[str, str]) -> bool:
    """Whether a launcher started several processes."""
    counts = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
    if any(int(environment.get(name) or 1) > 1 for name in counts):
        return True
    workers = environment.get("TPU_WORKER_HOSTNAMES", "")
    # On a TPU host, JAX finds the other processes by itself.
    on_tpu = accelerator_present("tpu") and importlib.util.find_spec("libtpu") is not None
    return "," in workers or on_tpu


@contextmanager
def ending_with_the_others(note: Callable[[str], None]) -> Iterator[None]:
    """Exits immediately after an error, if the run has several processes.

    A normal exit would deadlock: this process would wait for the others, and they for it. `note`
    must write its message before it returns.
    """
    try:
        yield
    except Exception as error:
        if is_single_process():
            raise
        if any(sign in str(error) for sign in _LOSS):
            note(
                "Another process of this run was lost. Start all of them again with --resume-run; "
                f"what came after the last checkpoint is lost. ({str(error).splitlines()[0]})"
            )
            leave(ExitCode.PEER_LOST)
        note(traceback.format_exc())
        leave(ExitCode.CRASHED)


def leave(code: ExitCode) -> NoReturn:
    """Exits without waiting for the others, which detect it."""
    sys.stdout.flush()
    sys.stderr.flush()
    if jax.process_index() == 0:
        # The exit of process 0 disconnects the others. Leave them time for their messages.
        time.sleep(2.0)
    os._exit(code)


def disconnect() -> None:
    """Disconnects from the run, together with all its processes."""
    if not is_single_process():
        jax.distributed.shutdown()


def process_index() -> int:
    """The number of this process in the run, from 0."""
    return int(jax.process_index())


def is_process_zero() -> bool:
    """Whether this is process 0, the only one that writes metrics and calls services."""
    return process_index() == 0


def agree(mine: Requests) -> Requests:
    """Combines the requests of all processes into one decision.

    All processes save and update together: the others would wait for a process that acts alone. But
    clocks differ, and a signal may reach only one process. So `stop` is from any process, and the
    other requests are from process 0.
    """
    if is_single_process():
        return mine
    numbers = np.array([mine.stop, mine.save, mine.unhealthy, mine.removed], np.int32)
    everyone = np.asarray(multihost_utils.process_allgather(numbers))
    save, unhealthy, removed = (bool(each) for each in everyone[0, 1:])
    return Requests(int(everyone[:, 0].max()), save, unhealthy, removed)


def any_process(mine: bool) -> bool:
    """Whether the flag is set in any process."""
    return mine if is_single_process() else any(_gather_json(mine))


def on_process_zero(act: Callable[[], Any]) -> Any:
    """Calls a function only in process 0, and returns its result in all processes (as JSON)."""
    if is_single_process():
        return act()
    answer: dict[str, Any] = {}
    if is_process_zero():
        try:
            answer = {"result": act()}
        except ConfigError as error:
            answer = {"refused": str(error)}
    answer = _gather_json(answer)[0]
    if "refused" in answer:
        raise AgreedError(answer["refused"])
    return answer["result"]


def check_same(settings: Mapping[str, Any], policy: PyTree) -> None:
    """Checks that all processes have the same settings and the same initial network."""
    if is_single_process():
        return
    found = _gather_json({**settings, "initial parameters": fingerprint(policy)})
    for process, theirs in enumerate(found):
        for name, value in theirs.items():
            if value != found[0].get(name):
                spelled = flag(name) if name in settings else name
                raise AgreedError(
                    f"{spelled}: {value} in process {process}, but {found[0].get(name)} in "
                    "process 0. Start all processes with the same settings and versions."
                )


def check_shared(path: Any) -> None:
    """Checks that all processes see the folder of process 0."""
    if is_single_process():
        return
    probe = path / ".seen_by_all"
    if is_process_zero():
        write_whole(probe, "")
    multihost_utils.sync_global_devices("probe written")
    seen = _gather_json(bool(probe.exists()))
    if is_process_zero():
        probe.unlink()
    if not all(seen):
        raise AgreedError(
            f"--checkpoint-dir {path}: process {seen.index(False)} does not see it. Processes on "
            "several hosts need one that all of them see: gs://..., or a network disk."
        )


def fingerprint(tree: PyTree) -> str:
    """A hash of the bits of all arrays in a tree."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)):
        raw = jax.random.key_data(leaf) if is_key(leaf) else leaf
        digest.update(np.asarray(raw).tobytes())
    return digest.hexdigest()


def _gather_json(mine: Any) -> list[Any]:
    """The value of each process, in order."""
    text = json.dumps(mine).encode()
    sizes = np.asarray(multihost_utils.process_allgather(np.array([len(text)], np.int32)))
    padded = np.zeros((int(sizes.max()),), np.uint8)
    padded[: len(text)] = np.frombuffer(text, np.uint8)
    texts = np.asarray(multihost_utils.process_allgather(padded))
    return [json.loads(bytes(row[: int(n)])) for row, n in zip(texts, sizes.ravel(), strict=True)]
