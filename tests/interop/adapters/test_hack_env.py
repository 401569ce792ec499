"""The original's Python environment on this package's engine."""

import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

import hackmatrix_rl.gymnasium  # noqa: E402, F401
from hackmatrix_rl.interop.adapters import HackEnv  # noqa: E402
from hackmatrix_rl.system.errors import ConfigError  # noqa: E402


def test_gymnasiums_checker_passes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(HackEnv(app_path="/nowhere/app"), skip_render_check=True)


@pytest.fixture(scope="module")
def game():
    return HackEnv()


def test_it_is_the_game_of_the_gymnasium_environment_with_programs_as_integers(game):
    beside = gymnasium.make("HackMatrix-v0", observation="original").unwrapped
    seen, info = game.reset(seed=3)
    assert seen["programs"].dtype == np.int32
    assert game.observation_space.contains(seen)
    assert beside.observation_space == game.observation_space
    again, _ = beside.reset(seed=3)
    assert beside.observation_space.contains(again)
    np.testing.assert_array_equal(info["action_mask"], game.action_masks())
    games = gymnasium.make_vec("HackMatrix-v0", num_envs=2, observation="original")
    assert games.observation_space.contains(games.reset(seed=1)[0])


def test_an_episode_ends_with_its_statistics(game):
    rng, length, total = np.random.default_rng(1), 0, 0.0
    _, info = game.reset(seed=9)
    done = False
    while not done:
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        _, reward, done, truncated, info = game.step(action)
        length, total = length + 1, total + reward
        assert not truncated
        assert len(info["reward_breakdown"]) == 14
        assert ("episode_stats" in info) == done
    told = info["episode_stats"]
    assert told["length"] == length == told["moves"] + told["siphons"] + told["programs"]
    assert told["total_reward"] == pytest.approx(total)
    assert told["died"]
    assert info["death"]
    assert told["reward_breakdown"]["damagePenalty"] <= -3
    game.reset()
    *_, info = game.step(27)
    assert info["invalid_action"]
    assert (info["episode_stats"]["length"], info["episode_stats"]["programs"]) == (1, 0)


def test_a_seed_decides_the_games_that_follow(game):
    def started(seed):
        return [game.reset(seed=seed)[0]["grid"], game.reset()[0]["grid"]]

    one, again, other = started(5), started(5), started(6)
    np.testing.assert_array_equal(one, again)
    assert (one[0] != one[1]).any()
    assert (one[0] != other[0]).any()


def test_a_position_is_set_up_as_the_protocol_does(game):
    seen, _ = game.set_state({"player": {"row": 1, "col": 2}, "stage": 3})
    assert seen["player"][:2].tolist() == pytest.approx([1 / 5, 2 / 5])
    assert game.get_internal_state()["scheduledTaskInterval"] == 10
    with pytest.raises(ConfigError, match=r"state\.stage is 9"):
        game.set_state({"player": {"row": 1, "col": 2}, "stage": 9})


def test_what_there_is_not_is_refused_by_name_and_the_rest_is_told(capsys):
    for name in ("visual", "debug_scenario"):
        with pytest.raises(ConfigError, match=f"^{name}=True: "):
            HackEnv(**{name: True})
    game = HackEnv(debug=True, info=True)
    with pytest.raises(RuntimeError, match="call reset"):
        game.step(0)
    game.reset(seed=0)
    game.step(3)
    told = capsys.readouterr()
    assert told.out == ""
    assert "action 3" in told.err
    assert "reward_breakdown" in told.err
