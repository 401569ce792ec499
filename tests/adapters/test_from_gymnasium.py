"""Games of gymnasium in this package."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.config import make_config
from hackmatrix_rl.env import env_keys
from hackmatrix_rl.errors import ConfigError

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


def test_the_trainer_takes_it():
    environment = hm.from_gymnasium("CartPole-v1")
    policy = hm.MLPActorCritic(environment.spec, width=16, depth=1, key=jax.random.key(0))
    trainer = hm.Trainer(hm.PPO(environment, policy, num_envs=4, num_steps=16))
    *_, last = trainer.train(256, key=jax.random.key(1))
    assert last.env_steps >= 256
    found = hm.evaluate(trainer.policy, environment, episodes=4, key=jax.random.key(2))
    assert found.estimate("return").mean > 5


def test_what_it_cannot_play_is_refused_by_name():
    with pytest.raises(ValueError, match="needs Discrete ones"):
        hm.from_gymnasium("Pendulum-v1")
    with pytest.raises(ValueError, match=r"reads Box, and Dict of these"):
        hm.from_gymnasium("FrozenLake-v1")
    with pytest.raises(ValueError, match=r"expected AutoresetMode\.SAME_STEP"):
        hm.from_gymnasium(lambda count: gymnasium.make_vec("CartPole-v1", num_envs=count))
    with pytest.raises(TypeError, match="make returned CartPoleEnv"):
        hm.from_gymnasium(lambda count: gymnasium.make("CartPole-v1").unwrapped)


def test_python_plays_one_training_at_a_time():
    given = {"algorithm": "ppo", "env": "gymnasium:CartPole-v1", "seeds": 2}
    with pytest.raises(ConfigError, match="--seeds 2: Python plays --env gymnasium:CartPole-v1"):
        make_config("debug", given)
