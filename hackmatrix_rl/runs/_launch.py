"""Launches a run: from its settings to its result, identically in each of its processes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from hackmatrix_rl import system
from hackmatrix_rl.runs._compose import compose
from hackmatrix_rl.runs._fetched_run import PREFIX, fetch_run
from hackmatrix_rl.runs._folder import (
    RunFolder,
    check_names,
    check_run_folder,
    make_run_folder,
    reopen_run_folder,
    with_typed_paths,
)
from hackmatrix_rl.runs._lock import RunLock
from hackmatrix_rl.runs._plan import Plan, make_plan
from hackmatrix_rl.runs._preflight import checked_memory, preflight
from hackmatrix_rl.runs._resume import ResumableRun, find_resumable_run
from hackmatrix_rl.runs._run import RunResult, run
from hackmatrix_rl.runs._settings import before_devices, check_network, check_unchanged, use_devices
from hackmatrix_rl.runs.config import RunConfig, remember_code
from hackmatrix_rl.runs.sinks import Sink
from hackmatrix_rl.system.errors import AgreedError, ConfigError
from hackmatrix_rl.training import Hook, Trainer


@dataclass(frozen=True)
class Launch:
    """A run that is checked and ready to start.

    Call `plan`, or `open_folder` and then `run`, in every process of the run. `notes` are messages
    about the resumed run, and `needs` about memory, disk and services.
    """

    config: RunConfig
    notes: tuple[str, ...]
    needs: tuple[str, ...]
    _trainer: Trainer[Any]
    _resumed: ResumableRun | None
    _lock: RunLock
    _trust_code: bool

    def plan(self) -> Plan:
        """Compiles the run's program and returns its plan; leaves no files behind."""
        self._lock.withdraw()
        if self._resumed is None:
            system.on_process_zero(partial(check_run_folder, self.config))
        return make_plan(self.config, self._trainer)

    def open_folder(self) -> RunFolder:
        """Creates or reopens the run's folder, and locks it."""
        folder = RunFolder.seen_by(system.process_index(), system.on_process_zero(self._open))
        system.check_shared(folder.checkpoints)
        # The user has named the code of a new run; a resumed run may come from anybody.
        unknown = remember_code(self.config) if self._resumed is None else None
        return folder if unknown is None else replace(folder, notes=(*folder.notes, unknown))

    def _open(self) -> dict[str, Any]:
        resumed = self._resumed
        if resumed is None:
            return make_run_folder(self.config, lock=self._lock).as_dict()
        identity = resumed.metadata["run"]
        folder = reopen_run_folder(self.config, resumed.path, identity, lock=self._lock)
        resumed.set_damaged_aside()
        return folder.as_dict()

    def run(
        self, folder: RunFolder, displays: Sequence[Sink] = (), hooks: Sequence[Hook] = ()
    ) -> RunResult:
        """Trains, from the newest intact checkpoint if there is one; see `runs.run`."""
        resume = None if self._resumed is None else self._resumed.checkpoint
        return run(
            self.config,
            self._trainer,
            folder,
            resume=resume,
            displays=displays,
            hooks=hooks,
            trust_code=self._trust_code,
        )


@contextmanager
def launch(
    config: RunConfig | None = None,
    *,
    command: str = "train",
    resume_run: str | None = None,
    changes: Mapping[str, Any] = MappingProxyType({}),
    trust_code: bool = False,
    lock: RunLock | None = None,
) -> Iterator[Launch]:
    """Prepares a run: locks its folders, builds its trainer, and checks that it can run here.

    A new run has a `config`. A resumed run has its id in `resume_run`, the `command` that began it,
    and `changes` of its settings. With `trust_code`, code that the run names may be imported. Only
    process 0 reads folders and fetches runs from Weights & Biases (`wandb:ENTITY/PROJECT/RUN_ID`);
    it broadcasts the result. The folders stay locked until the context ends, or until the caller
    closes the given `lock`.
    """
    with RunLock() if lock is None else nullcontext(lock) as lock:
        resumed = None
        if changes.get("checkpoint_dir") is not None:
            there = system.typed_path(changes["checkpoint_dir"], lasting=True)
            changes = {**changes, "checkpoint_dir": there}
        if config is not None:
            config = with_typed_paths(config)
        if resume_run is not None:
            if changes.get("init") is not None:
                raise ConfigError(
                    f"--init {changes['init']}: a resumed run has its weights already. Leave it "
                    "out, or start a new run."
                )
            resumed = _find(resume_run, command, changes, trust_code, lock)
            config = resumed.config(changes)
            use_devices(config)
        assert config is not None, "a new run needs its settings"
        if resumed is None:
            check_names(config)
        system.enable_compilation_cache()
        checkpoint = None if resumed is None else resumed.checkpoint
        notes = [] if resumed is None else [*resumed.notes]
        trainer = compose(
            config, read_init=checkpoint is None, trust_code=trust_code, report=notes.append
        )
        if resumed is not None and checkpoint is not None:
            check_network(
                resumed.path,
                checkpoint,
                resumed.config({}),
                config,
                trainer.algorithm.initial_policy,
            )
        for later in config.stages[1:]:  # refuse a bad stage before the first one trains
            checked_memory(later, compose(later, trust_code=trust_code))
        system.check_same(config.as_dict(), trainer.policy)
        place = config.run_dir if resumed is None else str(resumed.path)
        needs = system.on_process_zero(
            partial(preflight, config, trainer, folder=config.checkpoint_dir or place)
        )
        yield Launch(config, tuple(notes), tuple(needs), trainer, resumed, lock, trust_code)


def _find(
    run_id: str, command: str, changes: Mapping[str, Any], trust_code: bool, lock: RunLock
) -> ResumableRun:
    """A stopped run that may be resumed, locked against other processes."""
    before_devices(changes)  # before processes communicate, which starts their devices

    def prepare(stored: Mapping[str, Any]) -> None:
        # Of several processes, all have started their devices, and only this one knows the run.
        if system.is_single_process():
            before_devices({**stored, **changes})

    def find() -> dict[str, Any]:
        notes: list[str] = []
        place = run_id
        if run_id.startswith(PREFIX):
            if changes.get("checkpoint_dir") is not None:
                raise ConfigError(
                    f"--checkpoint-dir {changes['checkpoint_dir']}: the checkpoints of "
                    f"--resume-run {run_id} come from there. Leave it out."
                )
            place = fetch_run(run_id, note=notes.append, lock=lock, prepare=prepare)
        checkpoints = changes.get("checkpoint_dir")
        found = find_resumable_run(place, checkpoints, lock=lock, prepare=prepare)
        found = replace(found, notes=(*notes, *found.notes))
        found.check_command(command)
        check_unchanged(found.path, found.config({}), changes)
        found.check_trusted(changes, trust_code=trust_code)
        return found.as_dict()

    resumed = ResumableRun.from_fields(system.on_process_zero(find))
    refused = None
    try:
        resumed.check_trusted(changes, trust_code=trust_code)
    except ConfigError as error:
        refused = str(error)
    # Each process decides for itself whether to trust the code; all end if one does not.
    if system.any_process(refused is not None):
        raise AgreedError(refused or "--trust-code is missing in another process of the run.")
    return resumed
