"""What is learned from may be another sum of the terms than the game's; the game stays the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.env import env_keys
from hackmatrix_rl.games.hackmatrix import TERM_NAMES

WEIGHTS = {"step_penalty": 0.0, "distance_shaping": 3.0, "resource_gain": -0.5, "victory": 0.1}
GAMES, STEPS, LIMIT = 8, 9, 4
SMALL = hm.GameConfig(history=2)


def played(environment):
    """The timesteps of some games under random legal actions, with resets in between."""
    draw = np.random.default_rng(0)
    keys = env_keys(jax.random.key(0), GAMES)
    step = jax.jit(environment.step)
    state, timestep = jax.jit(environment.reset)(keys)
    moments = [jax.device_get(timestep)]
    for number in range(STEPS):
        actions = np.argmax(draw.random((GAMES, 28)) * moments[-1].mask, axis=1)
        fresh = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number + 1)
        state, timestep = step(state, jnp.asarray(actions, jnp.int32), fresh)
        moments.append(jax.device_get(timestep))
    return moments


@pytest.fixture(scope="module")
def both():
    """The same games without weights, and with them."""
    return [
        played(hm.HackMatrix(SMALL, max_steps=LIMIT, reward=reward))
        for reward in (hm.RewardConfig(), hm.RewardConfig(**WEIGHTS))
    ]


def test_weights_of_one_are_the_program_without_weights():
    plain, ones = hm.HackMatrix(SMALL), hm.HackMatrix(SMALL, reward=hm.RewardConfig(victory=1))
    keys = env_keys(jax.random.key(0), 2)
    assert plain == ones
    assert str(jax.make_jaxpr(plain.reset)(keys)) == str(jax.make_jaxpr(ones.reset)(keys))
    _, timestep = jax.eval_shape(ones.reset, keys)
    assert "learned_return" not in timestep.episode.extra


def test_weights_change_the_learned_reward_and_nothing_else(both):
    changed = False
    for plain, weighted in zip(*both, strict=True):
        changed |= bool((plain.reward != weighted.reward).any())
        for name in ("observation", "mask", "terminated", "truncated", "last_mask", "terms"):
            both_parts = getattr(plain, name), getattr(weighted, name)
            jax.tree.map(np.testing.assert_array_equal, *both_parts)
        np.testing.assert_array_equal(plain.episode.total_reward, weighted.episode.total_reward)
    assert changed


def test_an_episode_tells_both_returns(both):
    learned, game = np.zeros(GAMES), np.zeros(GAMES)
    ended = 0
    for moment in both[1][1:]:
        learned += moment.reward
        game += sum(moment.terms.values())
        done = moment.terminated | moment.truncated
        np.testing.assert_allclose(
            moment.episode.extra["learned_return"][done], learned[done], rtol=1e-5, atol=1e-5
        )
        np.testing.assert_allclose(moment.episode.total_reward[done], game[done], rtol=1e-5)
        learned[done] = game[done] = 0
        ended += done.sum()
    assert ended >= 2 * GAMES


@pytest.mark.parametrize(
    ("weights", "error", "said"),
    [
        ({"victory": "much"}, TypeError, "victory must be a number"),
        ({"kills": True}, TypeError, "kills must be a number"),
        ({"kills": float("nan")}, ValueError, "kills must be a number from"),
        ({"kills": 1e7}, ValueError, "1000000"),
    ],
)
def test_a_weight_that_cannot_work_is_refused_by_name(weights, error, said):
    with pytest.raises(error, match=said):
        hm.RewardConfig(**weights)


def test_weights_are_the_terms_in_their_order_and_nothing_else_is_taken():
    with pytest.raises(TypeError, match="RewardConfig"):
        hm.HackMatrix(SMALL, reward={"victory": 0.1})
    assert tuple(hm.RewardConfig.__dataclass_fields__) == TERM_NAMES


@pytest.mark.parametrize("weighted", [False, True])
def test_the_reward_is_the_weighted_sum_of_the_terms(both, weighted):
    weights = hm.RewardConfig(**(WEIGHTS if weighted else {}))
    seen = set()
    for moment in both[weighted][1:]:
        total = sum(getattr(weights, name) * moment.terms[name] for name in TERM_NAMES)
        np.testing.assert_allclose(moment.reward, total, rtol=1e-6, atol=1e-6)
        seen |= {name for name in TERM_NAMES if moment.terms[name].any()}
    assert {"step_penalty", "distance_shaping"} <= seen
