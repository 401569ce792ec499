"""What the rules say, a sentence a test (docs/rules.md)."""

from dataclasses import dataclass

import numpy as np
import pytest

from game.positions import block_of, daemon, data, glitch, position, transmission, virus
from game.recordings import COLUMNS, Arrays
from hackmatrix_rl.game import Content, EnemyType, Program

UP, DOWN, LEFT, RIGHT, SIPHON = range(5)


@dataclass(frozen=True)
class After:
    """The position after one action, its columns by name."""

    arrays: Arrays
    outcome: Arrays

    def __getattr__(self, name: str) -> int:
        for array in ("player", "game"):
            if name in COLUMNS[array].split():
                return int(self.arrays[array][0, COLUMNS[array].split().index(name)])
        raise AttributeError(name)

    def term(self, name: str) -> float:
        return float(self.outcome["terms"][0, COLUMNS["terms"].split().index(name)])

    @property
    def enemies(self) -> list[dict[str, int]]:
        table = self.arrays["enemies"][0, : self.arrays["num_enemies"][0]]
        return [dict(zip(COLUMNS["enemies"].split(), map(int, row), strict=True)) for row in table]

    @property
    def where(self) -> list[tuple[int, int]]:
        return [(enemy["row"], enemy["col"]) for enemy in self.enemies]

    def cell(self, row: int, col: int) -> dict[str, int]:
        values = self.arrays["cells"][0, row * 6 + col]
        return dict(zip(COLUMNS["cells"].split(), map(int, values), strict=True))


@pytest.fixture
def act(replay):
    def act(before: Arrays, action: int | Program) -> After:
        number = 5 + action if isinstance(action, Program) else action
        played = replay.play(before, np.array([number]), seed=0)
        return After(played.position, played.outcome)

    return act


def test_an_attack_hits_the_first_target_of_the_line_and_does_not_move_the_player(act):
    after = act(position((2, 0), enemies=[daemon(2, 3), daemon(2, 5)]), RIGHT)
    assert (after.row, after.col) == (2, 0)
    assert [enemy["hp"] for enemy in after.enemies] == [2, 3]


def test_a_transmission_is_a_target_before_an_enemy_on_its_cell(act):
    before = position((2, 0), enemies=[daemon(2, 3)], transmissions=[transmission(2, 3)])
    after = act(before, RIGHT)
    assert after.arrays["num_transmissions"][0] == 0
    assert after.enemies[0]["hp"] == 3
    assert after.term("kills") == pytest.approx(0.3)


def test_a_block_ends_the_look(act):
    before = position((2, 0), enemies=[daemon(2, 4)], cells={(2, 2): data(3)})
    after = act(before, RIGHT)
    assert (after.row, after.col) == (2, 1)


def test_an_enemy_that_survives_a_hit_skips_its_move(act):
    after = act(position((2, 0), enemies=[daemon(2, 3)]), RIGHT)
    assert after.where == [(2, 3)]


def test_a_virus_moves_two_cells_and_a_daemon_one(act):
    before = position(
        (0, 0), enemies=[virus(5, 2), daemon(2, 5)], programs=[Program.WAIT], energy=1
    )
    assert act(before, Program.WAIT).where == [(3, 2), (1, 5)]


def test_a_glitch_walks_over_blocks(act):
    wall = {(row, 2): data(1) for row in range(6)}
    before = position((2, 0), enemies=[glitch(2, 3)], cells=wall, programs=[Program.WAIT], energy=1)
    assert act(before, Program.WAIT).where == [(2, 2)]


def test_an_adjacent_enemy_attacks_instead_of_moving(act):
    before = position((2, 2), enemies=[daemon(2, 3)], programs=[Program.WAIT], energy=1)
    after = act(before, Program.WAIT)
    assert after.hp == 2
    assert after.term("damage_penalty") == -1.0


def test_a_transmission_becomes_an_enemy_that_does_not_move_at_once(act):
    before = position((0, 0), transmissions=[transmission(3, 3, EnemyType.DAEMON)])
    after = act(before, UP)
    assert after.where == [(3, 3)]
    assert after.enemies[0]["hp"] == 3


def test_step_holds_the_enemy_turn_up_once(act):
    before = position((0, 0), enemies=[daemon(4, 4)], step_active=1)
    after = act(before, UP)
    assert after.where == [(4, 4)]
    assert (after.step_active, after.turn) == (0, 0)


def test_a_siphon_takes_the_cross_and_calls_transmissions(act):
    cells = {(3, 2): data(4), (2, 2): {"credits": 2}, (2, 1): block_of(Program.ROW, 2)}
    after = act(position((2, 2), cells=cells, data_siphons=1), SIPHON)
    assert (after.score, after.credits, after.data_siphons) == (4, 2, 0)
    assert after.arrays["owned"][0, Program.ROW] > 0
    assert after.arrays["num_transmissions"][0] == 4 + 2
    assert after.cell(3, 2)["siphoned"] == 1
    assert after.cell(3, 2)["content"] == Content.DATA
    assert after.scheduled_task_interval == 11


def test_programs_do_not_end_the_turn(act):
    before = position((0, 0), enemies=[daemon(0, 4)], programs=[Program.ROW], credits=3, energy=1)
    after = act(before, Program.ROW)
    assert (after.turn, after.credits, after.energy) == (0, 0, 0)
    assert after.enemies[0]["hp"] == 2


def test_warp_onto_the_exit_completes_the_stage(act):
    before = position((0, 0), enemies=[daemon(5, 5)], programs=[Program.WARP], credits=2, energy=2)
    after = act(before, Program.WARP)
    assert bool(after.outcome["completed"][0])
    assert after.stage == 2
    assert (after.row, after.col) == (5, 5)


def test_crash_counts_the_enemies_of_a_cell_once(act):
    before = position(
        (2, 2), enemies=[virus(3, 3), virus(3, 3), virus(1, 1)],
        programs=[Program.CRASH], credits=3, energy=2,
    )  # fmt: skip
    after = act(before, Program.CRASH)
    assert after.enemies == []
    assert after.term("kills") == pytest.approx(0.6)


def test_the_kill_of_an_enemy_of_a_scheduled_task_does_not_count(act):
    enemy = virus(2, 3, hp=1, from_scheduled_task=1)
    after = act(position((2, 0), enemies=[enemy]), RIGHT)
    assert after.enemies == []
    assert after.term("kills") == 0.0


def test_pull_never_moves_an_enemy_onto_the_player(act):
    before = position(
        (2, 2), enemies=[daemon(3, 3), daemon(2, 3), daemon(5, 5)],
        programs=[Program.PULL], energy=2,
    )  # fmt: skip
    # The diagonal one moves by its row alone; the adjacent one stays, and is stood upon.
    assert act(before, Program.PULL).where == [(2, 3), (2, 3), (4, 4)]


def test_the_next_stage_keeps_enemies_and_has_a_shorter_interval(act):
    after = act(position((5, 4), enemies=[glitch(0, 2)], hp=1), RIGHT)
    assert (after.stage, after.hp, after.scheduled_task_interval) == (2, 2, 11)
    assert after.where == [(0, 2)]
    assert after.arrays["num_transmissions"][0] == 2
    assert after.term("stage_completion") == 1.0


def test_the_last_stage_is_the_victory(act):
    after = act(position((5, 4), stage=8, score=7), RIGHT)
    assert bool(after.outcome["won"][0])
    assert after.term("victory") == 500 + 100 * 7
    assert after.term("stage_completion") == 100.0


def test_death_takes_back_half_of_the_stages_before(act):
    before = position(
        (2, 2), enemies=[daemon(2, 3)], hp=1, stage=4, programs=[Program.WAIT], energy=1
    )
    after = act(before, Program.WAIT)
    assert bool(after.outcome["died"][0])
    assert after.term("death_penalty") == -0.5 * (1 + 2 + 4)


def test_an_illegal_action_changes_nothing(act):
    before = position((0, 0))
    after = act(before, DOWN)
    assert not after.outcome["legal"][0]
    assert not after.outcome["terms"].any()
    np.testing.assert_array_equal(after.arrays["player"], before["player"])
    np.testing.assert_array_equal(after.arrays["cells"], before["cells"])


def test_a_data_block_without_points_is_a_block_that_a_better_cell_must_reach_too(act):
    # No play reaches such a block, but a given position may hold it.
    cells = {(3, 2): data(0), (0, 5): {"credits": 3}}
    after = act(position((2, 2), cells=cells, data_siphons=1), SIPHON)
    assert after.term("siphon_quality") == 0
    assert after.cell(3, 2)["siphoned"] == 1
    del cells[(3, 2)]
    assert act(position((2, 2), cells=cells, data_siphons=1), SIPHON).term("siphon_quality") < 0


def test_a_given_spawn_count_above_that_of_any_block_calls_as_many_transmissions(act):
    cells = {(3, 2): data(9) | {"spawn_count": 15}}
    after = act(position((2, 2), cells=cells, data_siphons=1), SIPHON)
    assert after.arrays["num_transmissions"][0] == 15
    assert after.cell(3, 2)["spawn_count"] == 0
