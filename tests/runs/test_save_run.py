"""`hm.SaveRun`: a notebook's training that is kept in a folder, and continued from it."""

import errno
import importlib
from contextlib import nullcontext
from pathlib import Path

import equinox as eqx
import jax
import pytest
from cli.commands import assert_refused, done, invoke

import hackmatrix_rl as hm
from hackmatrix_rl.runs import report_of
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system import read_json

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


def test_built_in_modules_need_no_name_to_play_again(trainer, straight):
    loaded = hm.load(straight)
    assert loaded.environment == ENV
    trained = trainer_of(straight, trainer).policy
    assert eqx.tree_equal(loaded.policy, trained)
    assert eqx.tree_equal(hm.load(straight, like=trainer.policy), trained)
    stored = read_json(straight / "config.json")
    named = ("algorithm", "env", "network", "width", "depth", "num_envs")
    assert [stored[name] for name in named] == ["ppo", "cartpole", "mlp", 8, 1, 4]
    assert done("eval", straight, "--episodes", 2).exit_code == 0
    page = report_of(str(straight))[0]
    assert "Missing" not in page
    assert "cartpole" in page


def trainer_of(folder, trainer):
    trainer.load(folder / "training.hmrl")
    return trainer


OWN = """
import equinox as eqx
import jax
import hackmatrix_rl as hm

class Own(hm.ActorCritic):
    layer: eqx.nn.Linear

    def __call__(self, observation, carry):
        *logits, value = self.layer(observation)
        return jax.numpy.stack(logits), value, carry

def make():
    environment = hm.CartPole(max_steps=20)
    policy = Own(eqx.nn.Linear(4, 3, key=jax.random.key(0)))
    return hm.Trainer(hm.PPO(environment, policy, num_envs=4, num_steps=8, num_minibatches=1))

def pair():
    algorithm = make().algorithm
    return algorithm.environment, algorithm.initial_policy
"""


def test_modules_of_ones_own_play_by_the_function_that_makes_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_agent.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("my_agent").make()

    def count(trainer, metrics):
        return {"counted": metrics.updates, "eval/return": 1.0}

    cell(made, "mine", count)
    assert read_json_lines(Path("mine/metrics.jsonl"))[-1]["counted"] == 8
    refused = invoke("eval", "mine")
    assert_refused(refused, "no setting names the policy Own", "eval mine --agent my_module:make")
    for name in ("my_agent:make", "my_agent:pair"):
        done("eval", "mine", "--agent", name, "--episodes", 2)
    assert "terminated after" in done("watch", "mine", "--agent", "my_agent:make").stdout
    loaded = hm.load("mine", agent=made)
    assert eqx.tree_equal(loaded.policy, made.policy)
    assert loaded.value_scale() is not None
    page = report_of("mine")[0]
    assert "counted" in page
    assert "Missing" not in page
    resume = ("train", "--resume-run", "mine")
    assert_refused(invoke(*resume), "train --resume-run mine --agent my_module:make --total-times")
    assert_refused(invoke(*resume, "--num-envs", 8), "settings are in the function")
    resume += ("--agent", "my_agent:make", "--total-timesteps", GOAL + UPDATE)
    assert "trained to the end at update 9" in done(*resume).stdout
    # A run that names its modules needs no flag, for whoever has trained it or trusts it.
    cell(made, "named", agent="my_agent:make")
    done("eval", "named", "--episodes", 2)
    monkeypatch.setenv("HACKMATRIX_RL_STATE_DIR", str(tmp_path / "of somebody else"))
    assert_refused(invoke("eval", "named"), "its agent my_agent:make is code", "--trust-code")
    done("eval", "named", "--episodes", 2, "--trust-code")


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
