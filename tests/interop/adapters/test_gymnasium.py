"""HackMatrix in gymnasium."""

import os
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

import hackmatrix_rl.gymnasium  # noqa: E402, F401


@pytest.mark.parametrize("observation", ["dict", "flat"])
@pytest.mark.parametrize("league", ["original", "no-rewind"])
def test_gymnasiums_checker_passes(observation, league):
    game = gymnasium.make("HackMatrix-v0", observation=observation, league=league)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(game.unwrapped)


def played(steps, seed=5, **settings):
    """A game of random legal actions: what each step returned."""
    game = gymnasium.make("HackMatrix-v0", **settings)
    draw = np.random.default_rng(0)
    found = [game.reset(seed=seed)]
    for _ in range(steps):
        mask = found[-1][-1]["action_mask"]
        np.testing.assert_array_equal(mask, game.unwrapped.action_masks())
        found.append(game.step(draw.choice(np.flatnonzero(mask))))
        assert not found[-1][2] or found[-1][4]["stage"] >= 1
        if found[-1][2]:
            break
    return game, found


def test_a_seed_decides_the_game():
    (_, one), (_, again), (_, other) = played(10), played(10), played(10, seed=6)
    for a, b in zip(one, again, strict=True):
        np.testing.assert_array_equal(a[0]["grid"], b[0]["grid"])
    assert (one[0][0]["grid"] != other[0][0]["grid"]).any()


def test_an_illegal_action_ends_the_episode_and_does_not_raise():
    game, found = played(0)
    illegal = int(np.argmin(found[0][1]["action_mask"]))
    *_, terminated, truncated, info = game.step(illegal)
    assert (terminated, truncated, info["won"]) == (True, False, False)


def test_each_game_draws_random_actions_of_its_own():
    one, other = (gymnasium.make("HackMatrix-v0").unwrapped for _ in range(2))
    assert one.action_space is not other.action_space
    one.action_space.seed(1)
    drawn = [int(one.action_space.sample()) for _ in range(8)]
    one.action_space.seed(1)
    other.action_space.seed(2)
    assert [int(one.action_space.sample()) for _ in range(8)] == drawn


def test_a_game_that_has_not_begun_says_so():
    game = gymnasium.make("HackMatrix-v0").unwrapped
    games = gymnasium.make_vec("HackMatrix-v0", num_envs=2)
    for act in (lambda: game.step(0), game.render, game.action_masks, lambda: games.step([0, 0])):
        with pytest.raises(RuntimeError, match=r"not begun: call reset\(\) first"):
            act()


def test_gymnasium_limits_its_steps():
    _, found = played(2, max_episode_steps=2)
    assert found[-1][3]


def test_it_is_rendered_as_text_and_as_a_picture():
    game, _ = played(0, render_mode="ansi")
    assert "EXIT" in game.render()
    game, _ = played(0, render_mode="rgb_array")
    picture = game.render()
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    assert played(0)[0].unwrapped.render() is None


def test_many_games_are_those_of_the_environment():
    games = gymnasium.make_vec("HackMatrix-v0", num_envs=5, observation="flat", max_episode_steps=9)
    seen, info = games.reset(seed=3)
    assert games.observation_space.contains(seen)
    assert seen.shape == (5, 1545)
    draw, ended, lengths = np.random.default_rng(0), 0, np.zeros(5, int)
    for number in range(20):
        actions = [draw.choice(np.flatnonzero(mask)) for mask in info["action_mask"]]
        if number == 4:
            actions[2] = int(np.argmin(info["action_mask"][2]))
        seen, _, terminated, truncated, info = games.step(np.array(actions))
        lengths += 1
        assert games.observation_space.contains(seen)
        done = terminated | truncated
        if number == 4:
            assert terminated[2]
        for game in np.flatnonzero(done):
            assert games.single_observation_space.contains(info["final_obs"][game])
            assert (info["final_obs"][game] != seen[game]).any()
            assert info["final_info"]["episode"]["l"][game] == lengths[game]
            assert lengths[game] == 9 or terminated[game]
            ended += 1
        assert [end is not None for end in info.get("final_obs", [None] * 5)] == done.tolist()
        lengths[done] = 0
    assert ended > 5


def test_each_game_of_a_batch_has_its_own_seed_if_told():
    games = gymnasium.make_vec("HackMatrix-v0", num_envs=2)
    one, _ = games.reset(seed=[4, 9])
    other, _ = games.reset(seed=[9, 4])
    np.testing.assert_array_equal(one["grid"][0], other["grid"][1])
    with pytest.raises(ValueError, match="3 seeds for 2 games"):
        games.reset(seed=[1, 2, 3])


def test_a_wrapper_of_gymnasium_reads_the_batch():
    games = gymnasium.wrappers.vector.RecordEpisodeStatistics(
        gymnasium.make_vec("HackMatrix-v0", num_envs=3, max_episode_steps=4)
    )
    _, info = games.reset(seed=1)
    for _ in range(4):
        actions = np.argmax(info["action_mask"], axis=1)
        *_, info = games.step(actions)
    assert info["episode"]["l"].max() == 4


@pytest.mark.skipif(
    os.environ.get("HACKMATRIX_RL_CHECK_TYPES") == "1", reason="the check of types comes first"
)
@pytest.mark.parametrize("make", [gymnasium.make, partial(gymnasium.make_vec, num_envs=2)])
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"observation": "grid"}, "observation must be dict, flat or original, not 'grid'"),
        ({"league": "hard"}, "league must be one of original, no-rewind, not 'hard'"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(make, settings, said):
    with pytest.raises(ValueError, match=said):
        make("HackMatrix-v0", **settings)


@pytest.mark.parametrize("name", ["HackMatrix-v0", "hackmatrix_rl.gymnasium:HackMatrix-v0"])
def test_gymnasium_finds_it(name):
    imports = "import gymnasium" if ":" in name else "import gymnasium, hackmatrix_rl"
    made = f"gymnasium.make({name!r}); gymnasium.make_vec({name!r}, num_envs=2)"
    subprocess.run([sys.executable, "-c", f"{imports}; {made}"], check=True, timeout=120)
