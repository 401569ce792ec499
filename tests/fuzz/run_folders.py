"""Damaged run folders, and odd names: resume and eval use a checkpoint, or refuse in one line."""

import os
import shutil
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
from etils import epath
from hypothesis import strategies as st

from fuzz.commands import LONG_WORK, accept, assert_answered, room, run_here
from fuzz.stored import PARTS, Damage, arrays, assert_same, damaged_copy, damages, read, run
from fuzz.worker import Fuzzer
from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs.checkpoints import CheckpointWriter
from hackmatrix_rl.system import ExitCode
from hackmatrix_rl.training import Trainer, leaves_by_path


def go_on(settings: Any, trainer: Any, folder: Any, *, resume: epath.Path, **_: Any) -> Any:
    """In place of a resumed training: looks at what it would go on from."""
    for part in PARTS:
        assert_same(read(resume, part), arrays(int(resume.name), part))
    return SimpleNamespace(exit_code=ExitCode.DONE, config=settings, member=None)


def look(player: PolicyAgent, *_: Any, **__: Any) -> None:
    """In place of playing: looks at the policy that was loaded."""
    found = {name: np.asarray(leaf) for name, leaf in leaves_by_path(player.policy).items()}
    # The run's checkpoints hold the same policy.
    assert_same(found, arrays(2, "policy"))
    accept()


def save(settings: Any, trainer: Any, folder: Any, **given: Any) -> Any:
    """The same, and then a save under this name, which must be read again."""
    tree = {"a": jnp.arange(3.0)}
    with CheckpointWriter(folder.checkpoints, keep=9, config=settings, run=folder.identity) as new:
        new.save(9, policy=tree, training=tree, counters={})
        assert [each.error for each in new.wait()] == [None]
    for part in PARTS:
        assert_same(read(folder.checkpoints / "9", part), {"['a']": np.arange(3, dtype="f4")})
    return go_on(settings, trainer, folder, **given)


@cache
def composed(settings: PPOConfig) -> Trainer:
    return compose(settings)


REPLACED = {
    **dict.fromkeys(LONG_WORK, accept),
    "runs._launch.run": go_on,
    "runs._launch.compose": lambda settings, **_: composed(settings),
    "evaluation.evaluate": look,
}
SAVES = {"runs._launch.run": save}


NAMED = ("--resume-run", "line break", "cannot keep checkpoints")


def check_name(name: str) -> None:
    """Under a name, a run plays, and goes on and saves; or the name is refused."""
    top = Path(room()).with_name("named")
    place = top / name
    shutil.copytree(run(), place)
    try:
        for arguments in (["eval", str(place)], ["train", "--resume-run", str(place)]):
            assert_answered(arguments, run_here(arguments, REPLACED | SAVES), *NAMED)
    except AssertionError as error:
        raise AssertionError(f"{name!r}: {error}") from error
    finally:
        shutil.rmtree(top)


def check(each: str | tuple[list[Damage], bool]) -> None:
    if isinstance(each, str):
        check_name(each)
        return
    damages, in_checkpoints = each
    place = Path(room()).with_name("damaged_run")
    damaged_copy(place, damages, within="**/*" if in_checkpoints else "*")
    for arguments in (["eval", str(place)], ["train", "--resume-run", str(place)]):
        try:
            status, out, err = run_here(arguments, REPLACED)
            lines = err.splitlines(keepends=True)
            error = "".join(lines[-1:]) if status else ""
            # Before it stands which files were skipped.
            told = lines[:-1] if status else lines
            assert all(str(place) in line for line in told), err
            assert_answered(arguments, (status, out, error), str(place), "--resume-run")
        except AssertionError as error:
            raise AssertionError(f"{each}: {error}") from error


SIGNS = st.sampled_from("[]*?$\\\n\u202e~-!^{}#%:;&|<>'\" .aé🙂")
NAMES = st.one_of(
    st.text(SIGNS, min_size=1, max_size=12),
    st.builds(lambda sign, size: sign * size, SIGNS, st.integers(50, 250)),
).filter(lambda name: name.strip(".") and len(os.fsencode(name)) <= 255)
DAMAGES = st.tuples(st.lists(damages, min_size=1, max_size=3), st.booleans())

FUZZER = Fuzzer(
    st.one_of(DAMAGES, DAMAGES, NAMES, st.builds("{}/run".format, NAMES)),
    check,
    examples=10,
    shrinks=False,
    found=("seed[1]", "proj[old]/run", "a*b?", "back\\slash"),
)
