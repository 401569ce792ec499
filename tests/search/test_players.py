"""The expert and the search: legal, fair, and named."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games.hackmatrix.positions import position, virus
from games.hackmatrix.recordings import CONFIG, load, rows

from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import check_player
from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS,
    Action,
    Content,
    GameConfig,
    Program,
    from_arrays,
    legal_actions,
)
from hackmatrix_rl.games.hackmatrix._history import remember
from hackmatrix_rl.runs import find_player
from hackmatrix_rl.search import Expert, Guide, RolloutSearch, Searcher
from hackmatrix_rl.search._expert import undoes
from hackmatrix_rl.system.batching import Chance
from hackmatrix_rl.system.errors import ConfigError

from .hidden import look_alikes

pytestmark = pytest.mark.search

NO_REWIND = dataclasses.replace(CONFIG, rewind_across_stages=False)
GAMES = 32
QUESTION = {"content": int(Content.HIDDEN_DATA), "value": 9, "spawn_count": 9}


def thinks(player):
    """What a player chooses and finds in each game of a batch, compiled once."""

    @jax.jit
    def of(games, seed):
        def one(game, key):
            mask = legal_actions(player.config, game)
            action, _, thought = player.think(game, mask, (), key=key)
            return action, mask, thought

        keys = jax.random.split(jax.random.key(seed), games.position.stage.shape[0])
        return jax.vmap(one)(games, keys)

    return of


@pytest.fixture(scope="module")
def expert():
    return thinks(Expert(CONFIG))


def batch(*found):
    """Positions one after another, the last one repeated."""
    games = [from_arrays(CONFIG, each) for each in found]
    games += [games[-1]] * (GAMES - len(games))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *games)


def test_the_expert_plays_only_legal_actions_and_the_best_it_found(expert):
    recorded = load("undo").before
    some = np.linspace(0, len(recorded["player"]) - 1, GAMES).astype(int)
    action, mask, thought = map(
        jax.device_get, expert(from_arrays(CONFIG, rows(recorded, some)), 1)
    )
    games = np.arange(GAMES)
    assert np.all(mask[games, action])
    tried = mask & (np.arange(NUM_ACTIONS) != Action.UNDO)
    values = thought.search_values
    assert np.array_equal(~np.isnan(values), tried)
    best = np.where(tried, values, -np.inf).max(axis=1)
    assert np.all((values[games, action] == best) | (action == Action.UNDO))


def test_the_expert_knows_nothing_unseen(expert):
    found = [expert(batch(game), 0) for game in look_alikes()]
    for other in found[1:]:
        assert np.array_equal(found[0][0], other[0])
        assert np.array_equal(found[0][2].search_values, other[2].search_values, equal_nan=True)
    assert len(set(np.asarray(found[0][2].search_values)[:, Action.SIPHON])) > 1, "it draws anew"


def test_the_expert_takes_what_is_there(expert):
    """It completes a stage beside the exit, and hits a virus that kills it elsewhere."""
    beside = position((5, 4), credits=2)
    threatened = position((2, 2), hp=1, enemies=[virus(2, 3, hp=1)])
    action, _, _ = expert(batch(beside, threatened), 0)
    assert action[0] == Action.RIGHT
    assert action[1] == Action.RIGHT


def with_snapshots(config, *found, now):
    """A game with these positions as its snapshots, the newest last."""
    game = jax.tree.map(lambda leaf: leaf[0], from_arrays(config, now))
    history, yes, no = game.history, jnp.bool_(True), jnp.bool_(False)
    for each in found:
        past = jax.tree.map(lambda leaf: leaf[0], from_arrays(config, each)).position
        history = remember(history, past, push=yes, pop=no)
    return type(game)(game.position, history)


@pytest.fixture(scope="module")
def undo_rules():
    """Whether UNDO is played, for eight keys, by league."""

    def rule(config, game):
        def one(seed):
            mask = legal_actions(config, game)
            return undoes(config, game, mask, chance=Chance(seed, seed))

        return jax.vmap(one)(jnp.arange(64, dtype=jnp.uint32))

    return {each.league: jax.jit(partial(rule, each)) for each in (CONFIG, NO_REWIND)}


OWNER = {"programs": [Program.UNDO], "credits": 1}


def test_undo_at_the_start_of_a_stage_is_for_one_league(undo_rules):
    old = position((4, 5), turn=9, **OWNER)
    game = with_snapshots(CONFIG, old, now=position((5, 5), exit=(0, 0), stage=2, **OWNER))
    assert undo_rules["original"](game).all()
    assert not undo_rules["no-rewind"](game).any()


def test_damage_is_taken_back_while_undo_lasts(undo_rules):
    hurt = position((2, 2), hp=2, turn=5, **OWNER)
    whole = position((2, 3), hp=3, turn=4, **OWNER)
    poor = position((2, 3), hp=3, turn=4, programs=[Program.UNDO])
    for league, rule in undo_rules.items():
        share = rule(with_snapshots(CONFIG, whole, hurt, now=hurt)).mean()
        assert 0.6 < share < 1, f"seven times in eight in {league}"
        assert not rule(with_snapshots(CONFIG, poor, hurt, now=hurt)).any()
        assert not rule(with_snapshots(CONFIG, hurt, hurt, now=hurt)).any()
        assert 0.6 < rule(with_snapshots(CONFIG, whole, now=hurt)).mean() < 1


class Known(Guide):
    """Every action has a known chance of victory; SIPHON is the best after the first look."""

    config: GameConfig = eqx.field(static=True, default=CONFIG)

    def prefer(self, position, legal, *, chance):
        return -0.01 * jnp.abs(jnp.arange(NUM_ACTIONS) - Action.DOWN).astype(jnp.float32)

    def roll_out(self, position, action, wanted, *, chance):
        return jnp.where(action == Action.SIPHON, 0.8, 0.3) + 0.01 * action.astype(jnp.float32)

    def leaf_value(self, position):
        return jnp.float32(0.125)


@pytest.fixture(scope="module")
def search():
    return thinks(RolloutSearch(Known(), 31))


def test_the_search_shares_its_rollouts_among_the_best_few(search):
    found = position((2, 2), data_siphons=1, credits=9, energy=9, programs=list(Program))
    action, mask, thought = search(batch(found), 0)
    assert np.all(np.asarray(action) == Action.SIPHON)
    visits, values = np.asarray(thought.search_visits), np.asarray(thought.search_values)
    assert np.all(visits.sum(axis=1) == 30)
    assert np.all(visits.argmax(axis=1) == Action.SIPHON)
    assert np.all((visits > 0).sum(axis=1) == 5)
    assert np.array_equal(np.flatnonzero(visits[0]), range(5)), "the best by the first opinion"
    assert np.array_equal(np.isnan(values), visits == 0)
    assert values[0, Action.SIPHON] == pytest.approx(0.84)
    assert thought.win_probability[0] == pytest.approx(0.84)
    assert np.asarray(mask)[0].sum() > 10


class Luck(Guide):
    """What a rollout is worth is drawn, whatever the action."""

    config: GameConfig = eqx.field(static=True)

    def prefer(self, position, legal, *, chance):
        return jnp.zeros(NUM_ACTIONS, jnp.float32)

    def roll_out(self, position, action, wanted, *, chance):
        return (chance.bits() >> jnp.uint32(8)).astype(jnp.float32) / 2**24

    def leaf_value(self, position):
        return jnp.float32(0)


def test_actions_are_compared_with_the_same_luck():
    found = position((2, 2), data_siphons=1, credits=9, energy=9, programs=list(Program))
    game = jax.tree.map(lambda leaf: leaf[0], from_arrays(CONFIG, found))
    player = RolloutSearch(Luck(CONFIG), 30)
    mask = legal_actions(CONFIG, game)
    _, _, thought = jax.jit(lambda key: player.think(game, mask, (), key=key))(jax.random.key(1))
    visits, values = np.asarray(thought.search_visits), np.asarray(thought.search_values)
    # Ten seats make two rows of five actions; the two that are dropped then have seen the same.
    first, second = values[visits == 2]
    assert first == second
    assert 0 < first < 1


def test_a_forced_move_needs_no_rollouts(search):
    walls = {(0, 1): QUESTION}
    action, mask, thought = search(batch(position((0, 0), cells=walls)), 0)
    assert np.asarray(mask)[0].sum() == 1
    assert np.all(np.asarray(action) == Action.UP)
    assert not np.asarray(thought.search_visits).any()
    assert thought.win_probability[0] == 0.125


def test_names():
    player, environment = find_player("expert", league="no-rewind")
    assert isinstance(player, Expert)
    assert environment.config.league == player.config.league == "no-rewind"
    check_player(player, environment)
    with pytest.raises(ValueError, match="but the environment's is"):
        check_player(player, HackMatrix())
    for name, rollouts in (
        ("search(expert)", 30),
        ("search(expert, 100)", 100),
        ("search (expert,15)", 15),
    ):
        player, _ = find_player(name)
        assert isinstance(player, RolloutSearch)
        assert player.rollouts == rollouts


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("search", 'not a search. Write "search(expert, 30)"'),
        ("search(expert", "not a search"),
        ("search(expert, 30, 2)", "not a search"),
        ("search(runner)", "runner plays no imagined games"),
        ("search(nobody, 30)", "nobody: no checkpoint there"),
        ("search(expert, 3)", "within 15..10000, not 3"),
        ("search(expert, many)", "within 15..10000, not many"),
        ("search(expert, 1e9)", "within 15..10000, not 1e9"),
    ],
)
def test_a_search_that_there_is_not_is_refused(name, said):
    with pytest.raises(ConfigError) as caught:
        find_player(name)
    assert said in str(caught.value)
    assert str(caught.value).startswith(name if "nobody" not in name else "nobody")


def test_a_trained_network_searches_in_trees():
    player, environment = find_player("pretrained", simulations=8)
    assert isinstance(player, Searcher)
    check_player(player, environment)
    assert player.search.trees.simulations * player.search.determinisations == 8
    assert player.gamma == find_player("pretrained")[0].gamma
    assert player.search.trees.improvement.scale.mean > 0, "the units of its training"


@pytest.mark.parametrize("rollouts", [14, 0, -30])
def test_too_few_rollouts_are_refused(rollouts):
    with pytest.raises(ValueError, match="rollouts must be an integer of at least 15"):
        RolloutSearch(Known(), rollouts)
