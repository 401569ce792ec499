"""A journal holds the games of an evaluation, and findings count what happened in them."""

import dataclasses

import jax
import numpy as np
import pytest
from games.hackmatrix.positions import data, position
from games.hackmatrix.recordings import CONFIG

from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import BINS, Journal, Moves, RandomAgent, evaluate, find, keep_journal
from hackmatrix_rl.evaluation._journal import points_near_exit
from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    SIPHON,
    EnemyType,
    Program,
    RewardConfig,
    from_arrays,
)

pytestmark = pytest.mark.view

UNDO = FIRST_PROGRAM + Program.UNDO


def test_the_games_are_those_of_an_evaluation():
    halved = RewardConfig(**{each.name: 0.5 for each in dataclasses.fields(RewardConfig)})
    environment, key = HackMatrix(max_steps=60, reward=halved), jax.random.key(5)
    told = []
    journal = keep_journal(
        RandomAgent(),
        environment,
        games=6,
        key=key,
        num_envs=4,
        on_progress=lambda done, games: told.append((done, games)),
    )
    found = evaluate(RandomAgent(), environment, episodes=6, key=key, num_envs=4)
    assert np.bincount(journal.game).tolist() == found.values["length"].tolist()
    returns = np.bincount(journal.game, weights=np.asarray(journal.moves.reward))
    np.testing.assert_allclose(returns, found.values["return"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        journal.moves.learned_reward, np.asarray(journal.moves.reward) / 2, rtol=1e-4, atol=1e-4
    )
    assert (told[0], told[-1]) == ((0, 6), (6, 6))
    assert not journal.won.any()
    first = np.append(0, np.asarray(journal.last)[:-1] + 1)
    # Stage 1 begins with one transmission and no enemy.
    assert (np.asarray(journal.moves.crowd)[first] == 1).all()
    assert (np.asarray(journal.moves.attack_damage)[first] == 1).all()
    # What one move leaves, the next one finds.
    moves = journal.moves
    goes_on = np.diff(journal.game) == 0
    for name in ("hp", "credits", "energy"):
        before = np.asarray(getattr(moves, name))
        change = np.asarray(getattr(moves, f"{name}_change"))
        assert (before[:-1] + change[:-1])[goes_on].tolist() == before[1:][goes_on].tolist()
    before, change = np.asarray(moves.hp), np.asarray(moves.hp_change)
    died = np.flatnonzero(np.asarray(moves.died))
    assert (before[died] + change[died] == 0).all()
    assert (np.asarray(moves.attackers)[died].sum(axis=1) > 0).all()


def made_up(*games, **columns):
    """A journal of games with so many moves; columns not given are 0."""
    count = sum(games)
    filled = {
        each.name: np.zeros((count, len(EnemyType)) if each.name == "attackers" else count, int)
        for each in dataclasses.fields(Moves)
    }
    filled |= {"stage": np.ones(count, int), "hp": np.full(count, 3)}
    filled |= {name: np.full(count, np.nan) for name in ("value", "win_probability")}
    filled |= {name: np.zeros(count, bool) for name in ("completed", "won", "died", "new_stage")}
    filled |= {name: np.zeros(count) for name in ("reward", "learned_reward")}
    for name, values in columns.items():
        filled[name] = np.asarray(values).astype(filled[name].dtype)
    return Journal(
        games=len(games),
        moves=Moves(**filled),
        game=np.repeat(np.arange(len(games)), games),
        last=np.cumsum(games) - 1,
    )


def test_points_are_told_by_stage_with_what_was_left_behind():
    journal = made_up(
        4, 2,
        stage=[1, 1, 2, 2, 1, 1], points=[3, 4, 5, -2, 1, 0], completed=[0, 1, 0, 0, 0, 1],
        data_siphons=[2, 1, 3, 3, 0, 2], points_left=[0, 6, 0, 0, 0, 3],
    )  # fmt: skip
    found = find(journal)
    assert found.score.mean == 5.5
    first, second = found.points
    assert (first.stage, first.gained, first.siphons_held, first.left) == (1, 4.0, 1.5, 4.5)
    assert (second.stage, second.gained) == (2, 3.0)
    assert np.isnan(second.left)


def test_a_cross_counts_as_left_behind_near_the_exit_only():
    # From the exit, (4, 3) is three steps away, and (1, 1) eight.
    near = {(3, 3): data(5), (5, 3): data(3)}
    far = {(0, 1): data(9), (1, 0): data(9)}
    walled = {(4, 5): data(1), (5, 4): data(2)}

    def left(cells):
        board = from_arrays(CONFIG, position((2, 5), exit=(5, 5), cells=cells))
        return int(jax.vmap(points_near_exit)(board.position)[0])

    assert left(near) == left(near | far) == 8
    assert left(far) == 0
    assert left(near | walled) == 3, "only the exit itself is near"


def test_stages_are_counted_by_game_and_causes_of_death_by_attackers_and_siphon():
    journal = made_up(
        3, 2,
        stage=[1, 1, 2, 1, 1], hp=[3, 2, 3, 3, 1],
        completed=[0, 1, 0, 0, 0], died=[0, 0, 1, 0, 1],
        reward=[1.0, 2.0, 3.0, 4.0, 5.0],
    )  # fmt: skip
    found = find(journal)
    first, second = found.stages
    assert (first.reached, first.completed.mean, first.deaths, first.moves) == (2, 0.5, 1, 2.0)
    assert (second.reached, second.completed.mean, second.deaths, second.hp) == (1, 0.0, 1, 3.0)
    assert found.total_reward.mean == 7.5
    assert found.won.mean == 0
    attackers = np.zeros((4, 4), int)
    attackers[1] = [2, 1, 0, 0]
    attackers[3] = [0, 0, 0, 1]
    journal = made_up(
        2, 2,
        action=[SIPHON, 0, 0, 0], died=[0, 1, 0, 1], attackers=attackers, from_siphon=[0, 3, 0, 0],
    )  # fmt: skip
    causes = {each.attackers: each for each in find(journal).causes}
    assert causes.keys() == {"2 virus, daemon", "cryptog"}
    siphoned = causes["2 virus, daemon"]
    assert (siphoned.share, siphoned.after_siphon, siphoned.from_siphon) == (0.5, 1.0, 1.0)
    assert causes["cryptog"].after_siphon == 0.0


def test_tools_are_judged_by_what_follows_in_the_same_game():
    journal = made_up(
        3, 2,
        action=[SIPHON, 0, 0, UNDO, 0], won=[0, 0, 0, 0, 1], died=[0, 0, 1, 0, 0],
        hp_change=[0, -1, -2, 0, 1], kills=[1, 0, 0, 0, 0], called=[4, 0, 0, 0, 0],
        points=[5, 0, 0, 0, 0], credits_change=[3, -9, 0, 0, 0], energy_change=[2, 0, 0, -9, 0],
        taken=[1 << Program.CRASH, 0, 0, 0, 0],
        programs=[0, 4, 4, 1 << Program.UNDO, 1 << Program.UNDO], new_stage=[0, 0, 0, 1, 0],
    )  # fmt: skip
    found = find(journal)
    siphon, undo = found.tools
    assert (siphon.name, undo.name) == ("siphon", "UNDO")
    assert (siphon.a_game, siphon.hp_after, siphon.kills_after, siphon.died_after) == (
        *(0.5, -3.0, 1.0, 1.0),
    )
    assert (undo.won_if_used, undo.won_if_not, undo.hp_after) == (1.0, 0.0, 1.0)
    assert found.taken == {"CRASH": 1}
    (first,) = found.siphons
    assert (first.a_game, first.points, first.programs, first.called) == (0.5, 5.0, 1.0, 4.0)
    assert (first.credits, first.energy) == (3.0, 2.0)
    assert found.undo.owned == 0.5
    assert found.undo.after_stage_change == 1.0
    assert (found.undo.won_if_owned, found.undo.won_if_not) == (1.0, 0.0)


def test_a_calibration_compares_what_was_told_with_what_happened():
    told = np.repeat([0.2, 0.8], 50)
    journal = made_up(
        50, 50, win_probability=told, won=np.arange(100) == 99,
        value=np.full(100, 2.0), learned_reward=np.where(np.arange(100) == 49, 1.0, 0.0),
    )  # fmt: skip
    found = find(journal, gamma=0.5)
    assert found.win_probability.told == (0.2,) * 5 + (0.8,) * 5
    assert found.win_probability.happened == (0.0,) * 5 + (1.0,) * 5
    assert sum(found.value.moves) == 100
    assert len(found.value.told) == BINS
    # The last moves of the first game see its reward: 1, 1/2, 1/4 ...
    assert sum(np.multiply(found.value.happened, found.value.moves)) == pytest.approx(2.0)
    plain = find(made_up(1)).as_dict()
    assert plain["value"] is None
    assert plain["undo"]["won_if_owned"] is None
