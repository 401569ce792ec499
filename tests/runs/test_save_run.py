"""`hm.SaveRun`: a notebook's training that is kept in a folder, and continued from it."""

import errno
from contextlib import nullcontext

import jax
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.runs import report_of
from hackmatrix_rl.runs.sinks import read_json_lines

ENV = hm.CartPole()
UPDATE = 4 * 8
GOAL = 8 * UPDATE


@pytest.fixture(scope="module")
def trainer():
    """One trainer for all tests, compiled once; each training starts it anew."""
    policy = hm.MLPActorCritic(ENV.spec, width=8, depth=1, key=jax.random.key(0))
    return hm.Trainer(hm.PPO(ENV, policy, num_envs=4, num_steps=8, num_minibatches=1))


def cell(trainer, folder, *hooks, **settings):
    """What stands in the notebook's cell."""
    save = hm.SaveRun(folder, **{"note": lambda message: None, **settings})
    return trainer.fit(GOAL, key=jax.random.key(1), hooks=[save, *hooks])


@pytest.fixture(scope="module")
def straight(trainer, tmp_path_factory):
    """The folder of a training that was never stopped."""
    folder = tmp_path_factory.mktemp("save_run") / "straight"
    cell(trainer, folder)
    return folder


def stop(metrics):
    raise hm.StopTraining


def crash(metrics):
    raise OSError("out of luck")


@pytest.mark.parametrize("what", [stop, crash], ids=["stopped", "crashed"])
def test_the_cell_run_again_ends_in_the_same_bits(trainer, straight, tmp_path, what):
    def at_the_fifth(trainer, metrics):
        if metrics.updates == 5:
            what(metrics)

    folder, notes = tmp_path / "run", []
    with pytest.raises(OSError, match="luck") if what is crash else nullcontext():
        cell(trainer, folder, at_the_fifth, updates=2)
    cell(trainer, folder, note=notes.append)
    assert notes[0] == f"resumed at update 5, from {folder / 'training.hmrl'}"
    states = [(each / "training.hmrl").read_bytes() for each in (straight, folder)]
    assert states[0] == states[1]
    rows = read_json_lines(folder / "metrics.jsonl")
    assert [row["updates"] for row in rows] == list(range(1, 9))
    assert (folder / "learning_curve.png").exists()
    assert "It trained to the end at update 8" in report_of(str(folder))[0]


def test_a_training_that_has_ended_does_nothing_more(trainer, straight):
    assert cell(trainer, straight) is None


def test_the_folder_is_locked_while_the_training_runs_and_free_after_it(trainer, tmp_path):
    def again(trainer, metrics):
        with pytest.raises(hm.ConfigError, match="is still being written by process"):
            hm.SaveRun(tmp_path).on_start(trainer)
        raise hm.StopTraining

    cell(trainer, tmp_path, again)
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize("name", ["log.txt", "metrics.jsonl", "lock", "deep/link"])
def test_a_link_out_of_the_folder_is_not_followed(trainer, tmp_path, name):
    mine, run = tmp_path / "mine", tmp_path / "run"
    mine.write_text("precious")
    (run / name).parent.mkdir(parents=True)
    (run / name).symlink_to(mine)
    with pytest.raises(hm.ConfigError, match=f"{name}.* is a link"):
        cell(trainer, run)
    assert mine.read_text() == "precious"
    assert [each.name for each in run.rglob("*") if each.is_file()] == [name.rpartition("/")[2]]


def test_other_modules_are_refused_and_nothing_is_overwritten(straight):
    policy = hm.MLPActorCritic(ENV.spec, width=4, depth=1, key=jax.random.key(0))
    other = hm.Trainer(hm.PPO(ENV, policy, num_envs=4, num_steps=8, num_minibatches=1))
    before = (straight / "training.hmrl").read_bytes()
    with pytest.raises(hm.ConfigError, match=r"does not fit this trainer: .*weight"):
        cell(other, straight)
    assert (straight / "training.hmrl").read_bytes() == before


def test_a_state_that_is_not_finite_is_not_saved_and_stops_the_training(trainer, tmp_path):
    def spoil(trainer, metrics):
        if metrics.updates != 3:
            return
        trainer.state = jax.tree.map(
            lambda leaf: leaf * float("nan") if leaf.dtype == "float32" else leaf, trainer.state
        )

    notes = []
    health = hm.runs.Health(stop_after_nonfinite=2)
    last = cell(trainer, tmp_path, spoil, health=health, updates=2, note=notes.append)
    assert "Stopping" in notes[-2]
    assert notes[-1] == "stopped at update 5; saved: update 2"
    assert last.updates == 5
    again = []
    cell(trainer, tmp_path, lambda trainer, metrics: stop(metrics), note=again.append)
    assert "resumed at update 2," in again[0]


def test_a_relative_folder_stays_where_it_was_when_a_hook_changes_the_directory(
    trainer, tmp_path, monkeypatch
):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    cell(trainer, "run", lambda trainer, metrics: monkeypatch.chdir(tmp_path / "other"), updates=2)
    assert len(read_json_lines(tmp_path / "run" / "metrics.jsonl")) == 8
    assert (tmp_path / "run" / "learning_curve.png").exists()
    assert not list((tmp_path / "other").iterdir())


def test_an_end_that_a_full_disk_does_not_take_is_told_and_raised(trainer, tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    def fill(trainer, metrics):
        if metrics.updates == 5:
            monkeypatch.setattr("hackmatrix_rl.training._tree_file.write_whole", full)

    notes = []
    with pytest.raises(OSError, match="No space left"):
        cell(trainer, tmp_path, fill, note=notes.append)
    assert notes[-1].startswith("COULD NOT SAVE update 8: [Errno 28]")
    assert len(read_json_lines(tmp_path / "metrics.jsonl")) == 8


@pytest.mark.parametrize(
    ("settings", "said"), [({"minutes": 0}, "minutes"), ({"updates": 0}, "updates")]
)
def test_intervals_are_checked_at_once(settings, said):
    with pytest.raises(ValueError, match=said):
        hm.SaveRun("x", **settings)
