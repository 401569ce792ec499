"""Several processes as one run: how they find one another, and what they agree on."""

import hashlib
import importlib.util
import json
import os
import sys
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

from hackmatrix_rl.errors import AgreedError, ConfigError, flag, is_key
from hackmatrix_rl.system._devices import accelerator_present
from hackmatrix_rl.system._exit_codes import ExitCode
from hackmatrix_rl.system._rendezvous import (
    CONNECT_SECONDS,
    check_port_is_free,
    in_time,
    parse_address,
)

HEARTBEAT_SECONDS = 60
"""How long a process may be silent before the others count it as lost."""

# What errors say when the other end of a connection is gone.
_LOSS = ("Gloo", "NCCL", "UNAVAILABLE", "Connection", "coordination service", "eartbeat")


@dataclass(frozen=True)
class Requests:
    """What a process would like to happen now.

    Attributes:
        stop: number of the signal that asked it to stop; 0 if none did.
        save: a checkpoint is due by its clock.
        unhealthy: training has gone wrong.
    """

    stop: int = 0
    save: bool = False
    unhealthy: bool = False


def connect(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    heartbeat_seconds: int = HEARTBEAT_SECONDS,
    connect_seconds: int = CONNECT_SECONDS,
    environment: Mapping[str, str] = os.environ,
) -> bool:
    """Joins the other processes of a run, if there are any. Before any device is started.

    Args:
        coordinator: `host:port` of process 0; with the two below, where nothing tells.
        num_processes: of the run; 1 for a process that stays alone whatever the environment
            says.
        process_id: which of them this is, from 0.
        heartbeat_seconds: how long a process may be silent before it counts as lost.
        connect_seconds: how long to wait for the others; later this process ends, with status 2.
        environment: variables that a launcher set.

    Returns:
        Whether this is one of several.

    Raises:
        ConfigError: if the arguments do not make up a run, or the others cannot be reached.
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
            f"{', '.join(missing)} missing: give all of {', '.join(given)}, or none of them where "
            "SLURM, Open MPI or a TPU pod tells."
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
    # Its handler of SIGTERM would take the place of ours, which saves first.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        with in_time(connect_seconds, coordinator, process_id):
            jax.distributed.initialize(
                coordinator,
                num_processes,
                process_id,
                # Longer than `in_time` waits: after it JAX aborts.
                initialization_timeout=connect_seconds + 60,
                heartbeat_timeout_seconds=heartbeat_seconds,
                # Process 0 plays the games of the summary while the others wait at the end.
                shutdown_timeout_seconds=3600,
            )
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"--coordinator {coordinator}: the processes of the run did not come together: "
            f"{str(error).splitlines()[0]} Start all of them at about the same time, with the "
            "same --coordinator and --num-processes; --num-processes 1 trains alone."
        ) from error
    return True


def launched_together(environment: Mapping[str, str]) -> bool:
    """Whether a launcher says that this is one of several processes.

    Args:
        environment: variables that a launcher set.
    """
    counts = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
    if any(int(environment.get(name) or 1) > 1 for name in counts):
        return True
    workers = environment.get("TPU_WORKER_HOSTNAMES", "")
    # On a TPU's own machine JAX asks the machine who the others are.
    on_tpu = accelerator_present("tpu") and importlib.util.find_spec("libtpu") is not None
    return "," in workers or on_tpu


@contextmanager
def ending_with_the_others(note: Callable[[str], None]) -> Iterator[None]:
    """Ends this process at once where an error means that it cannot go on with the others.

    An ordinary end would wait for them, and they for this one.

    Args:
        note: takes messages for people, and has written them when it returns.
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
    """Ends this process without waiting for the others of the run, who notice it."""
    sys.stdout.flush()
    sys.stderr.flush()
    if jax.process_index() == 0:
        # The others lose their connection with process 0: time for them to say their own.
        time.sleep(2.0)
    os._exit(code)


def disconnect() -> None:
    """Leaves the run when all of its processes do."""
    if not is_single_process():
        jax.distributed.shutdown()


def is_single_process() -> bool:
    """Whether this process is all of the run. Asking starts no device."""
    return not jax.distributed.is_initialized()


def process_index() -> int:
    """Which of the run's processes this is."""
    return int(jax.process_index())


def is_process_zero() -> bool:
    """Whether this is process 0, which alone writes metrics and talks to services."""
    return process_index() == 0


def agree(mine: Requests) -> Requests:
    """What is to happen, the same in every process.

    Clocks differ and a signal may reach one process alone, while each save and each update is
    a joint act: one process that went its own way would leave the others waiting. Process 0
    says when to save and whether training is healthy; a signal that reached any process counts.

    Args:
        mine: what this process would like.
    """
    if is_single_process():
        return mine
    wishes = np.array([mine.stop, mine.save, mine.unhealthy], np.int32)
    everyone = np.asarray(multihost_utils.process_allgather(wishes))
    return Requests(
        stop=int(everyone[:, 0].max()), save=bool(everyone[0, 1]), unhealthy=bool(everyone[0, 2])
    )


def any_process(mine: bool) -> bool:
    """Whether something is so in any process."""
    return mine if is_single_process() else any(_gather_json(mine))


def on_process_zero(act: Callable[[], Any]) -> Any:
    """Does something in process 0 alone, and tells all processes what came of it.

    Args:
        act: returns what JSON can hold.

    Raises:
        AgreedError: in all processes, if `act` raised a ConfigError.
    """
    if is_single_process():
        return act()
    told: dict[str, Any] = {}
    if is_process_zero():
        try:
            told = {"result": act()}
        except ConfigError as error:
            told = {"refused": str(error)}
    told = _gather_json(told)[0]
    if "refused" in told:
        raise AgreedError(told["refused"])
    return told["result"]


def check_same(settings: Mapping[str, Any], policy: PyTree) -> None:
    """Checks that all processes are about to do the same.

    Args:
        settings: what this process was told to do: plain values by the name of the field.
        policy: the network that it starts from.

    Raises:
        AgreedError: in all processes, if one differs; it names the process and the field.
    """
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
    """Checks that a folder is one that all processes see.

    Args:
        path: of the folder; process 0 has made it.

    Raises:
        AgreedError: in all processes, if one does not see what process 0 writes there.
    """
    if is_single_process():
        return
    probe = path / ".seen_by_all"
    if is_process_zero():
        probe.write_text("")
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
    """A sum over all numbers of a tree; trees with one sum are bitwise the same."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)):
        raw = jax.random.key_data(leaf) if is_key(leaf) else leaf
        digest.update(np.asarray(raw).tobytes())
    return digest.hexdigest()


def _gather_json(mine: Any) -> list[Any]:
    """What each process handed in, by its number."""
    text = json.dumps(mine).encode()
    sizes = np.asarray(multihost_utils.process_allgather(np.array([len(text)], np.int32)))
    padded = np.zeros((int(sizes.max()),), np.uint8)
    padded[: len(text)] = np.frombuffer(text, np.uint8)
    texts = np.asarray(multihost_utils.process_allgather(padded))
    return [
        json.loads(bytes(row[: int(size)])) for row, size in zip(texts, sizes.ravel(), strict=True)
    ]
