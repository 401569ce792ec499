"""Writes checkpoints and policies."""

import errno
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
from etils import epath
from jaxtyping import PyTree

from hackmatrix_rl.agent import check_is_policy
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.runs.checkpoints._arrays import check_written
from hackmatrix_rl.runs.checkpoints._finder import checkpoints_in, mean_return, run_of
from hackmatrix_rl.runs.checkpoints._holds import deleting
from hackmatrix_rl.runs.checkpoints._manifest import NAME as MANIFEST
from hackmatrix_rl.runs.checkpoints._manifest import write_manifest
from hackmatrix_rl.runs.checkpoints._metadata import FORMAT, METADATA, identity_of
from hackmatrix_rl.runs.checkpoints._place import orbax_context, place
from hackmatrix_rl.runs.checkpoints._reader import POLICY
from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.system import describe_device, set_aside, write_json
from hackmatrix_rl.training import arrays_to_store, random_keys, write_tree

_UNFINISHED = ".orbax-checkpoint-tmp"
_TIMEOUT_SECONDS = 300  # for which processes wait for each other at the end of a save


@dataclass(frozen=True)
class SaveResult:
    """The result of one save."""

    update: int  #: The number of the update.
    seconds: float  #: Duration of the save, during which training continued.
    size: int  #: Bytes of the checkpoint; 0 if another process measured it.
    error: Exception | None  #: Why it failed, or `None`.


class CheckpointWriter:
    """Writes checkpoints into one folder, one at a time, and deletes the oldest.

    A save copies the state immediately and writes it in the background; `poll` returns the results.
    With several processes, each calls every method at the same update and writes its own
    arrays. Process 0 completes the checkpoint and deletes old ones.

    Args:
        folder: the folder, created if it is missing; it may be remote (`gs://...`).
        keep: the number of newest checkpoints to keep.
        keep_best: whether to keep the checkpoint with the highest mean return, too.
        keep_every: of every so many updates, the first checkpoint is kept, too; `None`: of none.
        config: stored with each checkpoint, to rebuild the modules.
        run: stored with each checkpoint: the run's id and aliases. The writer does not write
            into a folder with checkpoints of another run, and does not delete them.
    """

    def __init__(
        self,
        folder: epath.PathLike,
        *,
        keep: int,
        config: RunConfig,
        keep_best: bool = False,
        keep_every: int | None = None,
        run: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = place(folder)
        self._keep = keep
        self._keep_best = keep_best
        self._keep_every = keep_every
        self._config = config
        self._run = dict(run or {})
        self._game = identity_of(config.as_dict()).as_dict()
        self._id = self._run.get("wandb_id")
        self._context = orbax_context(self._folder)
        self._context.asynchronous.timeout_secs = _TIMEOUT_SECONDS
        # Read once: several processes could get different results later.
        self._there = {int(path.name) for path in self._whole()}
        self._writing: threading.Thread | None = None
        self._outcomes: list[SaveResult] = []

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def busy(self) -> bool:
        """Whether a save is still being written."""
        return self._writing is not None and self._writing.is_alive()

    def save(
        self,
        update: int,
        *,
        policy: ActorCritic,
        training: PyTree,
        counters: Mapping[str, int | float],
    ) -> None:
        """Starts to write one checkpoint, after the previous one is finished.

        A checkpoint of the same update that existed before this writer stays unchanged. The arrays
        of `policy`, which acts, and of `training`, for a resume, are stored. `counters` are further
        numbers for the metadata (environment steps ...); `keep_best` uses `mean_return`.
        """
        self._join()
        if update in self._there:
            self._outcomes.append(SaveResult(update, 0.0, 0, None))
            return
        began = time.monotonic()
        folder = self._folder / str(update)
        parts = {"policy": policy, "training": training}
        metadata: dict[str, Any] = {
            "format": FORMAT,
            "game": self._game,
            "update": update,
            "counters": dict(counters),
            "config": self._config.as_dict(),
            "run": self._run,
            "versions": {name: version(name) for name in ("hackmatrix-rl", "jax", "equinox")},
            "device": describe_device(),
            "random_keys": {name: random_keys(part) for name, part in parts.items()},
        }
        from orbax.checkpoint import v1 as ocp

        try:
            self._clear_the_way(folder)
            arrays = {name: arrays_to_store(part) for name, part in parts.items()}
            with self._context:
                response = ocp.save_checkpointables_async(folder, arrays)
            # Not the arrays themselves, whose memory is freed once Orbax has copied them.
            shapes = jax.tree.map(lambda each: jax.ShapeDtypeStruct(each.shape, each.dtype), arrays)
        except Exception as error:  # any error: `poll` reports it, and training continues
            self._outcomes.append(SaveResult(update, time.monotonic() - began, 0, error))
            return
        self._writing = threading.Thread(
            target=self._finish,
            args=(folder, update, metadata, shapes, began, response),
            name="checkpoint",
        )
        self._writing.start()

    def poll(self) -> list[SaveResult]:
        """The results of the saves since the last call, without waiting."""
        if not self.busy:
            self._join()
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def wait(self) -> list[SaveResult]:
        """Waits for the current save, and returns the results since the last call."""
        self._join()
        return self.poll()

    def close(self) -> None:
        """Finishes the current save. `poll` has its result."""
        self._join()

    def _finish(
        self,
        folder: epath.Path,
        update: int,
        metadata: Mapping[str, Any],
        shapes: Mapping[str, Mapping[str, jax.ShapeDtypeStruct]],
        began: float,
        response: Any,
    ) -> None:
        """Waits for the arrays, reads them back, and then completes the checkpoint."""
        size = 0
        error: Exception | None = None
        try:
            response.result()
            if jax.process_index() == 0:
                write_json(folder / METADATA, metadata, indent=1)
                check_written(folder, shapes)
                size = write_manifest(folder)
                self._forget_the_oldest()
        except Exception as failure:  # `poll` passes it to the training thread
            error = failure
        self._outcomes.append(SaveResult(update, time.monotonic() - began, size, error))

    def _join(self) -> None:
        if self._writing is not None:
            self._writing.join()
            self._writing = None

    def _clear_the_way(self, folder: epath.Path) -> None:
        """Removes the remains of an earlier failure from the path of a checkpoint."""
        if jax.process_index() != 0:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in checkpoints_in(self._folder):
            if (other := self._other_run(path)) is not None:
                raise FileExistsError(
                    errno.EEXIST, f"a checkpoint of another run ({other}) is there", str(path)
                )
        for path in self._folder.iterdir():
            if path == folder or _UNFINISHED in path.name:
                if path.is_dir() and not os.path.islink(path):
                    path.rmtree()
                else:
                    set_aside(path)

    def _whole(self) -> list[epath.Path]:
        """This run's complete checkpoints, oldest first; their sums are not checked.

        Links are skipped, because their targets must not be deleted.
        """
        return [
            path
            for path in checkpoints_in(self._folder)
            if not os.path.islink(path)
            and (path / MANIFEST).exists()
            and self._other_run(path) is None
        ]

    def _other_run(self, checkpoint: epath.Path) -> str | None:
        """The wandb id of a checkpoint's run, if it is another run."""
        found = run_of(checkpoint).get("wandb_id", self._id)
        return None if self._id is None or found == self._id else found

    def _forget_the_oldest(self) -> None:
        whole = self._whole()
        stay = set(whole[-self._keep :])
        scores = {path: mean_return(path) for path in whole} if self._keep_best else {}
        known = {path: score for path, score in scores.items() if score is not None}
        if known:
            stay.add(max(known, key=lambda path: known[path]))
        if (every := self._keep_every) is not None:
            stay.update({int(path.name) // every: path for path in reversed(whole)}.values())
        for path in whole:
            if path in stay:
                continue
            with deleting(path) as free:
                if not free:  # somebody reads it; a later save deletes it
                    continue
                # The manifest first: after a kill halfway, the rest counts as incomplete.
                (path / MANIFEST).unlink()
            path.rmtree()


def save(policy: ActorCritic, path: epath.PathLike) -> None:
    """Writes the arrays of a policy into one file, for `load(path, like=policy)`.

    The file does not hold the network: build a network of the same sizes before you load it. The
    checkpoints of a run also hold the settings, so `load` builds their network itself.

    Args:
        policy: the policy.
        path: path of the file. An existing file is replaced only after all is written.

    Raises:
        TypeError: `policy` is not an `ActorCritic`.
        OSError: the file cannot be written.
    """
    check_is_policy(policy)
    write_tree(path, POLICY, policy)
