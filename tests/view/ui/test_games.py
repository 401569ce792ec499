"""The games of an agent in any environment: each is that of `watch` and `evaluate`."""

import json

import jax
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.evaluation import RandomAgent
from hackmatrix_rl.view.replays import recorded, recording_data
from hackmatrix_rl.view.ui import Games

pytestmark = pytest.mark.view

ENV = hm.CartPole(max_steps=30)


def test_the_games_of_a_seed_follow_each_other_and_another_seed_begins_anew():
    def game(seed, number):
        whole = recorded(RandomAgent(), ENV, jax.random.key(seed), game=number, name="random")
        return {**recording_data(whole), "which": f"seed {seed}, game {number}"}

    said = []
    games = Games(RandomAgent(), ENV, name="random", seed=3, say=said.append)
    games.warm_up()
    assert games.state() == game(3, 0)
    assert games.next_game() == games.state() == game(3, 1)
    assert games.new(seed=7) == game(7, 0)
    assert games.moves == len(games.state()["moments"]) - 1
    assert games.new(seed=None)["which"].endswith(", game 0")
    assert "random plays: step 2" in said
    assert json.loads(json.dumps(games.state(), allow_nan=False)) == games.state()
