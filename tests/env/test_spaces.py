"""Spaces of actions, and games that have them."""

import os
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.env import ActionSpace, env_keys

from .targets import Dials, Target

SEEN = jax.ShapeDtypeStruct((3,), jnp.float32)
SPACES = {
    "discrete": (hm.Discrete(4), (), "int32", 4, 4),
    "multi": (hm.MultiDiscrete((3, 2)), (2,), "int32", 5, 5),
    "box": (hm.Box((-1.0, 0.0, 2.0), np.array([1, 5, 3])), (3,), "float32", 0, 6),
}


@pytest.mark.parametrize("name", SPACES)
def test_a_space_has_the_sizes_of_its_actions_masks_and_parameters(name):
    space, shape, dtype, mask_size, num_parameters = SPACES[name]
    assert (space.shape, str(space.dtype)) == (shape, dtype)
    assert (space.mask_size, space.num_parameters) == (mask_size, num_parameters)
    assert space.zeros(2, 5).shape == (2, 5, *shape)
    assert space.zeros(2, 5).dtype == dtype
    assert space.every().shape == (mask_size,)
    again = pickle.loads(pickle.dumps(space))
    assert (again, hash(again)) == (space, hash(space))


def test_a_box_of_arrays_is_a_box_of_tuples():
    assert hm.Box(np.array([-1.0]), jnp.array([2.0])) == hm.Box((-1.0,), (2.0,))
    assert np.array_equal(hm.Box((-1.0,), (2.0,)).clip(jnp.array([[3.0], [0.5]])), [[2.0], [0.5]])


@pytest.mark.parametrize("name", SPACES)
def test_random_actions_are_legal(name):
    space = SPACES[name][0]
    generator = np.random.default_rng(0)
    mask = generator.random((200, space.mask_size)) < 0.6
    keys = jax.random.split(jax.random.key(0), 200)
    sampled = jax.vmap(lambda mask, key: space.sample(mask, key=key))(mask, keys)
    actions = np.asarray(sampled)
    assert (actions.shape, actions.dtype) == ((200, *space.shape), space.dtype)
    played = ~space.lacks_action(mask)
    assert name == "box" or 0 < played.mean() < 1
    if isinstance(space, hm.Box):
        assert ((actions >= space.low) & (actions <= space.high)).all()
    elif isinstance(space, hm.MultiDiscrete):
        for part, legal in enumerate(space.split(mask)):
            assert np.take_along_axis(legal, actions[:, [part]], axis=1)[played].all()
    else:
        assert np.take_along_axis(mask, actions[:, None], axis=1)[played].all()


def test_a_spec_takes_a_whole_number_or_a_space():
    assert hm.EnvSpec(4, SEEN).actions == hm.Discrete(4)
    assert hm.EnvSpec(np.int64(4), SEEN).num_actions == 4
    box = hm.EnvSpec(actions=hm.Box((0,), (1,)), observation=SEEN)
    with pytest.raises(ValueError, match=r"actions are Box\(\(0.0,\), \(1.0,\)\).*num_parameters"):
        _ = box.num_actions
    with pytest.raises(TypeError, match=r"num_actions; use actions=2"):
        hm.EnvSpec(num_actions=4, observation=SEEN)


BAD = {
    "none": (lambda: hm.Discrete(0), "n must be at least 1, not 0"),
    "float": (lambda: hm.Discrete(2.0), "n is 2.0 .*n=2"),
    "no parts": (lambda: hm.MultiDiscrete(()), "sizes is empty"),
    "one number": (lambda: hm.MultiDiscrete(3), r"sizes is 3 .*MultiDiscrete\(\(3, 2\)\)"),
    "no action": (lambda: hm.MultiDiscrete((3, 0)), r"sizes\[1\] must be at least 1"),
    "scalar": (lambda: hm.Box(-1.0, 1.0), r"low is -1.0 .*Box\(\(-1.0"),
    "two axes": (lambda: hm.Box(((1.0,),), ((2.0,),)), "low is a tuple of 1; expected one bound"),
    "infinite": (lambda: hm.Box((0, -np.inf), (1, 1)), r"low\[1\] is -inf; expected a finite"),
    "not a number": (lambda: hm.Box((0,), (np.nan,)), r"high\[0\] is nan; expected a finite"),
    "lengths": (lambda: hm.Box((0, 0), (1,)), "low has 2 numbers and high has 1"),
    "order": (lambda: hm.Box((0, 1), (1, 1)), r"low\[1\] is 1.0 and high\[1\] is 1.0"),
    "spec": (lambda: hm.EnvSpec(True, SEEN), "actions is True; expected hm.Discrete"),
    "class": (lambda: hm.EnvSpec(hm.Discrete, SEEN), "actions is the class Discrete; expected"),
}


@pytest.mark.skipif(
    os.environ.get("HACKMATRIX_RL_CHECK_TYPES") == "1", reason="the check of types comes first"
)
@pytest.mark.parametrize("name", BAD)
def test_bad_spaces_are_refused(name):
    make, said = BAD[name]
    with pytest.raises((ValueError, TypeError), match=said):
        make()


@pytest.mark.parametrize("game", [Target(), Dials()], ids=["box", "multi"])
def test_a_game_of_any_space_is_an_environment(game):
    environment = hm.Batched(game, max_steps=7)
    assert isinstance(environment.spec.actions, ActionSpace)
    hm.check_environment(environment, steps=20)
    state, timestep = environment.reset(env_keys(jax.random.key(0), 3))
    assert timestep.mask.shape == (3, game.actions.mask_size)
    with pytest.raises((ValueError, TypeError), match="actions is int32 of shape"):
        environment.step(state, jnp.zeros((3, 9), jnp.int32), env_keys(jax.random.key(0), 3))
