"""Each term of the evaluation by itself: a table in which only its row is 1."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games.hackmatrix.positions import block_of, daemon, data, glitch, position, transmission, virus

from hackmatrix_rl.games.hackmatrix import Content, GameConfig, Program, from_arrays
from hackmatrix_rl.search import (
    EvaluationWeights,
    WinWeights,
    heuristic,
    win_probability,
    win_terms,
)
from hackmatrix_rl.system.errors import ConfigError

pytestmark = pytest.mark.search

SIZES = {"max_enemies": 40, "max_transmissions": 40}
LEAGUES = {
    "original": GameConfig(**SIZES),
    "no-rewind": GameConfig(**SIZES, rewind_across_stages=False),
}
ROWS = list(EvaluationWeights.MEANING)
PICKUP = {"content": int(Content.PICKUP)}
WALL = data(9)


@pytest.fixture(scope="module")
def worth():
    """`evaluate` of one position with any number of tables, by league."""

    def of(config, position, numbers):
        each = jax.vmap(lambda row: heuristic(config, position, EvaluationWeights(row)))
        return each(numbers)

    return {league: jax.jit(partial(of, config)) for league, config in LEAGUES.items()}


def one(*arguments, **numbers):
    batch = from_arrays(LEAGUES["original"], position(*arguments, **numbers))
    return jax.tree.map(lambda leaf: leaf[0], batch).position


def terms(worth, found, league="original"):
    """What each row counts, where that is not 0."""
    counted = np.asarray(worth[league](found, jnp.eye(len(ROWS))))
    return {row: float(number) for row, number in zip(ROWS, counted, strict=True) if number}


def with_weights(worth, found, league="original", **numbers):
    table = dict.fromkeys(ROWS, 0.0) | numbers
    row = jnp.asarray([list(table.values())] + [[0.0] * len(ROWS)] * (len(ROWS) - 1), jnp.float32)
    return float(worth[league](found, row)[0])


def test_what_the_player_has(worth):
    found = one(
        (0, 0),
        hp=2,
        credits=4,
        energy=30,
        data_siphons=2,
        score=7,
        attack_damage=3,
        stage=3,
        turn=23,
        programs=[Program.ROW],
    )
    counted = terms(worth, found)
    ahead = {"exit_distance": 10, "line_of_fire": 10}
    assert counted == pytest.approx(
        {"hp_2": 1, "credit": 4, "energy": 20, "credits_root": 2, "energy_root": 30**0.5}
        | {"siphon": 2, "score": 7, "attack": 2, "stage": 3, "ROW": 1, "late": 3}
        | ahead
    )


def test_enemies_count_by_when_they_can_attack(worth):
    counted = terms(worth, one((0, 0), enemies=[daemon(0, 1), virus(1, 1)]))
    assert counted["threat"] == 2
    assert counted["more_threats"] == 1
    assert counted["threat_out_of_line"] == 1, "the virus stands diagonally"
    assert counted["hits"] == 3 + 2
    assert (counted["daemon"], counted["virus"]) == (1, 1)
    later = terms(worth, one((0, 0), enemies=[daemon(0, 1, stunned=1), daemon(3, 0)]))
    assert (later["two_turns_away"], later["two_turns_in_line"]) == (1, 1)
    assert later["three_turns_away"] == 1
    assert "threat" not in later


def test_only_a_glitch_walks_on_blocks_and_they_stop_the_line_of_fire(worth):
    walls = {(0, 1): WALL, (1, 1): WALL, (2, 0): WALL}
    enclosed = terms(worth, one((0, 0), cells=walls, enemies=[daemon(0, 2), virus(3, 0)]))
    assert enclosed["far"] == 2, "there is no way to the player"
    assert terms(worth, one((0, 0), cells=walls, enemies=[glitch(0, 1)]))["threat"] == 1
    counted = terms(worth, one((2, 2), transmissions=[transmission(2, 4), transmission(3, 3)]))
    assert (counted["transmission"], counted["transmission_in_line"]) == (2, 1)
    assert counted["line_of_fire"] == 10
    counted = terms(worth, one((2, 2), cells={(2, 3): WALL}, enemies=[virus(3, 2)]))
    assert counted["line_of_fire"] == 2 + 1 + 1 + 2


def test_the_way_to_exit_and_pickup_leads_around_blocks(worth):
    assert terms(worth, one((5, 3)))["exit_distance"] == 2
    around = {(5, 4): WALL, (4, 4): WALL}
    assert terms(worth, one((5, 3), cells=around))["exit_distance"] == 6
    enclosed = {(4, 5): WALL, (5, 4): WALL}
    assert terms(worth, one((5, 3), cells=enclosed))["exit_distance"] == 15
    counted = terms(worth, one((0, 0), cells={(0, 5): PICKUP, (5, 0): PICKUP}))
    assert (counted["pickup"], counted["pickup_distance"]) == (2, 5)
    assert counted["exit_distance"] == pytest.approx(1.5), "there is something to take first"


def test_a_siphon_is_planned_where_it_takes_the_most(worth):
    cells = {(2, 2): {"credits": 3}, (2, 4): {"energy": 2}, (0, 5): data(8)}
    weights = {"plan_resource": 1.0, "plan_distance": 0.25, "spawn": 0.5}
    found = one((2, 0), cells=cells, data_siphons=1)
    assert with_weights(worth, found, plan=2.0, **weights) == 2 * (5 - 3 * 0.25)
    points = {"plan_point": 1.0, "plan_distance": 0.5, "spawn": 0.25}
    best = 8 - 8 * 0.25 - 6 * 0.5
    assert with_weights(worth, found, plan=1.0, **points) == best
    none = one((2, 0), cells=cells)
    assert with_weights(worth, none, plan=2.0, plan_without_siphon=1.0, **weights) == 0


def test_programs_and_question_blocks_in_a_siphon(worth):
    cells = {
        (1, 2): block_of(Program.CRASH, 6),
        (3, 2): {"content": int(Content.HIDDEN_PROGRAM), "value": int(Program.UNDO)},
    }
    found = one((2, 2), cells=cells, data_siphons=1)
    assert with_weights(worth, found, plan=1.0, CRASH=9.0, spawn=0.5) == 9 - 3
    # Whatever the question block holds, it counts as one.
    assert with_weights(worth, found, plan=1.0, UNDO=50.0, plan_question=2.0) == 2
    owned = one((2, 2), cells=cells, data_siphons=1, programs=[Program.CRASH])
    assert with_weights(worth, owned, plan=1.0, CRASH=9.0) == 9, "that is its worth as owned"


def test_the_first_credit_counts_where_undo_lacks_it(worth):
    cells = {(2, 2): {"credits": 1}}
    owner = one((2, 2), cells=cells, data_siphons=1, programs=[Program.UNDO])
    assert with_weights(worth, owner, plan=1.0, plan_first_credit=6.0) == 6
    rich = one((2, 2), cells=cells, data_siphons=1, programs=[Program.UNDO], credits=1)
    assert with_weights(worth, rich, plan=1.0, plan_first_credit=6.0) == 0


def test_undo_walks_to_victory_only_across_stages_and_dead_is_the_worst(worth):
    found = one((5, 3), programs=[Program.UNDO], credits=1)
    assert terms(worth, found)["walk"] == 2
    assert "exit_distance" not in terms(worth, found)
    without = terms(worth, found, "no-rewind")
    assert "walk" not in without
    assert (without["undo_ready"], without["exit_distance"]) == (1, 2)
    assert with_weights(worth, one((0, 0), hp=0), stage=18.0) == -1000


def test_a_victory_is_likelier_with_more(worth):
    weights = WinWeights.shipped("original")
    chance = jax.jit(
        lambda p: win_probability(LEAGUES["no-rewind"], p, weights, started=jnp.bool_(True))
    )
    poor, rich, dead = (
        float(chance(one((0, 0), **numbers)))
        for numbers in ({"hp": 1}, {"attack_damage": 3, "credits": 9}, {"hp": 0})
    )
    assert 0 == dead < poor < rich < 1


def test_each_row_of_the_win_probability_weighs_what_it_says():
    owned = 1 << Program.RESET | 1 << Program.ROW | 1 << Program.COL
    numbers = {"hp": 2, "credits": 30, "energy": 10, "data_siphons": 2, "attack_damage": 3}
    given = numbers | {"stage": 4, "crowd": 7, "programs": owned}
    rows = win_terms(
        **{
            name: jnp.asarray(number, jnp.uint32 if name == "programs" else jnp.int32)
            for name, number in given.items()
        }
    )
    expected = dict.fromkeys(WinWeights.MEANING, 0.0) | {"stage_4": 1, "hp": -0.5, "credits": 3}
    expected |= {"energy": 2, "siphons": 2, "attack": 2, "crowd": 7, "RESET": 1, "ROW_or_COL": 2}
    assert dict(zip(WinWeights.MEANING, rows.tolist(), strict=True)) == expected


@pytest.mark.parametrize("league", LEAGUES)
def test_each_league_has_its_tables(league):
    evaluation, leaf = EvaluationWeights.shipped(league), WinWeights.shipped(league)
    assert evaluation.as_dict().keys() == EvaluationWeights.MEANING.keys()
    assert evaluation["stage"] == pytest.approx(evaluation.as_dict()["stage"])
    assert evaluation.as_dict()["hp_1"] < evaluation.as_dict()["hp_3"]
    assert leaf.as_dict()["attack"] > 0


def test_a_damaged_table_is_refused_by_name(tmp_path):
    table = dict.fromkeys(ROWS, 0.0)
    for changed, said in (
        (table | {"luck": 1.0}, "an unknown row 'luck'"),
        ({name: 0.0 for name in ROWS[1:]}, "no row 'hp_1'"),
        (table | {"hp_1": "much"}, "'hp_1' of evaluation is 'much'"),
    ):
        with pytest.raises(ConfigError, match=said):
            EvaluationWeights.from_numbers(changed)
    file = tmp_path / "weights.json"
    with pytest.raises(ConfigError, match="it does not exist"):
        EvaluationWeights.read(file)
    file.write_text("{}")
    with pytest.raises(ConfigError, match="no table 'evaluation'"):
        EvaluationWeights.read(file)
