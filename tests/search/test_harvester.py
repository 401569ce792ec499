"""The player that collects points: where it acts itself, and where its network plays."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from games.hackmatrix.positions import daemon, data, position, transmission
from games.hackmatrix.recordings import CONFIG

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS,
    Action,
    Content,
    Program,
    from_arrays,
    legal_actions,
)
from hackmatrix_rl.games.hackmatrix._history import remember
from hackmatrix_rl.runs import find_player
from hackmatrix_rl.search import Harvester
from hackmatrix_rl.system.errors import ConfigError

pytestmark = pytest.mark.search

ENVIRONMENT = HackMatrix(CONFIG, observation="tactical")
LAST = {"stage": 8, "data_siphons": 1, "hp": 3}
FULL_CROSS = {(4, 4): data(9)}
PICKUP = {"content": int(Content.PICKUP)}


class Favours(ActorCritic):
    """A network that wants one action above all."""

    logits: jax.Array

    def __call__(self, observation, carry):
        return self.logits, jnp.float32(0), carry


@eqx.filter_jit
def _play(player, game):
    return player.act(game, legal_actions(CONFIG, game), (), key=jax.random.key(0))[0]


def _act(network, game):
    logits = jnp.zeros(NUM_ACTIONS).at[int(network)].set(50.0)
    return int(_play(Harvester(ENVIRONMENT, PolicyAgent(Favours(logits))), game))


def acts(*, network=Action.LEFT, **given):
    """The action in a position by hand, if the network wants `network`."""
    game = jax.tree.map(lambda leaf: leaf[0], from_arrays(CONFIG, position(**given)))
    return _act(network, game)


def test_it_walks_to_the_best_cross_and_siphons_it():
    # Both centres beside the exit are worth the same; the one on the player's row is nearer.
    assert acts(player=(5, 0), cells=FULL_CROSS, **LAST) == Action.RIGHT
    beside = {"player": (4, 5), "cells": FULL_CROSS}
    assert acts(**beside, **LAST) == Action.SIPHON
    spent = LAST | {"data_siphons": 0}
    program = {"programs": [Program.SIPH_PLUS], "credits": 9}
    assert acts(**beside, **spent, **program) == Action.SIPH_PLUS
    beside["cells"] = FULL_CROSS | {(3, 5): PICKUP}
    assert acts(network=Action.UP, **beside, **spent) == Action.DOWN


@pytest.mark.parametrize(
    "change",
    [
        {"stage": 7},
        {"hp": 1},
        {"enemies": [daemon(5, 0)]},
        {"transmissions": [transmission(5, 0)]},
        {"cells": {(4, 4): data(1)}},
        {"data_siphons": 0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_network_plays_where_there_is_nothing_to_collect_or_danger(change):
    given = {"player": (0, 1), "cells": FULL_CROSS, **LAST} | change
    assert acts(network=Action.UP, **given) == Action.UP


def test_it_stays_while_points_are_left():
    beside = {"player": (5, 4), "enemies": [daemon(0, 0)], **LAST}
    assert acts(network=Action.RIGHT, **beside) == Action.RIGHT
    assert acts(network=Action.RIGHT, cells=FULL_CROSS, **beside) != Action.RIGHT
    spent = beside | {"data_siphons": 0}
    assert acts(network=Action.RIGHT, cells=FULL_CROSS, **spent) == Action.RIGHT


@pytest.mark.parametrize(("hp", "score", "undoes"), [(3, 5, False), (1, 5, True), (3, 2, True)])
def test_undo_takes_back_no_points_unless_life_is_short(hp, score, undoes):
    given = position(programs=[Program.UNDO], credits=9, score=score, hp=hp, stage=3)
    game = jax.tree.map(lambda leaf: leaf[0], from_arrays(CONFIG, given))
    earlier = eqx.tree_at(lambda p: p.player.score, game.position, jnp.int32(2))
    history = remember(game.history, earlier, push=jnp.bool_(True), pop=jnp.bool_(False))
    game = eqx.tree_at(lambda game: game.history, game, history)
    assert (_act(Action.UNDO, game) == Action.UNDO) == undoes


@pytest.mark.parametrize("inner", ["pretrained", "expert", "runner", "search(expert, 30)"])
def test_it_goes_with_any_player(inner):
    player, environment = find_player(f"harvest({inner})", league="no-rewind")
    assert isinstance(player, Harvester)
    assert not environment.config.rewind_across_stages
    game = from_arrays(environment.config, position(player=(5, 0), cells=FULL_CROSS, **LAST))
    one = jax.tree.map(lambda leaf: leaf[0], game)
    mask, act = legal_actions(environment.config, one), partial(player.act, key=jax.random.key(0))
    shape, _ = jax.eval_shape(act, one, mask, player.initial_carry())
    assert shape.shape == ()
    if inner == "runner":  # the others take long to compile, and it walks as without them
        assert act(one, mask, player.initial_carry())[0] == Action.RIGHT


def test_bad_names_say_what_to_write():
    nested = "harvest(" * 400 + "pretrained" + ")" * 400
    for name in ("harvest", "harvest()", "harvest( )", "harvest(pretrained", nested):
        with pytest.raises(ConfigError, match=r"harvest\(pretrained\)"):
            find_player(name)
    with pytest.raises(ConfigError, match="no checkpoint"):
        find_player("harvest(nothing)")
