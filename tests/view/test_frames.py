"""Frames against the observation and against the game itself."""

import jax
import numpy as np
import pytest
from games.hackmatrix.recordings import CONFIG, Arrays, concatenate, load, rows
from games.hackmatrix.replay import BATCH, shared_replay

from hackmatrix_rl.env import CELL, Sight, compact_observation
from hackmatrix_rl.games.hackmatrix import (
    SIPHON,
    Action,
    Content,
    EnemyType,
    Program,
    from_arrays,
    to_arrays,
)
from hackmatrix_rl.view import Frame, frames_of
from view.boards import column

pytestmark = pytest.mark.view

MANY, MOST = 300, 600
"""Positions of a test, and of one that needs more."""

SIGHT = {
    Content.EMPTY: Sight.EMPTY,
    Content.DATA: Sight.DATA,
    Content.PROGRAM: Sight.PROGRAM,
    Content.HIDDEN_DATA: Sight.QUESTION,
    Content.PICKUP: Sight.PICKUP,
    Content.EXIT: Sight.EXIT,
}


def recorded(count: int) -> Arrays:
    """Recorded positions, the last ones made by hand: stacks, blocks under the player."""
    before = load("observations").before
    odd = rows(load("deterministic").before, -1 - np.arange(count // 4))
    pick = np.random.default_rng(3).choice(len(before["player"]), count - count // 4, replace=False)
    together = concatenate([rows(before, pick), odd])
    return {name: np.array(value) for name, value in together.items()}


def set_to(arrays: Arrays, name: str, **values: int | np.ndarray) -> None:
    """Sets columns of `player` or `game`."""
    for field, value in values.items():
        arrays[name][:, column(name, field)] = value


@pytest.fixture(scope="module")
def observed() -> tuple[list[Frame], dict[str, np.ndarray]]:
    """Frames as the player sees them, and the planes of the observation."""
    states = from_arrays(CONFIG, recorded(MANY))
    look = jax.jit(jax.vmap(lambda state: compact_observation(state.position, is_rare=True)))
    seen = look(states)
    planes = {name: np.asarray(seen.plane(name)) for name in CELL}
    return [frame.seen() for frame in frames_of(states)], planes


def by_cell(frames: list[Frame], of) -> np.ndarray:
    """A number for each cell of each frame, from a function of (frame, cell)."""
    return np.array([[int(of(frame, cell)) for cell in range(36)] for frame in frames])


def one_on(things: str):
    """What the player sees of such things on a cell: at most one."""

    def find(frame: Frame, cell: int):
        here = [each for each in getattr(frame, things) if each.cell == cell]
        assert len(here) <= 1
        return here[0] if here else None

    return find


enemy_on, transmission_on = one_on("enemies"), one_on("transmissions")


def field_of(find, name: str):
    """A field of what `find` finds on a cell, 0 where it finds nothing."""

    def read(frame: Frame, cell: int) -> int:
        found = find(frame, cell)
        return getattr(found, name) if found else 0

    return read


def one_more(find):
    """1 + the type of what `find` finds, 0 where it is not known."""

    def read(frame: Frame, cell: int) -> int:
        found = find(frame, cell)
        return 0 if found is None or found.type is None else found.type + 1

    return read


def value_of(frame: Frame, cell: int) -> int:
    here = frame.cells[cell]
    return here.points if here.program is None else here.program


def turns_shown(frame: Frame, cell: int) -> int:
    found = transmission_on(frame, cell)
    return min(found.turns_remaining, CELL["transmission"].largest) if found else 0


PLANES = {
    "content": lambda frame, cell: SIGHT[frame.cells[cell].content],
    "value": value_of,
    "spawn_count": lambda frame, cell: frame.cells[cell].spawn_count,
    "credits": lambda frame, cell: frame.cells[cell].credits,
    "energy": lambda frame, cell: frame.cells[cell].energy,
    "siphoned": lambda frame, cell: frame.cells[cell].siphoned and frame.cells[cell].is_block,
    "siphon_center": lambda frame, cell: frame.cells[cell].siphon_center,
    "enemy": one_more(enemy_on),
    "enemy_hp": field_of(enemy_on, "hp"),
    "enemy_stunned": field_of(enemy_on, "stunned"),
    "enemy_from_siphon": field_of(enemy_on, "spawned_from_siphon"),
    "transmission": turns_shown,
    "transmission_type": one_more(transmission_on),
    "last_known": lambda frame, cell: cell in frame.last_known_cells,
}


def test_every_field_of_the_observation_is_compared():
    assert set(PLANES) == set(CELL)


@pytest.mark.parametrize("name", PLANES)
def test_what_the_player_sees_is_in_the_frame(observed, name):
    frames, planes = observed
    np.testing.assert_array_equal(by_cell(frames, PLANES[name]), planes[name])
    assert planes[name].any(), "no position shows it"


def alone(count: int) -> Arrays:
    """Positions with one enemy at random and nothing else that moves or arrives; WAIT at hand."""
    arrays = recorded(count)
    rng = np.random.default_rng(5)
    arrays["num_enemies"][:] = 1
    arrays["num_transmissions"][:] = 0
    arrays["owned"][:, Program.WAIT] = 1
    set_to(arrays, "player", hp=3, energy=9)
    set_to(arrays, "game", scheduled_tasks_disabled=1, step_active=rng.integers(0, 12, count) == 0)
    enemy = arrays["enemies"][:, 0]
    enemy[:] = 0
    near = np.clip(arrays["player"][:, :2] + rng.integers(-2, 3, (count, 2)), 0, 5)
    enemy[:, column("enemies", "type")] = rng.integers(0, 4, count)
    enemy[:, column("enemies", "row")], enemy[:, column("enemies", "col")] = near.T
    enemy[:, column("enemies", "hp")] = 1
    enemy[:, column("enemies", "disabled_turns")] = rng.integers(0, 8, count) == 0
    enemy[:, column("enemies", "stunned")] = rng.integers(0, 8, count) == 0
    cryptog = (enemy[:, 0] == EnemyType.CRYPTOG)[:, None]
    last = [column("enemies", "last_known_row"), column("enemies", "last_known_col")]
    enemy[:, last] = np.where(cryptog, near, -1)
    return arrays


def stepped(count: int, actions: np.ndarray, seed: int, **player: int):
    """Frames before and after a move of recorded positions, what is left, and what happened."""
    replay, arrays = shared_replay(), recorded(count)
    set_to(arrays, "player", **player)
    set_to(arrays, "game", step_active=1, pending_siphon_transmissions=0)
    after, outcome = replay.step(replay.states(arrays), actions, seed)
    later = frames_of(jax.tree.map(lambda leaf: leaf[:count], after))
    return frames_of(from_arrays(CONFIG, arrays)), later, after, outcome


def test_an_enemy_hits_exactly_if_the_frame_says_so():
    replay = shared_replay()
    arrays = alone(MOST)
    frames = frames_of(from_arrays(CONFIG, arrays))
    after, outcome = replay.step(replay.states(arrays), np.full(BATCH, Action.WAIT), 1)
    assert outcome["legal"].all()
    lost = 3 - to_arrays(after)["player"][:MOST, column("player", "hp")]
    flagged = np.array([frame.attackers == {0} for frame in frames])
    np.testing.assert_array_equal(lost == 1, flagged)
    for kind in EnemyType:
        assert {frame.enemies[0].type == kind for frame in frames if frame.attackers}


def test_a_shot_hits_what_the_frame_says():
    """STEP skips the enemy turn, and the attack kills: only the target is gone."""
    actions = np.arange(BATCH) % 4
    frames, later, _, outcome = stepped(MOST, actions, 2, attack_damage=9)
    hits = set()
    for number, (frame, next_) in enumerate(zip(frames, later, strict=True)):
        shot = frame.shots[actions[number]]
        hits.add(shot.hits)
        if not outcome["legal"][number]:
            assert shot.hits is None
            continue
        gone = cells_of(frame.enemies) != cells_of(next_.enemies)
        if outcome["completed"][number] or outcome["won"][number]:
            assert shot.hits is None
        else:
            assert (next_.player_cell == frame.player_cell) == (shot.hits is not None)
            assert gone == (shot.hits == "enemy")
        if shot.hits == "enemy":
            assert cells_of(next_.enemies) == without(frame.enemies, shot.target)
            assert cells_of(next_.transmissions) == cells_of(frame.transmissions)
        if shot.hits == "transmission":
            assert cells_of(next_.transmissions) == without(frame.transmissions, shot.target)
    assert hits == {None, "enemy", "transmission"}


def cells_of(things) -> list[tuple[int, int | None]]:
    return [(each.cell, each.type) for each in things]


def without(things, cell: int) -> list[tuple[int, int | None]]:
    """The cells and types of things, without the first on a cell."""
    left = cells_of(things)
    left.remove(next(each for each in left if each[0] == cell))
    return left


def test_a_siphon_takes_what_the_frame_says():
    frames, later, after, outcome = stepped(MANY, np.full(BATCH, SIPHON), 3, data_siphons=2)
    assert outcome["legal"].all()
    results = to_arrays(after)
    pending = results["game"][:MANY, column("game", "pending_siphon_transmissions")]
    yields = [frame.siphon_yield() for frame in frames]
    for name in ("credits", "energy"):
        gained = [getattr(b, name) - getattr(a, name) for a, b in zip(frames, later, strict=True)]
        assert gained == [getattr(each, name) for each in yields]
    scores = [b.score - a.score for a, b in zip(frames, later, strict=True)]
    assert scores == [each.points for each in yields]
    assert pending.tolist() == [each.spawns for each in yields]
    for frame, next_, taken in zip(frames, later, yields, strict=True):
        assert set(next_.owned) - set(frame.owned) == set(taken.programs)
        new = {cell for cell in range(36) if next_.cells[cell].siphoned}
        assert new - {cell for cell in range(36) if frame.cells[cell].siphoned} == set(taken.cells)
    assert any(each.programs for each in yields)


def test_what_the_player_does_not_know_adds_nothing_to_a_siphon():
    states = from_arrays(CONFIG, recorded(MANY))
    differ = 0
    for frame in frames_of(states):
        full, seen = frame.siphon_yield(), frame.seen().siphon_yield()
        questions = [cell for cell in full.cells if frame.cells[cell].is_question]
        assert seen.unknown == len(questions)
        assert full.unknown == 0
        assert (seen.credits, seen.energy) == (full.credits, full.energy)
        assert seen.points <= full.points
        differ += bool(questions)
    assert differ
