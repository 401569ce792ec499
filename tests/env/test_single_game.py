"""A game written for one player, and many of it side by side."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.env import HackMatrixGame, env_keys


class Countdown(hm.SingleGame):
    """From some number down to 0: action 1 counts, 0 waits; 2 is legal at 1 only, and cuts."""

    first: int = 3

    @property
    def num_actions(self):
        return 3

    @property
    def truncates(self):
        return True

    def start(self, *, key):
        return jnp.int32(self.first) + jax.random.randint(key, (), 0, 2)

    def observe(self, state):
        return state.astype(jnp.float32)[None]

    def legal(self, state):
        return jnp.asarray([True, True, False]).at[2].set(state == 1)

    def play(self, state, action, *, key):
        after = state - (action == 1).astype(jnp.int32)
        return hm.Played(after, jnp.where(action == 1, 10.0, 0.0), after == 0, action == 2)


class Board(Countdown):
    def observe(self, state):
        return jnp.full((2, 3, 4), state, jnp.uint8)


def played(environment, actions, count=1):
    state, timestep = environment.reset(env_keys(jax.random.key(0), count))
    seen = [timestep]
    for number, action in enumerate(actions):
        keys = env_keys(jax.random.key(1 + number), count)
        state, timestep = environment.step(state, jnp.full(count, action, jnp.int32), keys)
        seen.append(timestep)
    return seen


def test_it_is_an_environment():
    hm.check_environment(hm.Batched(Countdown()), steps=60)
    hm.check_environment(hm.Batched(Board(), max_steps=5), steps=20)


def test_an_episode_ends_with_its_last_position_and_another_one_begins():
    first, *_, last = seen = played(hm.Batched(Countdown()), [1, 0, 1, 1, 1])
    length = int(first.observation[0, 0])
    end = seen[length + 1]
    assert (bool(end.terminated[0]), bool(end.truncated[0])) == (True, False)
    assert float(end.last_observation[0, 0]) == 0
    assert float(end.observation[0, 0]) in (3, 4)
    assert float(end.episode.total_reward[0]) == 10 * length
    assert int(end.episode.length[0]) == length + 1
    assert not last.terminated[0] or length == 4


def test_a_limit_and_a_cut_of_the_game_itself_do_not_terminate():
    for limit, actions in ((2, [0, 0]), (1000, [2])):
        *_, end = played(hm.Batched(Countdown(), max_steps=limit), actions)
        assert (bool(end.terminated[0]), bool(end.truncated[0])) == (False, True)
    # At the limit, what the rules end is terminated.
    *_, end = played(hm.Batched(Countdown(first=1), max_steps=2), [1, 1])
    assert bool(end.terminated[0]) or int(end.last_observation[0, 0]) == 0
    assert not bool(end.truncated[0] & end.terminated[0])


def test_the_mask_is_that_of_the_position():
    seen = played(hm.Batched(Countdown()), [1, 1, 1])
    for timestep in seen:
        assert bool(timestep.mask[0, 2]) == (float(timestep.observation[0, 0]) == 1)


def test_a_board_has_a_grid_and_anything_else_is_flat():
    assert hm.Batched(Countdown()).spec.num_features == 1
    spec = hm.Batched(Board()).spec
    features = spec.encode(jnp.ones((2, 3, 4), jnp.uint8))
    assert features.grid.shape == (2, 3, 4)
    assert spec.num_features == 24
    network = hm.ConvActorCritic(spec, width=8, key=jax.random.key(0))
    assert network(jnp.ones((2, 3, 4), jnp.uint8), network.initial_carry())[0].shape == (3,)


def test_what_is_no_game_is_refused():
    with pytest.raises(TypeError, match="game"):
        hm.Batched(hm.CartPole())


@pytest.mark.parametrize(
    "environment", [hm.CartPole, hm.HackMatrix, partial(hm.Batched, Countdown())]
)
@pytest.mark.parametrize("limit", [True, 10**30, 0])
def test_a_limit_that_counts_no_steps_is_refused(environment, limit):
    with pytest.raises((TypeError, ValueError), match=r"max_steps (is|must be)"):
        environment(max_steps=limit)


def test_hackmatrix_alone_is_the_game_of_the_batch():
    game, config = HackMatrixGame(), hm.GameConfig()
    key = jax.random.key(3)

    def start(key):
        return game.start(key=key)

    def new_game(key):
        return hm.new_game(config, key=key)

    assert str(jax.make_jaxpr(start)(key)) == str(jax.make_jaxpr(new_game)(key))
    mine = jax.jit(start)(key)
    illegal = int(np.argmin(np.asarray(game.legal(mine))))
    played = jax.jit(lambda s, a, k: game.play(s, a, key=k))(mine, jnp.int32(illegal), key)
    assert bool(played.terminated)
