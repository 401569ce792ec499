"""A run on disk, with two checkpoints, and ways to damage files."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from hackmatrix_rl.runs import compose, make_run_folder, training_keys
from hackmatrix_rl.runs.checkpoints import CheckpointWriter, read_arrays
from hackmatrix_rl.runs.config import make_config

PARTS = ("policy", "training")
UPDATES = (2, 4)


@cache
def run() -> Path:
    """The folder of a run that was stopped after its first moment; made once."""
    path = Path(os.environ["FUZZ_ROOM"]) / "stored" / "run"
    if path.exists():
        return path
    config = make_config("debug", {"run_dir": str(path), "width": 4, "eval_episodes": 0})
    trainer = compose(config)
    trainer.start(training_keys(config))
    folder = make_run_folder(config)
    with CheckpointWriter(folder.checkpoints, keep=3, config=config, run=folder.identity) as writer:
        for update in UPDATES:
            state = trainer.state
            writer.save(
                update,
                policy=state.learner.policy,
                training=state,
                counters={"mean_return": float(update)},
            )
            for outcome in writer.wait():
                assert outcome.error is None, outcome.error
    for name, text in (("metrics.jsonl", '{"updates": 2}\n'), ("log.txt", "Training\n")):
        (path / name).write_text(text)
    return path


@cache
def arrays(update: int, part: str) -> dict[str, np.ndarray]:
    """What a checkpoint of the run holds."""
    return read(run() / "checkpoints" / str(update), part)


def read(checkpoint: os.PathLike[str], part: str) -> dict[str, np.ndarray]:
    found = read_arrays(checkpoint, part).arrays
    return {name: np.asarray(array) for name, array in found.items()}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@dataclass(frozen=True)
class Damage:
    """One thing done (a name in `WAYS`, and a seed) to one of the files that may be damaged."""

    which: int
    how: str
    seed: int


def _flipped(path: Path, rng: np.random.Generator) -> None:
    content = bytearray(path.read_bytes() or b"\0")
    content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    path.write_bytes(content)


def _truncated(path: Path, rng: np.random.Generator) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.integers(len(content) + 1)])


def _overwritten(path: Path, rng: np.random.Generator) -> None:
    content = bytearray(path.read_bytes())
    at = rng.integers(len(content) + 1)
    content[at : at + 64] = rng.bytes(64)
    path.write_bytes(content)


def _remade(path: Path, rng: np.random.Generator) -> None:
    texts = (
        *("", "{}", "[]", "null", "3", '"x"', '{"a": 1', "{\n" * 9, "[" * 20_000, "\0" * 64, "NaN"),
    )
    path.write_text(texts[rng.integers(len(texts))])


def _replaced_by_a_folder(path: Path, rng: np.random.Generator) -> None:
    path.unlink()
    path.mkdir()


def _replaced_by_a_link(path: Path, rng: np.random.Generator) -> None:
    path.unlink()
    path.symlink_to(("nowhere", path.name, "/dev/null")[rng.integers(3)])


def _renamed(path: Path, rng: np.random.Generator) -> None:
    path.rename(path.with_name(("x", "²", "7", ".part")[rng.integers(4)]))


WAYS: dict[str, Callable[[Path, np.random.Generator], None]] = {
    "flipped": _flipped,
    "truncated": _truncated,
    "overwritten": _overwritten,
    "remade": _remade,
    "removed": lambda path, _: path.unlink(),
    "renamed": _renamed,
    "replaced by a folder": _replaced_by_a_folder,
    "replaced by a link": _replaced_by_a_link,
    "doubled": lambda path, _: path.write_bytes(path.read_bytes() * 2),
}

damages = st.builds(
    Damage, st.integers(0, 10_000), st.sampled_from(sorted(WAYS)), st.integers(0, 10_000)
)


def damaged_copy(place: Path, damages: list[Damage], *, within: str) -> Path:
    """A copy of the run's folder, damaged in the files of a pattern; what was there is removed."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run(), place)
    for each in damages:
        files = [path for path in sorted(place.glob(within)) if path.is_file()]
        if files:
            WAYS[each.how](files[each.which % len(files)], np.random.default_rng(each.seed))
    return place
