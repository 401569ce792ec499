"""Trainings in other environments than HackMatrix, with all that a run has."""

import json
import shlex
import shutil
import sys
from pathlib import Path

import jax
import pytest
from cli.commands import assert_refused, done, invoke
from jax.experimental.compilation_cache import compilation_cache
from PIL import Image
from processes import assert_same_end, finish, start

import hackmatrix_rl as hm
from hackmatrix_rl.agent.networks import _layers
from hackmatrix_rl.env import picture_of
from hackmatrix_rl.evaluation import play_steps
from hackmatrix_rl.runs import contender
from hackmatrix_rl.runs._record import read_run
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_metadata
from hackmatrix_rl.runs.config import config_from_dict, make_config
from hackmatrix_rl.runs.config._environments import make_environment
from hackmatrix_rl.system.errors import ConfigError, in_shell
from hackmatrix_rl.view.replays import load_game

TINY = ("--num-envs", 8, "--num-steps", 4, "--num-minibatches", 2, "--width", 8)
SHORT = ("--total-timesteps", 64, "--eval-episodes", 4, "--updates-per-dispatch", 1)
CARTPOLE = ("train", "--env", "cartpole", "--mesh", "data=1", *TINY, *SHORT)
OWN = """
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.evaluation import RandomAgent


START = jnp.int32(0)  # an import inside of a trace would make it a tracer


class Gridworld(hm.SingleGame):
    size: int

    @property
    def num_actions(self):
        return 2

    def start(self, *, key):
        return START

    def observe(self, state):
        return state[None].astype(jnp.float32)

    def play(self, state, action, *, key):
        after = jnp.where(action == 1, state + 1, state)
        return hm.Played(after, jnp.float32(-1), after >= self.size)

    def render(self, state):
        return "." * int(state) + "@"


def make(size: int = 3, steps: int | None = 9):
    return hm.Batched(Gridworld(size), max_steps=steps)


def elsewhere():
    return hm.StartStates(make(), hm.GivenStates(jnp.arange(3)), share=0.5)


def teach(environment):
    return RandomAgent()
"""


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    """A run on CartPole that has ended."""
    folder = tmp_path_factory.mktemp("runs") / "cartpole"
    trained = done(*CARTPOLE, "--eval-interval", 1, "--run-dir", folder)
    assert "Algorithm: ppo, the choice of --env cartpole" in trained.output
    return folder


@pytest.fixture
def compiled_into(tmp_path, monkeypatch):
    """An empty folder that takes each program that is compiled."""
    names = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = {name: getattr(jax.config, name) for name in names}
    folder = tmp_path / "compiled"
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(folder))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    for name, value in zip(names, (str(folder), 0.0), strict=True):
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield folder
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture
def gridworld(tmp_path, monkeypatch):
    """The module of somebody's own environment, in the working directory."""
    (tmp_path / "my_gridworld.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    # That of another test is another file.
    sys.modules.pop("my_gridworld", None)
    make_environment.cache_clear()
    return "my_gridworld:make"


def test_a_run_has_curves_evaluations_and_a_report(cartpole):
    assert {"summary.json", "learning_curve.png", "metrics.jsonl"} <= {
        each.name for each in cartpole.iterdir()
    }
    summary = json.loads((cartpole / "summary.json").read_text())
    assert summary.keys() == {"trained", "random"}
    assert read_run(str(cartpole)).config["env"] == "cartpole"
    assert "league" not in read_run(str(cartpole)).config
    done("report", cartpole)
    page = (cartpole / "report.html").read_text()
    assert "mean length of a game" in page
    file = max((cartpole / "replays").iterdir())
    assert file.name in page
    assert "the newest replay" in page
    found = load_game(file)
    assert f"{found.total_reward:.2f}" in file.name
    assert "|" in found.scenes[-1].picture
    assert "As it was seen" in done("replay", file, "--move", 1).stdout


def test_a_resume_with_another_goal_compiles_nothing_again(cartpole, tmp_path, compiled_into):
    def goes_on(name, goal):
        shutil.copytree(cartpole, tmp_path / name)
        told = done("train", "--resume-run", tmp_path / name, "--total-timesteps", goal).output
        return told, {each.name for each in compiled_into.iterdir() if "-atime" not in each.name}

    told, programs = goes_on("first", 96)
    assert programs
    assert "nothing is left" not in told
    _, again = goes_on("second", 128)
    assert again == programs
    told, _ = goes_on("third", 32)
    assert "--total-timesteps 32 is reached: nothing is left to train" in told


def test_a_run_is_resumed_where_it_ended(cartpole):
    resumed = done("train", "--resume-run", cartpole, "--total-timesteps", 96)
    assert "resumed at update 2" in resumed.output
    assert read_metadata(find_checkpoint(cartpole))["update"] == 3
    for change in (("--env", "t_maze"), ("--env", "hackmatrix"), ("--env-args", "max_steps=9")):
        refused = invoke("train", "--resume-run", cartpole, *change)
        assert_refused(refused, " ".join(change), "it learns in that environment")
    refused = invoke("train", "--resume-run", cartpole, "--league", "no-rewind")
    assert_refused(refused, "--league no-rewind: a setting of --env hackmatrix")


def test_a_run_is_loaded_evaluated_and_watched(cartpole, tmp_path):
    loaded = hm.load(cartpole)
    assert isinstance(loaded.environment, hm.CartPole)
    found = json.loads(invoke("eval", cartpole, "--episodes", 4, "--json").stdout)
    assert found.keys() == {"episodes", "return", "length"}
    watched = done("watch", cartpole)
    assert "[o]" in watched.stdout
    assert "terminated after" in watched.stdout
    done("watch", cartpole, "--gif", tmp_path / "game.gif")
    with Image.open(tmp_path / "game.gif") as film:
        assert film.n_frames > 1


def test_the_page_in_the_browser_shows_its_games(cartpole, monkeypatch):
    made = []

    def serve(make, **how):
        made.append(make(say=lambda words: None))
        return True

    monkeypatch.setattr("hackmatrix_rl.view.ui.serve", serve)
    done("ui", cartpole, "--seed", 3)
    (games,) = made
    watched = done("watch", cartpole, "--seed", 3, "--game", 1)
    assert games.state()["which"] == "seed 3, game 0"
    assert games.next_game()["which"] == "seed 3, game 1"
    assert f"after {games.moves} steps" in watched.stdout


def test_what_is_hackmatrix_alone_says_so(cartpole):
    assert_refused(invoke("analyze", cartpole), "was trained in another environment")
    assert_refused(invoke("eval", cartpole, "--search", 4), "no search")
    assert_refused(invoke("eval", cartpole, "--without-undo"), "--without-undo")


def test_other_weights_are_of_another_environment(cartpole, tmp_path):
    begin = ("train", "--algorithm", "ppo", *TINY, *SHORT, "--init", cartpole, "--dry-run")
    done(*begin)  # the environment comes with the weights
    assert_refused(invoke(*begin, "--env", "t_maze"), "trained with --env cartpole")


def test_a_run_is_loaded_without_drawing_weights(cartpole, monkeypatch):
    draw = _layers._orthogonal

    def traced(key, *size):
        assert isinstance(key, jax.core.Tracer)
        return draw(key, *size)

    monkeypatch.setattr(_layers, "_orthogonal", traced)
    policy = hm.load(cartpole).policy
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(policy))


def test_a_watched_game_is_that_of_the_evaluation(cartpole):
    loaded = hm.load(cartpole)
    key = jax.random.key(3)
    found = hm.evaluate(loaded.agent(), loaded.environment, episodes=2, key=key)
    for game in range(2):
        steps = list(play_steps(loaded.agent(), loaded.environment, key, game=game))
        assert len(steps) == found.values["length"][game]
        assert steps[-1].end == "terminated"


@pytest.mark.parametrize(
    ("env", "algorithm"), [("t_maze", "r2d2"), ("n_back", "pqn"), ("delayed_match", "ppo")]
)
def test_a_memory_task_is_learned_by_a_network_with_memory(env, algorithm, tmp_path):
    sizes = () if algorithm == "r2d2" else TINY[2:6]
    replay = ("--buffer-size", 512, "--sequence-batch-size", 8, "--learning-starts", 0)
    given = ("--env", env, "--algorithm", algorithm, "--network", "gru", "--width", 8)
    more = ("--num-envs", 8, *(replay if algorithm == "r2d2" else sizes), "--mesh", "data=1")
    folder = tmp_path / "run"
    done("train", *given, *more, *SHORT, "--eval-episodes", 0, "--run-dir", folder)
    assert hm.load(folder).config.env == env


@pytest.mark.parametrize(
    ("env", "task"),
    [
        ("multi_sensory", hm.MultiSensoryIntegration()),
        ("go_no_go", hm.GoNoGo()),
        ("delayed_comparison", hm.DelayedComparison()),
        ("probabilistic_reasoning", hm.ProbabilisticReasoning()),
        ("interval_discrimination", hm.IntervalDiscrimination()),
        ("interval_timing", hm.IntervalTiming()),
        ("ready_set_go", hm.ReadySetGo()),
    ],
)
def test_a_memory_task_has_a_name_and_arguments(env, task):
    assert make_environment(env, None).game == task
    changed = make_environment(env, "fixation=4,max_steps=9")
    assert (changed.game.config.fixation, changed.max_steps) == (4, 9)


@pytest.mark.nightly
def test_a_task_of_time_is_trained_in_a_process(tmp_path, cache):
    folder, sizes = tmp_path / "run", "short=2,long=3,shortest_cue=1,longest_cue=2"
    given = ("--env", "interval_timing", "--env-args", sizes, "--algorithm", "pqn")
    more = ("--network", "gru", *TINY, *SHORT, "--eval-episodes", 0, "--mesh", "data=1")
    command = (sys.executable, "-m", "hackmatrix_rl", "train", *given, *more, "--run-dir", folder)
    status, told = finish(start(*command, JAX_COMPILATION_CACHE_DIR=cache))
    assert status == 0, told
    assert hm.load(folder).environment.game.intervals == (2, 3)


DRAWN = [hm.TMaze(), hm.NBack(), hm.DelayedMatch(), hm.ContextDecision(), hm.ReadySetGo()]


@pytest.mark.parametrize("task", DRAWN)
def test_a_memory_task_draws_itself(task):
    environment = hm.Batched(task)
    state, _ = environment.reset(jax.random.split(jax.random.key(0), 1))
    assert environment.render(state) == picture_of(environment, state)


def test_start_states_of_an_own_environment_are_resumed_bit_by_bit(gridworld, tmp_path):
    starts = ("train", "--env", "my_gridworld:elsewhere", *CARTPOLE[3:], "--eval-episodes", 0)
    few = ("--num-envs", 12, "--num-minibatches", 1, "--run-dir", "few")
    assert_refused(invoke(*starts, *few), "--num-envs 12 does not divide into blocks of 8")
    steady, longer = ("--learning-rate", "constant:0.001"), ("--total-timesteps", 128)
    done(*starts, *steady, *longer, "--run-dir", "straight")
    done(*starts, *steady, "--run-dir", "stopped")
    done("train", "--resume-run", "stopped", *longer)
    assert_same_end(tmp_path / "straight", tmp_path / "stopped")
    assert isinstance(hm.load("stopped").environment, hm.Batched)


def test_an_own_environment_is_trained_and_loaded(gridworld, tmp_path):
    folder = tmp_path / "run"
    given = ("--env", gridworld, "--env-args", "size=2,steps=5", "--mesh", "data=1")
    trained = done("train", *given, *TINY, *SHORT, "--run-dir", folder)
    assert trained.output.splitlines()[-1].endswith(f"hackmatrix-rl watch {folder}")
    sys.modules.pop("my_gridworld")
    make_environment.cache_clear()
    loaded = hm.load(folder)
    assert (loaded.environment.game.size, loaded.environment.max_steps) == (2, 5)
    with pytest.raises(ConfigError, match="missing a required argument: 'size'"):
        make_environment("my_gridworld:Gridworld", None)
    game = make_environment("my_gridworld:Gridworld", "size=4")
    assert (game.game.size, game.max_steps) == (4, 1000)
    outputs = [f"game.{kind}" for kind in ("html", "gif", "json")]
    flags = ("--html", outputs[0], "--gif", outputs[1], "--save", outputs[2], "--terminal")
    watched = invoke("watch", folder, *flags)
    assert "@" in watched.stdout, watched.output
    assert all((tmp_path / output).stat().st_size for output in outputs)
    sys.modules.pop("my_gridworld")
    again = invoke("replay", outputs[2])
    assert "my_gridworld" not in sys.modules
    assert again.stdout.splitlines()[0] == watched.stdout.splitlines()[0]
    assert_refused(invoke("watch", folder, "--from", outputs[2]), "--from")
    assert_refused(invoke("replay", outputs[2], "--agent", folder), f"--agent {folder}")
    Path("my_gridworld.py").write_text(f"{OWN}# changed")
    with pytest.raises(ConfigError, match="its environment my_gridworld:make is code"):
        hm.load(folder, policy=loaded.policy)
    changed = "code of the module my_gridworld, which has changed since you trained with it"
    for command in (("eval", folder, "--episodes", 2), ("train", "--resume-run", folder)):
        assert_refused(invoke(*command), changed, f"{in_shell(*command)} --trust-code")
    corrected = invoke(*command).stderr.split("If you trust it:  hackmatrix-rl ")[1]
    done(*shlex.split(corrected))
    done("train", "--resume-run", folder)  # it is remembered
    imitated = ("train", "--algorithm", "imitation", *given, *TINY, *SHORT, "--dry-run")
    assert_refused(invoke(*imitated), "needs a player to learn from", "my_module:factory")
    assert_refused(invoke(*imitated, "--teacher", "expert"), "--teacher expert: plays another game")
    done(*imitated, "--teacher", "my_gridworld:teach", "--buffer-size", 64)


@pytest.mark.parametrize("change", [{}, {"seeds": 2}])
def test_settings_that_are_read_import_no_environment(gridworld, change):
    stored = make_config("debug", {"env": "cartpole", "algorithm": "ppo", "width": 8}).as_dict()
    sys.modules.pop("my_gridworld", None)
    make_environment.cache_clear()
    config = config_from_dict({**stored, "env": gridworld, **change})
    assert "my_gridworld" not in sys.modules
    assert config.environment().spec.num_actions == 2


def test_the_help_of_another_environment_lacks_the_flags_of_hackmatrix():
    shown = invoke("train", "--env", "t_maze", "--help-all").output
    assert "--max-enemies" not in shown
    assert "--reward" not in shown
    assert "corridor=20" in shown
    assert "--max-enemies" in invoke("train", "--help-all").output


def test_settings_of_versions_without_environments_are_of_hackmatrix():
    stored = make_config("debug", {"algorithm": "ppo"}).as_dict()
    del stored["env"], stored["env_args"]
    assert config_from_dict(stored).env == "hackmatrix"
    with pytest.raises(ConfigError, match="--league no-rewind: a setting of --env hackmatrix"):
        hm.PPOConfig(env="cartpole", network="mlp", league="no-rewind")


def test_compare_takes_any_environment():
    config = make_config("debug", {"env": "cartpole", "width": 8})
    assert isinstance(contender(config, "A").environment, hm.CartPole)


def test_games_that_python_plays_begin_anew_after_a_resume(tmp_path):
    pytest.importorskip("gymnasium")
    folder = tmp_path / "run"
    given = ("--env", "gymnasium:CartPole-v1", *TINY, *SHORT, "--eval-episodes", 0)
    done("train", *given, "--run-dir", folder)
    resumed = done("train", "--resume-run", folder, "--total-timesteps", 96)
    assert "Python played the games" in resumed.output
    assert_refused(invoke("verify-resume", *given[:2]), "does not end in the same bits")
    assert_refused(invoke("train", *given, "--mesh", "data=2", "--dry-run"), "one device")


def test_a_hook_saves_games_as_gifs(tmp_path):
    environment = hm.CartPole(max_steps=20)
    policy = hm.MLPActorCritic(environment.spec, width=8, key=jax.random.key(0))
    algorithm = hm.PPO(environment, policy, num_envs=8, num_steps=4, num_minibatches=2)
    hooks = [hm.SaveGifEvery(2, tmp_path / "gifs")]
    list(hm.Trainer(algorithm, hooks=hooks).train(4 * 32, key=jax.random.key(1)))
    files = sorted(each.name for each in (tmp_path / "gifs").iterdir())
    assert files == ["update-00000002.gif", "update-00000004.gif"]
