"""The expert that plays for the return: what points are worth to it, and what it takes back."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games.hackmatrix.positions import daemon, data, position
from games.hackmatrix.recordings import CONFIG

from hackmatrix_rl.evaluation import check_player
from hackmatrix_rl.games.hackmatrix import Action, Content, legal_actions
from hackmatrix_rl.runs import find_player
from hackmatrix_rl.search import ReturnExpert, ReturnWeights, heuristic
from hackmatrix_rl.system.errors import ConfigError

from .hidden import look_alikes
from .test_players import OWNER, with_snapshots

pytestmark = pytest.mark.search

LEAGUES = {"original": CONFIG, "no-rewind": dataclasses.replace(CONFIG, rewind_across_stages=False)}
NOTHING = dict.fromkeys(ReturnWeights.MEANING, 0.0)
PICKUP = {"content": int(Content.PICKUP)}


game = partial(with_snapshots, CONFIG)


@pytest.fixture(scope="module")
def worth():
    """What a position is worth with a table that is 0 but for these numbers, by league."""

    def of(config, found, numbers):
        return heuristic(config, found, ReturnWeights(numbers))

    compiled = {league: jax.jit(partial(of, config)) for league, config in LEAGUES.items()}

    def value(found, league="original", **numbers):
        row = jnp.asarray(list((NOTHING | numbers).values()), jnp.float32)
        return float(compiled[league](game(now=found).position, row))

    return value


def test_points_count_where_they_will_be_paid(worth):
    paid = {"score_ready": 1.0, "score_last": 4.0}
    for stage, each in ((1, 0), (7, 0), (8, 4)):
        assert worth(position(score=7, stage=stage), **paid) == 7 * each
    ready = position(score=7, stage=2, **OWNER)
    assert worth(ready, ready_hp=2.0, **paid) == 1000 + 7 + 3 * 2
    assert worth(ready, "no-rewind", ready_hp=2.0, **paid) == 0


def test_a_harvest_is_planned_by_points_way_and_crowd(worth):
    """A cross of 6 points around (2, 3): three steps from the player, five from the exit."""
    cells = {(2, 4): data(6)}
    plan = {"score_last": 1.0, "harvest_plan": 1.0}
    last = {"stage": 8, "data_siphons": 1, "cells": cells}
    found = position((2, 0), **last)
    assert worth(found, **plan) == 6
    assert worth(found, harvest_step=0.5, **plan) == 6 - 3 * 0.5
    assert worth(found, harvest_exit_step=0.25, **plan) == 6 - 3 * 0.25, "of (3, 4) or (2, 5)"
    assert worth(position((2, 0), hp=1, **last), **plan) == 0, "with 1 hp it does not stay"
    assert worth(position((2, 0), **last | {"stage": 5}), **plan) == 0
    crowded = position((2, 0), enemies=[daemon(5, 0), daemon(4, 0)], **last)
    assert worth(crowded, harvest_crowd=1.0, **plan) == 6 - 2
    assert worth(crowded, harvest_flight=0.1, **plan) == pytest.approx(6 - 2 * 8 * 0.1)


def test_a_harvest_fetches_data_siphons(worth):
    cells = {(2, 4): data(6), (0, 0): PICKUP}
    numbers = {"score_last": 1.0, "harvest_plan": 1.0, "harvest_plan_without": 0.5}
    fetch = {"harvest_pickup": -1.0, "harvest_pickup_distance": -0.25}
    found = {"stage": 8, "cells": cells}
    assert worth(position((2, 0), **found), **numbers, **fetch) == 0.5 * 6 - 1 - 2 * 0.25
    one = position((2, 0), data_siphons=1, **found)
    assert worth(one, harvest_siphon=2.0, **numbers, **fetch) == 6 - 1 - 2 * 0.25 + 2
    none = position((2, 0), stage=8, cells={(0, 0): PICKUP})
    assert worth(none, **numbers, **fetch) == 0, "there is nothing to siphon"


NUMBERS = {"score_last": 5.0, "harvest_plan": 0.5, "victory": 10.0, "hp_2": -10.0, "hp_1": -30.0}
NUMBERS |= {"margin": 5.0, "margin_best": 1e6, "harvest_walk": -1.0, "exit_distance": -1.0}


@pytest.fixture(scope="module")
def thinks():
    """The action of a player with the table `NUMBERS`, what it remembers, and its values."""

    @jax.jit
    def think(state, numbers, carry, seed):
        player = ReturnExpert(CONFIG, ReturnWeights(numbers))
        mask = legal_actions(CONFIG, state)
        return player.think(state, mask, carry, key=jax.random.key(seed))

    begin = ReturnExpert(CONFIG).initial_carry()

    def of(state, carry=begin, *, seed=0, **numbers):
        table = ReturnWeights.from_numbers(NOTHING | NUMBERS | numbers)
        action, carry, thought = think(state, table.numbers, carry, seed)
        return Action(int(action)), carry, np.asarray(thought.search_values)

    return of


def test_it_siphons_before_it_wins(thinks):
    beside = {"stage": 8, "cells": {(4, 4): data(6)}}
    full = game(now=position((4, 5), data_siphons=1, **beside))
    assert thinks(full)[0] == Action.SIPHON
    empty = game(now=position((4, 5), **beside))
    assert thinks(empty)[0] == Action.UP, "onto the exit"


def test_what_cost_hp_is_taken_back_by_two_undos_and_not_tried_again(thinks):
    whole = position((2, 2), hp=3, turn=4, **OWNER)
    hurt = position((2, 3), hp=2, turn=5, **OWNER)
    calm, carry, _ = thinks(game(whole, now=whole))
    assert calm != Action.UNDO
    for history in ((whole, hurt), (whole,)):
        action, carry, _ = thinks(game(*history, now=hurt), carry)
        assert action == Action.UNDO
    again, carry, _ = thinks(game(now=whole), carry)
    assert again not in (calm, Action.UNDO)
    assert thinks(game(now=whole), carry)[0] == calm, "it remembers it for one action"


def test_after_six_undos_it_moves(thinks):
    whole, hurt = (position((2, 2), hp=hp, turn=4, **OWNER) for hp in (3, 2))
    state = game(whole, now=hurt)
    action, carry, _ = thinks(state)
    actions = [action]
    for _ in range(7):
        action, carry, _ = thinks(state, carry)
        actions.append(action)
    assert [action == Action.UNDO for action in actions] == [True] * 6 + [False, True]


@pytest.mark.parametrize(
    ("numbers", "retreats"),
    [
        ({"sortie_gain": 1e6}, True),
        ({"sortie_gain": -1e6}, False),
        ({"sortie_gain": -1e6, "sortie_hp": 3.5}, True),
    ],
)
def test_a_new_stage_is_played_if_it_is_worth_more_than_the_board_before(thinks, numbers, retreats):
    old = position((4, 5), turn=9, **OWNER)
    new = position((5, 5), exit=(0, 0), stage=3, enemies=[daemon(0, 0)], **OWNER)
    action, carry, _ = thinks(game(old, now=new), **numbers)
    assert (action == Action.UNDO) == retreats
    if retreats:  # the old board is back, with an older snapshot
        home = position((4, 5), exit=(0, 0), turn=9, stage=3, cells=OLD_EXIT, **OWNER)
        action, carry, _ = thinks(game(now=home), carry, **numbers)
        assert action == Action.UP
        assert carry.since == -1


OLD_EXIT = {(5, 5): {"content": int(Content.EXIT)}, (0, 0): {}}


def test_the_way_back_is_used_before_it_is_forgotten(thinks):
    """With room for 3 snapshots left, going on must be worth more by `sortie_commit`."""
    old = position((4, 5), turn=9, **OWNER)
    numbers = {"sortie_gain": -1e6, "sortie_commit": 1e6, "margin": 1e6}
    carry = None
    for turn in range(CONFIG.history - 2):
        now = position((3, 3), exit=(0, 0), stage=3, turn=turn, **OWNER)
        state = game(old, *[now] * turn, now=now)
        told = {} if carry is None else {"carry": carry}
        action, carry, _ = thinks(state, **told, **numbers)
        assert carry.since == turn
        assert (action == Action.UNDO) == (turn == CONFIG.history - 3)


def test_with_1_hp_the_worse_of_two_draws_counts(thinks):
    """A question block holds 1 to 9 points or a program: 2.5 points, 0.9 in the worse of two."""
    question = {(2, 3): {"content": int(Content.HIDDEN_DATA), "value": 9, "spawn_count": 9}}
    zero = dict.fromkeys(NUMBERS, 0.0) | {"score_last": 1.0}

    def points(hp):
        now = position((2, 2), stage=8, hp=hp, data_siphons=1, cells=question)
        found = [thinks(game(now=now), seed=seed, **zero)[2][Action.SIPHON] for seed in range(64)]
        return np.mean(found)

    assert 1.8 < points(3) < 3.2
    assert 0.4 < points(1) < 1.5


def test_it_knows_nothing_unseen_and_plays_by_name(thinks):
    for league in LEAGUES:
        player, environment = find_player("expert@return", league=league)
        assert isinstance(player, ReturnExpert)
        assert environment.config.league == player.config.league == league
        check_player(player, environment)
    numbers = player.weights.as_dict()
    found = [thinks(game(now=each), **numbers)[2] for each in look_alikes()]
    for other in found[1:]:
        assert np.array_equal(found[0], other, equal_nan=True)
    redrawn = thinks(game(now=look_alikes()[0]), seed=1, **numbers)[2]
    assert not np.array_equal(found[0], redrawn, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("expert@2", "expert@2: no checkpoint there, nor a player of that name. Use random"),
        ("search(expert@return, 30)", "expert@return plays no imagined games. Write"),
    ],
)
def test_an_expert_that_there_is_not_is_refused(name, said):
    with pytest.raises(ConfigError, match=said):
        find_player(name)
