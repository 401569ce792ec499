"""Replays of chosen games of an evaluation."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.evaluation import Evaluation, Runner, evaluate
from hackmatrix_rl.games.hackmatrix import RewardConfig
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import Replay, choose_games, parse_choice, replays_of

pytestmark = pytest.mark.view

KEY = jax.random.key(3)
ALL = "best:2,worst:2,median:1,random:2,won:1,lost:1"


@pytest.fixture(scope="module")
def environment():
    """Games that are cut off, of other sizes than usual, and with another reward."""
    sizes = hm.GameConfig(max_enemies=20, max_transmissions=16, history=8)
    return hm.HackMatrix(sizes, max_steps=60, reward=RewardConfig(victory=0.1, step_penalty=3.0))


@pytest.fixture(scope="module")
def found(environment):
    return evaluate(Runner(), environment, episodes=12, key=KEY, num_envs=8, record=True)


def known(returns, won=None):
    """An evaluation with these returns."""
    values = {
        "return": np.array(returns, np.float32),
        "stage": np.arange(1, len(returns) + 1, dtype=np.float32),
        "won": np.zeros(len(returns)) if won is None else np.array(won),
    }
    return Evaluation(episodes=len(returns), values=values, unfinished=0)


def games(evaluation, choice):
    return [each.game for each in choose_games(evaluation, choice)]


def test_each_game_ends_as_in_the_evaluation(found, environment, tmp_path):
    names = set()
    chosen = replays_of(found, environment, key=KEY, choice=ALL, player="runner")
    for (name, match, replay), each in zip(chosen, choose_games(found, ALL), strict=True):
        assert name == each.name
        names.add(name.partition("_")[0])
        assert replay.actions == match.actions
        assert len(replay.actions) == found.values["length"][each.game]
        assert replay.stage == found.values["stage"][each.game]
        assert replay.score == found.values["score"][each.game]
        assert replay.total_reward == pytest.approx(found.values["return"][each.game], abs=1e-3)
        assert (replay.player, replay.max_steps) == ("runner", 60)
        assert replay.end in ("died", "cut off")
        replay.save(tmp_path / "game.json")
        assert Replay.load(tmp_path / "game.json").match().actions == replay.actions
    assert names == {"best-1", "best-2", "worst-1", "worst-2", "median-1", "random-1", "random-2",
                     "lost-1"}  # fmt: skip
    assert not np.array_equal(found.values["return"], found.values["learned_return"])


def test_games_are_chosen_by_return():
    evaluation = known([3.0, 1.0, 2.0, 5.0, 4.0], won=[0, 1, 0, 1, 0])
    assert games(evaluation, "best:2") == [3, 4]
    assert games(evaluation, "worst:2") == [1, 2]
    assert games(evaluation, "median:1") == [0]
    assert sorted(games(evaluation, "median:3")) == [0, 2, 4]
    assert games(evaluation, "won:3") == [1, 3]
    assert games(evaluation, "lost:9") == [0, 2, 4]
    assert sorted(games(evaluation, "random:5")) == [0, 1, 2, 3, 4]
    assert games(evaluation, "best:1, worst:1") == [3, 1]


def test_the_names_tell_what_to_see():
    names = [each.name for each in choose_games(known([9.456, -0.25]), "best:1,worst:1")]
    assert names == ["best-1_return-9.46_stage-1", "worst-1_return--0.25_stage-2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "nothing is not understood"),
        ("best", "best is not understood"),
        ("best:0", "best:0 is not understood"),
        ("best:-1", "best:-1 is not understood"),
        ("best:many", "best:many is not understood"),
        ("finest:3", "finest:3 is not understood; write a kind of game (best, worst, median"),
        ("best:5,", "nothing is not understood"),
        ("best:5,best:6", "best is given twice"),
        ("best:999,worst:2", "1,001 replays are too many; use 1,000 at most"),
        ("best:99999999999999999999", "is not understood"),
    ],
)
def test_anything_else_is_refused(text, said):
    with pytest.raises(ConfigError) as refused:
        parse_choice(text)
    assert said in str(refused.value)


def test_another_game_is_noticed(found, environment):
    with pytest.raises(ConfigError, match=r"is not legal here|ends differently|the game has ended"):
        list(replays_of(found, environment, key=jax.random.key(4), choice="best:12"))
    changed = {**found.values, "score": found.values["score"] + 1}
    with pytest.raises(ConfigError, match=r"best-1_return.*ends differently.*score"):
        list(replays_of(replace(found, values=changed), environment, key=KEY))
    with pytest.raises(ValueError, match="record=True"):
        list(replays_of(replace(found, actions=None), environment, key=KEY))
    with pytest.raises(TypeError, match=r"replays are of hm\.HackMatrix"):
        list(replays_of(found, CartPole(), key=KEY))
