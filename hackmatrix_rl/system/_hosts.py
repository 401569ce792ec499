"""Several processes as one run: how they connect in time, and how they agree."""

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

# Seconds that process 0 waits longer: without it the others would lose their connection.
_FIRST_WAITS_ON = 3.0
_ADVICE = (
    "Start all processes at about the same time, with the same --coordinator and --num-processes; "
    "--connect-timeout waits longer, --num-processes 1 trains in one process."
)

# Words in errors after the other end of a connection is gone.
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
    """Checks that process 0 can listen at its port. JAX would end with a segmentation fault."""
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


@dataclass(frozen=True)
class Requests:
    """What a process asks for at an update: to stop (the signal's number; 0: not), or to save.

    Also whether training went wrong, and whether a folder of the run was removed.
    """

    stop: int = 0
    save: bool = False
    unhealthy: bool = False
    removed: bool = False


def connect(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    heartbeat_seconds: int = HEARTBEAT_SECONDS,
    connect_seconds: int = CONNECT_SECONDS,
    environment: Mapping[str, str] = os.environ,
) -> bool:
    """Joins the other processes of a run, and says whether there are any.

    Where no launcher sets them, the coordinator is `host:port` of process 0, and processes count
    from 0. One process trains alone and ignores the environment. If the others do not come within
    `connect_seconds`, this process ends with status 2; one that is silent for `heartbeat_seconds`
    counts as lost. Call it before any device starts.

    Raises:
        ConfigError: the arguments are not from one run, or the others cannot be reached.
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
    # Its handler of SIGTERM would replace ours, which saves first.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        with in_time(connect_seconds, coordinator, process_id):
            jax.distributed.initialize(
                coordinator,
                num_processes,
                process_id,
                # Longer than `in_time` waits, because JAX aborts after it.
                initialization_timeout=connect_seconds + 60,
                heartbeat_timeout_seconds=heartbeat_seconds,
                # At the end process 0 plays the games of the summary, and the others wait.
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
    # On a TPU's own machine JAX asks the machine for the other processes.
    on_tpu = accelerator_present("tpu") and importlib.util.find_spec("libtpu") is not None
    return "," in workers or on_tpu


@contextmanager
def ending_with_the_others(note: Callable[[str], None]) -> Iterator[None]:
    """Ends this process at once after an error, if the run has several processes.

    An ordinary end would wait for the others, and they for this one. `note` must write its message
    before it returns.
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
    """Ends this process without waiting for the others. They notice it."""
    sys.stdout.flush()
    sys.stderr.flush()
    if jax.process_index() == 0:
        # Without process 0 the others lose their connection. Leave them time for their messages.
        time.sleep(2.0)
    os._exit(code)


def disconnect() -> None:
    """Leaves the run together with all its processes."""
    if not is_single_process():
        jax.distributed.shutdown()


def process_index() -> int:
    """Number of this process in the run, from 0."""
    return int(jax.process_index())


def is_process_zero() -> bool:
    """Whether this is process 0. Only process 0 writes metrics and talks to services."""
    return process_index() == 0


def agree(mine: Requests) -> Requests:
    """One decision for all processes, from what each one asks for.

    All processes save and update together; a process that acts alone would make the others
    wait. But clocks differ, and a signal may reach only one process. So process 0 decides when
    to save and how training and folders are, and a signal to any process counts.
    """
    if is_single_process():
        return mine
    numbers = np.array([mine.stop, mine.save, mine.unhealthy, mine.removed], np.int32)
    everyone = np.asarray(multihost_utils.process_allgather(numbers))
    save, unhealthy, removed = (bool(each) for each in everyone[0, 1:])
    return Requests(int(everyone[:, 0].max()), save, unhealthy, removed)


def any_process(mine: bool) -> bool:
    """Whether a flag is set in any process."""
    return mine if is_single_process() else any(_gather_json(mine))


def on_process_zero(act: Callable[[], Any]) -> Any:
    """Calls a function only in process 0, and returns its result, as JSON, in all processes."""
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
    """Checks that all processes see a folder that process 0 has made."""
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
    """A hash over all numbers of a tree. Trees with equal hashes have the same bits."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)):
        raw = jax.random.key_data(leaf) if is_key(leaf) else leaf
        digest.update(np.asarray(raw).tobytes())
    return digest.hexdigest()


def _gather_json(mine: Any) -> list[Any]:
    """The value of each process, in the order of their numbers."""
    text = json.dumps(mine).encode()
    sizes = np.asarray(multihost_utils.process_allgather(np.array([len(text)], np.int32)))
    padded = np.zeros((int(sizes.max()),), np.uint8)
    padded[: len(text)] = np.frombuffer(text, np.uint8)
    texts = np.asarray(multihost_utils.process_allgather(padded))
    return [json.loads(bytes(row[: int(n)])) for row, n in zip(texts, sizes.ravel(), strict=True)]
