"""Games of gymnasium in this package."""

import gc
import io
import sys
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cli.commands import assert_refused, done, invoke
from PIL import Image
from processes import finish, start
from training.states import assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.env import env_keys
from hackmatrix_rl.evaluation import RandomAgent, play_steps, policy_divergence
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.config._environments import make_environment
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import recorded

gymnasium = pytest.importorskip("gymnasium")
SAME_STEP = gymnasium.vector.AutoresetMode.SAME_STEP


class Masked(gymnasium.Env):
    """Action 5 adds 1 to a number, 6 ends the game and is legal from 2 on; a Dict is seen."""

    observation_space = gymnasium.spaces.Dict(
        {
            "number": gymnasium.spaces.Box(0, 99, (1,), np.float64),
            "drawn": gymnasium.spaces.Box(0, 255, (2,), np.uint8),
        }
    )
    action_space = gymnasium.spaces.Discrete(2, start=5)

    def look(self):
        drawn = self.np_random.integers(256, size=2, dtype=np.uint8)
        seen = {"number": np.array([self.number], float), "drawn": drawn}
        return seen, {"action_mask": np.array([True, self.number >= 2])}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = 0
        return self.look()

    def step(self, action):
        assert action in (5, 6)
        self.number += 1
        seen, info = self.look()
        return seen, 1.5, action == 6, False, info


def masked(count):
    return gymnasium.vector.SyncVectorEnv([Masked] * count, autoreset_mode=SAME_STEP)


class Counted(gymnasium.vector.SyncVectorEnv):
    """A batch that is in `running` until it is closed."""

    running: ClassVar = set()

    def __init__(self, count):
        super().__init__([Masked] * count, autoreset_mode=SAME_STEP)
        self.running.add(id(self))

    def close_extras(self, **kwargs):
        self.running.remove(id(self))
        super().close_extras(**kwargs)


GAMES = hm.from_gymnasium(Counted)
POLICY = hm.MLPActorCritic(GAMES.spec, width=8, depth=1, key=jax.random.key(0))
UPDATE = 2 * 4


def make_trainer(ent_coef=0.0):
    sizes = {"num_envs": 2, "num_steps": 4, "num_minibatches": 1, "update_epochs": 1}
    return hm.Trainer(hm.PPO(GAMES, POLICY, loss=hm.PPOLoss(ent_coef=ent_coef), **sizes))


def test_a_batch_lives_as_long_as_whoever_plays_it():
    trainer, key = make_trainer(), jax.random.key(1)
    hooks = [hm.EvaluateEvery(1, episodes=5, num_envs=1)]
    for metrics in trainer.train(3 * UPDATE, key=key, hooks=hooks):
        assert metrics.extra["eval/episodes"] == 5
        assert len(Counted.running) == 1
    assert metrics.updates == 3
    trainer.start(key)
    hm.evaluate(POLICY, GAMES, episodes=18, num_envs=2, key=key)
    hm.check_environment(GAMES, steps=9, num_envs=2)
    policy_divergence(POLICY, POLICY, GAMES, key=key, num_envs=2, num_steps=2)
    next(play_steps(trainer.agent, GAMES, key))
    gc.collect()
    assert len(Counted.running) == 1
    state, trainer = trainer.state, None
    other = make_trainer(ent_coef=0.1)
    other.state = state
    del state
    gc.collect()
    assert other.fit(UPDATE).updates == 1  # they play on in another training
    del other
    gc.collect()
    assert not Counted.running
    state, _ = GAMES.reset(env_keys(key, 2))
    assert len(Counted.running) == 1
    state.close()
    assert not Counted.running
    with pytest.raises(Exception, match="is closed: games end with the training"):
        jax.block_until_ready(GAMES.step(state, jnp.zeros(2, jnp.int32), env_keys(key, 2)))


def test_a_batch_that_cannot_begin_is_closed(monkeypatch):
    games = hm.from_gymnasium(Counted)

    def fail(*given, **settings):
        raise OSError("out of luck")

    monkeypatch.setattr(Counted, "reset", fail)
    with pytest.raises(Exception, match="out of luck"):
        jax.block_until_ready(games.reset(env_keys(jax.random.key(1), 2)))
    assert not Counted.running


def test_a_stored_training_goes_on_with_new_games(tmp_path):
    trainer, notes = make_trainer(), []

    def cell(updates):
        hooks = [hm.SaveRun(tmp_path / "run", note=notes.append)]
        return trainer.fit(updates * UPDATE, key=jax.random.key(1), hooks=hooks)

    def drawn():
        return trainer.state.collector_state.observation["drawn"].tolist()

    said = "Python played the games, and no checkpoint holds them: new games start"
    cell(2)
    assert cell(4).updates == 4
    (resumed,) = [note for note in notes if note.startswith("resumed at update 2, ")]
    assert resumed.endswith(f"; {said}")
    learner = jax.device_get(trainer.state.learner)
    trainer.start(jax.random.key(1))
    first = drawn()
    with pytest.warns(UserWarning, match=said):
        trainer.load(tmp_path / "run" / "training.hmrl")
    assert_same(trainer.state.learner, learner)
    assert int(trainer.state.update) == 4
    assert drawn() != first
    assert trainer.fit(5 * UPDATE).updates == 5


PROCESSES = """
import multiprocessing
import os
import signal

import gymnasium
import jax
import jax.numpy as jnp

import hackmatrix_rl as hm

assert jnp.ones(3).sum() == 3  # JAX has started, and with it its threads


class Jax(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 99, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = jnp.zeros(1)
        return self.number.__array__(), {}

    def step(self, action):
        self.number += 1
        return self.number.__array__(), 1.0, bool(self.number[0] == 3), False, {}

    def close(self):
        print("closed", flush=True)


def forks(count):
    made = [lambda: gymnasium.make("CartPole-v1")] * count
    mode = gymnasium.vector.AutoresetMode.SAME_STEP
    return gymnasium.vector.AsyncVectorEnv(made, context="fork", autoreset_mode=mode)


gymnasium.register("Jax-v0", Jax)
games = hm.from_gymnasium("Jax-v0", vectorization_mode="async")
policy = hm.MLPActorCritic(games.spec, width=8, depth=1, key=jax.random.key(0))
found = hm.evaluate(policy, games, episodes=1, key=jax.random.key(1))
print("length", found.values["length"].tolist(), multiprocessing.active_children())
try:
    hm.from_gymnasium(forks)
except ValueError as error:
    print("refused:", error)
mine = {"num_envs": 1, "vectorization_mode": "async", "vector_kwargs": {"context": "fork"}}
forked = gymnasium.make_vec("HackMatrix-v0", **mine)
try:
    forked.reset()
except hm.ConfigError as error:
    print("refused:", error)
forked.close(terminate=True)
keys = jax.random.split(jax.random.key(1), 1)
state, _ = games.reset(keys)
(worker,) = multiprocessing.active_children()
os.kill(worker.pid, signal.SIGINT)  # as a terminal does
_, timestep = games.step(state, jnp.zeros(1, jnp.int32), keys)
print("played on", timestep.observation, flush=True)
"""


def test_games_in_processes_are_no_forks_and_end_with_the_program(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROCESSES)  # without `if __name__ == "__main__":`
    status, told = finish(start(sys.executable, "-W", "ignore", script))
    assert status == 0, told
    assert "length [3] []" in told
    assert 'context="forkserver"), or "spawn"' in told
    assert "refused: HackMatrix-v0: this process is a fork of one that uses JAX" in told
    assert told.splitlines()[-2:] == ["played on [[1.]]", "closed"]


def test_games_of_gymnasium_keep_the_contract():
    hm.check_environment(hm.from_gymnasium("CartPole-v1"), steps=60, num_envs=4)
    hm.check_environment(hm.from_gymnasium(masked), steps=20, num_envs=4)


def test_the_end_of_an_episode_is_kept():
    environment = hm.from_gymnasium(masked)
    step = jax.jit(environment.step)
    keys = env_keys(jax.random.key(1), 2)
    state, timestep = environment.reset(keys)
    assert timestep.mask.tolist() == [[True, False]] * 2
    for actions in ([0, 0], [0, 0], [0, 1]):
        state, timestep = step(state, jnp.asarray(actions, jnp.int32), keys)
    assert timestep.terminated.tolist() == [False, True]
    assert timestep.observation["number"].tolist() == [[3], [0]]
    assert timestep.last_observation["number"].tolist() == [[3], [3]]
    assert timestep.mask.tolist() == [[True, True], [True, False]]
    assert timestep.last_mask.tolist() == [[True, True], [True, True]]
    assert timestep.episode.total_reward.tolist() == [4.5, 4.5]
    state, timestep = step(state, jnp.asarray([1, 0], jnp.int32), keys)
    assert timestep.episode.length.tolist() == [4, 1]


def test_a_limit_of_steps_truncates():
    environment = hm.from_gymnasium("CartPole-v1", max_episode_steps=3)
    keys = env_keys(jax.random.key(1), 2)
    state, _ = environment.reset(keys)
    for action in (0, 1, 0):
        state, timestep = environment.step(state, jnp.full(2, action, jnp.int32), keys)
    assert timestep.truncated.tolist() == [True, True]
    assert not timestep.terminated.any()


def test_a_state_is_used_once():
    environment = hm.from_gymnasium("CartPole-v1")
    keys = env_keys(jax.random.key(1), 2)
    state, _ = environment.reset(keys)
    actions = jnp.zeros(2, jnp.int32)
    jax.block_until_ready(environment.step(state, actions, keys))
    with pytest.raises(Exception, match="they cannot go back, so use each state once"):
        jax.block_until_ready(environment.step(state, actions, keys))


TWO = gymnasium.spaces.Discrete(2)


class Switches(gymnasium.Env):
    """Its reward is the sum of the action's parts, which must be in the space."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)

    @classmethod
    def batch(cls, count, space):
        return gymnasium.vector.SyncVectorEnv(
            [lambda: cls(space)] * count, autoreset_mode=SAME_STEP
        )

    def __init__(self, space):
        self.action_space = space

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.zeros(1, np.float32), float(action.sum()), False, False, {}


@pytest.mark.parametrize(
    ("space", "found", "action", "reward"),
    [
        (gymnasium.spaces.Box(-2, 2, (3,)), hm.Box((-2,) * 3, (2,) * 3), [0.5, 1.0, -2.0], -0.5),
        # The float32 next to 0.1 is larger than 0.1.
        (gymnasium.spaces.Box(-1, 0.1, (1,), float), hm.Box((-1,), (0.1,)), [0.1], 0.1),
        (
            gymnasium.spaces.Box(-2, 2, (2, 2)),
            hm.Box((-2,) * 4, (2,) * 4),
            [0.5, 1.0, -2.0, 1.0],
            0.5,
        ),
        (
            gymnasium.spaces.MultiDiscrete([3, 2], start=[1, 5]),
            hm.MultiDiscrete((3, 2)),
            [2, 1],
            9.0,
        ),
    ],
)
def test_real_and_several_actions_are_played_as_they_are(space, found, action, reward):
    environment = hm.from_gymnasium(lambda count: Switches.batch(count, space))
    assert environment.spec.actions == found
    keys = env_keys(jax.random.key(1), 2)
    state, _ = environment.reset(keys)
    actions = jnp.array([action] * 2, found.dtype)
    _, timestep = environment.step(state, actions, keys)
    np.testing.assert_allclose(timestep.reward, [reward] * 2)
    assert timestep.mask.shape == (2, found.mask_size)
    state.close()


def test_what_it_cannot_play_is_refused_by_name():
    for space, said in (
        (
            gymnasium.spaces.Tuple([TWO, TWO]),
            "Tuple.*needs Discrete, MultiDiscrete, or a Box of.*TransformAction",
        ),
        (gymnasium.spaces.Box(0, 9, (2,), np.uint8), "Box.*uint8.; this package needs"),
        (gymnasium.spaces.Box(-np.inf, 1, (2,)), r"Box.*: low\[0\] is -inf; expected a finite"),
    ):
        with pytest.raises(ValueError, match=f"actions are {said}"):
            hm.from_gymnasium(lambda count, space=space: Switches.batch(count, space))
    with pytest.raises(ValueError, match=r"reads Box, and Dict of these"):
        hm.from_gymnasium("FrozenLake-v1")
    with pytest.raises(ValueError, match=r"expected AutoresetMode\.SAME_STEP"):
        hm.from_gymnasium(lambda count: gymnasium.make_vec("CartPole-v1", num_envs=count))
    with pytest.raises(ValueError, match="are forks of this one"):
        hm.from_gymnasium(
            "CartPole-v1", vectorization_mode="async", vector_kwargs={"context": "fork"}
        )
    with pytest.raises(TypeError, match="make returned CartPoleEnv"):
        hm.from_gymnasium(lambda count: gymnasium.make("CartPole-v1").unwrapped)


class Missing(gymnasium.Env):
    """A game whose package is not installed."""

    def __init__(self, what="box2d"):
        raise gymnasium.error.DependencyNotInstalled(f"{what} is not installed, run pip install it")


gymnasium.register("Missing-v0", Missing)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("Cartpole-v1", None, "no environment 'Cartpole-v1'; the nearest is CartPole-v1"),
        ("CartPole-v9", None, "no environment 'CartPole-v9'; the nearest is CartPole-v"),
        ("odd name", None, "no environment 'odd name'; gymnasium.pprint_registry() lists"),
        ("no_such_module:Odd-v0", None, "No module named 'no_such_module'"),
        ("Missing-v0", None, "box2d is not installed, run pip install it"),
        ("Missing-v0", "what=mujoco", "mujoco is not installed, run pip install it"),
        ("Missing-v0", "odd=3", "unexpected keyword argument 'odd'"),
        ("CartPole-v1", "num_envs=3", "num_envs is a setting of the training"),
        ("CartPole-v1", "make=3", "multiple values for argument 'make'"),
        ("CartPole-v1", "id=3", "multiple values for argument 'id'"),
        ("CartPole-v1", "vectorization_mode=threads", "valid modes: ['async', 'sync'"),
        ("CartPole-v1", "vectorization_mode=vector_entry_point", "AutoresetMode.SAME_STEP"),
        ("CartPole-v1", "vector_kwargs=3", "vector_kwargs is 3; expected a dict"),
        ("CartPole-v1", "max_episode_steps=many", "gymnasium cannot make it: "),
        ("FrozenLake-v1", None, "wrappers=[gymnasium.wrappers.FlattenObservation]"),
    ],
)
def test_a_game_that_cannot_be_made_is_refused_in_one_line(name, arguments, said):
    given = ("--env", f"gymnasium:{name}", *(("--env-args", arguments) if arguments else ()))
    refused = invoke("train", *given, "--dry-run")
    assert_refused(refused, f"--env gymnasium:{name}", arguments or "", said)


def test_every_game_of_gymnasium_is_made_or_refused_in_one_line():
    made, refused = [], []
    for name in [each for each in gymnasium.registry if "/" not in each]:  # those are in JAX: slow
        try:
            made.append(make_environment.__wrapped__(f"gymnasium:{name}", None))
        except ConfigError as error:
            refused.append((f"--env gymnasium:{name}: ", str(error)))
    assert made
    assert all(said.startswith(begins) and "\n" not in said for begins, said in refused)


def test_python_plays_one_training_at_a_time(tmp_path, monkeypatch):
    given = {"algorithm": "ppo", "env": "gymnasium:CartPole-v1", "seeds": 2}
    with pytest.raises(ConfigError, match="--seeds 2: Python plays --env gymnasium:CartPole-v1"):
        make_config("debug", given)
    monkeypatch.chdir(tmp_path)
    own = "import hackmatrix_rl as hm\ndef games(): return hm.from_gymnasium('CartPole-v1')\n"
    (tmp_path / "own_games.py").write_text(own)
    several = invoke("train", "--env", "own_games:games", "--seeds", 2, "--dry-run")
    assert_refused(several, "--seeds 2: Python plays --env own_games:games")


class Drawn(Masked):
    """A game that draws its number in the modes that it has."""

    metadata: ClassVar = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
    breaks: ClassVar[tuple[str, ...]] = ()

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        if self.render_mode in self.breaks:
            raise gymnasium.error.DependencyNotInstalled("pygame is not installed\nanywhere")
        if self.render_mode == "ansi":
            return f"\x1b[41m{self.number}\x1b[0m"
        return np.full((3, 5, 3), self.number, np.uint8)


@pytest.mark.parametrize(
    ("breaks", "expected"),
    [((), [0, 1, 2, 3]), (("rgb_array",), ["0", "1", "2", "3"]), (("rgb_array", "ansi"), [])],
)
def test_games_by_name_are_drawn_to_their_last_position(breaks, expected, monkeypatch):
    monkeypatch.setattr(Drawn, "breaks", breaks)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
    gymnasium.register("Drawn-v0", entry_point=Drawn, max_episode_steps=3)
    environment = hm.from_gymnasium("Drawn-v0")
    told = []
    scenes = recorded(RandomAgent(), environment, jax.random.key(0), report=told.append).scenes
    if len(breaks) == 2:
        assert all(scene.picture.startswith("observation['drawn']") for scene in scenes)
        (line,) = told
        assert line.startswith("Drawn-v0 cannot be drawn: DependencyNotInstalled: pygame is not")
    else:
        found = [_shown(scene.picture) for scene in scenes]
        assert found == expected[: len(found)]
        assert len(found) > 1
        assert told == []
    assert environment.title == "Drawn-v0"
    assert scenes[-1].end in ("terminated", "truncated")


def _shown(picture):
    """The text of a scene, or the shade of its pixels."""
    if isinstance(picture, str):
        return picture
    with Image.open(io.BytesIO(picture)) as image:
        return np.asarray(image.convert("RGB"))[0, 0, 0]


def test_an_environment_of_mujoco_trains_and_is_evaluated(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio")
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log there
    environment = hm.from_gymnasium("InvertedPendulum-v5")
    assert environment.spec.actions == hm.Box((-3.0,), (3.0,))
    assert environment.spec.observation.shape == (4,)
    small = ("--num-envs", 2, "--num-steps", 64, "--num-minibatches", 1, "--update-epochs", 1)
    given = ("--env", "gymnasium:InvertedPendulum-v5", "--preset", "continuous", *small)
    done("train", *given, "--total-timesteps", 128, "--run-dir", "run", "--eval-episodes", 0)
    assert "length" in done("eval", "run", "--episodes", 2).output
