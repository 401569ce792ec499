"""`hm.SaveRun`: a notebook's training that is kept in a folder, and continued from it."""

import errno
import importlib
import re
from contextlib import nullcontext
from pathlib import Path

import equinox as eqx
import jax
import pytest
from cli.commands import assert_refused, done, invoke

import hackmatrix_rl as hm
from hackmatrix_rl.runs import find_player, report_of, report_of_seeds
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


def test_the_summary_is_of_the_last_tenth_and_says_so(straight):
    last = read_json_lines(straight / "metrics.jsonl")[-1]  # a tenth of 8 updates is the last one
    trained = read_json(straight / "summary.json")["trained"]
    assert trained["return"] == {"mean": pytest.approx(last["return"]), "ci95": [None, None]}
    assert (trained["source"], trained["env_steps"]) == ("last tenth", GOAL)
    assert trained["mfu"] > 0
    assert last["mfu"] > 0
    assert f"; MFU {trained['mfu']:.1%}" in (straight / "log.txt").read_text()
    page = report_of(str(straight))[0]
    assert "Means over the last tenth of the training, from its own games" in page
    assert f"The trained player is from step {GOAL}." in page


def test_the_summary_is_the_last_evaluation_where_a_hook_evaluates(trainer, tmp_path, straight):
    def judge(trainer, metrics):
        if metrics.updates % 3 == 0:
            low, high = metrics.updates - 1.0, metrics.updates + 1.0
            ends = {"eval/return_low": low, "eval/return_high": high, "eval/episodes": 20}
            return {"eval/return": float(metrics.updates), "eval/solved": 0.5, **ends}

    run = tmp_path / "judged"
    cell(trainer, run, judge)
    trained = read_json(run / "summary.json")["trained"]
    assert trained["return"] == {"mean": 6.0, "ci95": [5.0, 7.0]}
    assert (trained["source"], trained["env_steps"]) == ("last evaluation", 6 * UPDATE)
    assert type(trained["episodes"]) is int
    page = report_of(str(run))[0]
    assert "The last evaluation of 20 games during the training; means with 95% intervals" in page
    assert re.search(r"solved</td><td[^>]*>0\.50", page)
    page, returns = report_of_seeds([str(straight), str(run)])
    assert sorted(len(each) for each in returns.values()) in ([2], [1, 1])
    assert "Of runs of hm.SaveRun: the last evaluation of 20 games" in page


def test_of_several_trainings_the_best_healthy_one_plays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    several = [
        hm.PPO(
            ENV,
            hm.MLPActorCritic(ENV.spec, width=8, depth=1, key=jax.random.key(k)),
            **{"num_envs": 4, "num_steps": 8, "num_minibatches": 1, "learning_rate": rate},
        )
        for k, rate in enumerate((1e-3, 3e-3, 2e-3))
    ]
    trainer = hm.Trainer(hm.Population(several))

    def rank(trainer, metrics):
        for k, value in enumerate((5.0, 9.0, 99.0)):
            metrics.extra[f"member/{k}/return"] = value

    def spoil(trainer, metrics):  # the last state, of which the health saw nothing
        if metrics.updates == 8:
            trainer.state = jax.tree.map(
                lambda leaf: leaf.at[2].set(float("nan")) if leaf.dtype == "float32" else leaf,
                trainer.state,
            )

    save = hm.SaveRun("several", note=lambda message: None)
    trainer.fit(GOAL, key=jax.random.key(1), hooks=[rank, save, spoil])
    notes = []
    loaded = hm.load("several", report=notes.append)
    assert notes == ["several: training 1 plays: training 2 went wrong before"]
    assert loaded.member == 1
    assert hm.load("several", member="-return").member == 0
    assert eqx.tree_equal(loaded.policy, trainer.algorithm.policy(trainer.state, 1))
    scale = trainer.algorithm.value_scale_of(trainer.state, 1)
    assert eqx.tree_equal(loaded.value_scale(), scale)
    find_player("several", report=notes.append)
    assert notes[-1].startswith(
        "several#1 plays: training 1 (learning_rate=0.003), because it has the highest return over "
        "the last tenth of 3 trainings."
    )
    summary = read_json(Path("several/summary.json"))["trained"]
    assert (summary["member"], summary["return"]["mean"]) == (1, 9.0)
    page = report_of("several")[0]
    assert "of training 1 (learning_rate=0.003), which had the highest return" in page
    assert "Missing" not in page


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
    algorithm = hm.PPO(environment, policy, num_envs=4, num_steps=8, num_minibatches=1)
    return hm.Trainer(algorithm, hooks=[lambda trainer, metrics: {"its": metrics.updates}])

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
    said = done(*resume).stdout
    assert "trained to the end at update 9" in said
    assert f"100%  {GOAL + UPDATE} steps" in said
    assert read_json_lines(Path("mine/metrics.jsonl"))[-1]["its"] == 9
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
    assert "Stopping" in notes[-3]
    assert notes[-2].startswith("time 0:0")
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
