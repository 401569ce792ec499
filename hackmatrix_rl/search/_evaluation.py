"""The heuristic value of a position, a weighted sum of terms, and its win probability.

To win, the player must live through eight stages. So hp, stages and programs count, and threats
are counted by when they arrive; of the score almost nothing. Every number comes from one search
for distances and a few sums over planes of the board.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Shaped, UInt32

from hackmatrix_rl.batching import bits_of
from hackmatrix_rl.game import (
    ENEMY_SPEED,
    LAST_STAGE,
    NUM_CELLS,
    NUM_ENEMY_TYPES,
    NUM_PROGRAMS,
    UNREACHED,
    CellSet,
    Content,
    Enemies,
    EnemyType,
    Event,
    GameConfig,
    Position,
    Program,
    by_type,
    crosses,
    distance,
    distances,
    is_block,
    line_of_sight,
    yields_of,
)
from hackmatrix_rl.search._weights import EvaluationWeights, WinWeights

WON, DEAD = 1e6, -1000.0
REWINDS_AHEAD = 1000.0
"""For a new stage with UNDO ready: from there on it walks to victory."""
NO_EXIT, NO_PICKUP = 15, 20
"""Steps to an exit or a pickup that cannot be reached."""
_MOST_RESOURCES, _MOST_ATTACK, _LATE = 20, 3, 20
_NEVER = 6
"""Turns until an enemy attacks that finds no way."""

Value = Float32[Array, ""]


def evaluate(config: GameConfig, position: Position, weights: EvaluationWeights) -> Value:
    """The heuristic value of a position in the middle of a stage; use `jax.vmap` for a batch."""
    where = Where.of(position)
    worth = _possessions(position, weights) + _dangers(position, where, weights)
    aims = jnp.where(
        walks_by_undo(config, position),
        weights["walk"] * _real(where.to_exit),
        _aims(position, where, weights),
    )
    return jnp.where(position.player.hp <= 0, DEAD, worth + aims)


def evaluate_next_stage(
    config: GameConfig, position: Position, weights: EvaluationWeights
) -> Value:
    """The heuristic value of a position that has just completed a stage."""
    along = _real(position.enemies.count + position.transmissions.count)
    worth = _possessions(position, weights) + weights["crowd"] * along
    # What every stage begins with: two pickups, and an exit to walk to.
    worth = worth + 2 * weights["pickup"] + 2 * weights["exit_distance"]
    return worth + jnp.where(walks_by_undo(config, position), REWINDS_AHEAD, 0.0)


def evaluate_result(
    config: GameConfig, position: Position, event: Event, weights: EvaluationWeights
) -> Value:
    """The heuristic value of a position after an action, without the set-up of a next stage."""
    pending = _real(position.pending_siphon_transmissions)
    worth = evaluate(config, position, weights) - weights["spawn"] * pending
    worth = jnp.where(event.completed, evaluate_next_stage(config, position, weights), worth)
    return jnp.where(event.won, WON, worth)


def owns(position: Position, program: Program) -> Bool[Array, ""]:
    """Whether the player owns a program."""
    return (position.programs & np.uint32(1 << program)) != 0


def walks_by_undo(config: GameConfig, position: Position) -> Bool[Array, ""]:
    """Whether UNDO can bring the player through all stages: owned, paid for, across stages."""
    ready = owns(position, Program.UNDO) & (position.player.credits >= 1)
    return ready & config.rewind_across_stages


class Where(eqx.Module):
    """The distances that terms depend on."""

    #: From the player to each cell around blocks; on a block, to where it is entered.
    steps: Int32[Array, "36"]
    to_exit: Int32[Array, ""]  #: Steps to the exit; `NO_EXIT` if none leads there.
    fire: CellSet  #: The cells in the line of fire.

    @staticmethod
    def of(position: Position) -> "Where":
        """The distances in a position."""
        here, blocks = CellSet.of(position.player.cell), position.board.blocks
        steps = distances(here, ~CellSet.empty(), barrier=blocks)
        to_exit = jnp.min(jnp.where(position.board.content == Content.EXIT, steps, UNREACHED))
        return Where(
            steps=steps,
            to_exit=jnp.where(to_exit == UNREACHED, NO_EXIT, to_exit),
            fire=line_of_sight(position.player.cell, blocks | position.enemies.cells),
        )


def _possessions(position: Position, weights: EvaluationWeights) -> Value:
    """The terms of the player alone, and of the stage."""
    player = position.player
    credits_, energy = _real(player.credits), _real(player.energy)
    hp = jnp.where(player.hp >= 3, weights["hp_3"], weights["hp_2"])
    hp = jnp.where(player.hp <= 1, weights["hp_1"], hp)
    ready = owns(position, Program.UNDO) & (player.credits >= 1)
    owned = bits_of(position.programs, NUM_PROGRAMS)
    return (
        hp
        + weights["stage"] * _real(position.stage)
        + weights["siphon"] * _real(player.data_siphons)
        + weights["credit"] * jnp.minimum(credits_, _MOST_RESOURCES)
        + weights["energy"] * jnp.minimum(energy, _MOST_RESOURCES)
        + weights["credits_root"] * jnp.sqrt(credits_)
        + weights["energy_root"] * jnp.sqrt(energy)
        + weights["score"] * _real(player.score)
        + weights["attack"] * _real(jnp.minimum(player.attack_damage - 1, _MOST_ATTACK))
        + jnp.sum(jnp.where(owned, weights.programs, 0.0))
        + jnp.where(ready, weights["undo_ready"], 0.0)
    )


def _dangers(position: Position, where: Where, weights: EvaluationWeights) -> Value:
    """The terms of enemies, transmissions, and what holds them up."""
    player, enemies = position.player, position.enemies
    present = enemies.present
    turns = turns_to_contact(enemies, player.cell, where.steps)
    in_line = where.fire.has(enemies.cell)

    def count(which: Bool[Array, " n"]) -> Value:
        return _real(jnp.sum(which & present, dtype=jnp.int32))

    next_turn, two = count(turns <= 1), count(turns == 2)
    damage = jnp.maximum(player.attack_damage, 1)
    hits = (enemies.hp + damage - 1) // damage
    hits = jnp.sum(jnp.where(present & (turns <= 3), hits, 0), dtype=jnp.int32)
    kinds = jnp.stack([count(enemies.type == kind) for kind in range(NUM_ENEMY_TYPES)])
    of_kinds = jnp.stack([weights[kind.name.lower()] for kind in EnemyType])
    due = position.transmissions.present & where.fire.has(position.transmissions.cell)
    return (
        weights["threat"] * next_turn
        + weights["more_threats"] * jnp.maximum(next_turn - 1, 0)
        + weights["threat_out_of_line"] * count((turns <= 1) & ~in_line)
        + weights["two_turns_away"] * two
        + weights["two_turns_in_line"] * count((turns == 2) & in_line)
        + weights["three_turns_away"] * count(turns == 3)
        + weights["far"] * count(turns > 3)
        + weights["hits"] * _real(hits)
        + jnp.sum(of_kinds * kinds)
        + weights["transmission"] * _real(position.transmissions.count)
        + weights["transmission_in_line"] * _real(jnp.sum(due, dtype=jnp.int32))
        + weights["line_of_fire"] * _real(where.fire.size())
        + weights["late"] * _real(jnp.maximum(position.turn - _LATE, 0))
        + jnp.where(player.hp == 1, weights["threat_at_hp_1"], 0.0) * (next_turn + two)
        + jnp.where(position.scheduled_tasks_disabled, weights["calm"], 0.0)
        + jnp.where(position.step_active, weights["step"], 0.0) * next_turn
    )


def turns_to_contact(
    enemies: Enemies, player_cell: Int32[Array, ""], steps: Int32[Array, "36"]
) -> Int32[Array, " n"]:
    """Turns until each enemy can attack; `_NEVER` without a way to the player."""
    there = np.arange(NUM_CELLS)[None, :] == enemies.cell[:, None]
    around_blocks = jnp.max(jnp.where(there, steps[None, :], 0), axis=1)
    straight = distance(enemies.cell, jnp.full_like(enemies.cell, player_cell))
    away = jnp.where(enemies.type == EnemyType.GLITCH, straight, around_blocks)
    speed = by_type(ENEMY_SPEED, enemies.type)
    turns = jnp.where(away == UNREACHED, _NEVER, (away + speed - 1) // speed)
    held_up = (enemies.disabled_turns > 0) | enemies.stunned
    return turns + held_up.astype(jnp.int32)


def _aims(position: Position, where: Where, weights: EvaluationWeights) -> Value:
    """The terms of what lies ahead in this stage: pickups, the best siphon, the exit."""
    content, siphons = position.board.content, position.player.data_siphons
    pickups = content == Content.PICKUP
    number = _real(jnp.sum(pickups, dtype=jnp.int32))
    nearest = jnp.min(jnp.where(pickups, where.steps, UNREACHED))
    nearest = _real(jnp.where(nearest == UNREACHED, NO_PICKUP, nearest))

    plans = siphon_values(position, weights) - weights["plan_distance"] * _real(where.steps)
    standing = (where.steps != UNREACHED) & ~is_block(content) & (content != Content.EXIT)
    standing = standing | (np.arange(NUM_CELLS) == position.player.cell)
    best = jnp.max(jnp.where(standing, plans, 0.0))
    best = jnp.maximum(best, 0.0)

    in_hand, to_get = siphons > 0, number > 0
    share = jnp.where(in_hand, weights["plan"], weights["plan_without_siphon"])
    plan = jnp.where(in_hand | to_get, share * best, 0.0)
    pickup = weights["pickup"] * number + weights["pickup_distance"] * nearest
    busy = to_get | (in_hand & (best > weights["siphon"]))
    exit_ = weights["exit_distance"] * _real(where.to_exit) * jnp.where(busy, 0.15, 1.0)
    return plan + jnp.where(to_get, pickup, 0.0) + exit_


def siphon_values(position: Position, weights: EvaluationWeights) -> Float32[Array, "36"]:
    """The value of a siphon at each cell."""
    board, programs = position.board, weights.programs
    each = yields_of(board)
    new = each.programs & ~position.programs
    worth = programs[jnp.clip(board.value, 0, NUM_PROGRAMS - 1)]
    undo = np.uint32(1 << Program.UNDO)
    gain = (
        weights["plan_point"] * _real(each.points)
        + weights["plan_resource"] * _real(each.credits + each.energy)
        + weights["plan_question"] * _real(each.questions)
        - weights["spawn"] * _real(each.spawns)
        + jnp.where(new != 0, worth, 0.0)
        + jnp.where(new == undo, 0.5 * weights["undo_ready"], 0.0)
    )
    total = jnp.sum(crosses(gain), axis=0)
    # UNDO without the credit that it costs: the first credit is worth more.
    has_undo = owns(position, Program.UNDO) | (crosses(each.programs == undo)).any(axis=0)
    first_credit = has_undo & (position.player.credits < 1) & crosses(each.credits > 0).any(axis=0)
    return total + jnp.where(first_credit, weights["plan_first_credit"], 0.0)


def _real(number: Shaped[Array, "*shape"]) -> Float32[Array, "*shape"]:
    return jnp.asarray(number).astype(jnp.float32)


STARTED, UNFINISHED = 0.97, 0.85
"""With UNDO ready, which walks to victory: at the start of a stage, and within one."""
_MOST_OF_EACH, _MOST_SIPHONS = 15, 3


def win_probability(
    config: GameConfig, position: Position, weights: WinWeights, *, started: Bool[Array, ""]
) -> Value:
    """The win probability: a logistic function of the player's resources.

    It fits best where a stage is completed (`started`) and the next one is not set up yet.
    """
    player = position.player
    terms = win_terms(
        stage=position.stage,
        hp=player.hp,
        credits=player.credits,
        energy=player.energy,
        data_siphons=player.data_siphons,
        attack_damage=player.attack_damage,
        crowd=position.enemies.count + position.transmissions.count,
        programs=position.programs,
    )
    by_undo = jnp.where(started, STARTED, UNFINISHED)
    odds = jnp.sum(terms * weights.numbers)
    chance: Array = jnp.where(walks_by_undo(config, position), by_undo, jax.nn.sigmoid(odds))
    return jnp.where(player.hp <= 0, 0.0, chance)


def win_terms(
    *,
    stage: Int32[Array, "*batch"],
    hp: Int32[Array, "*batch"],
    credits: Int32[Array, "*batch"],
    energy: Int32[Array, "*batch"],
    data_siphons: Int32[Array, "*batch"],
    attack_damage: Int32[Array, "*batch"],
    crowd: Int32[Array, "*batch"],
    programs: UInt32[Array, "*batch"],
) -> Float32[Array, "*batch rows"]:
    """The inputs of `WinWeights`, in the order of its rows.

    `stage` is 1 to 8, `crowd` counts the enemies and transmissions that come along from the stage
    before, and `programs` has one bit for each owned program.
    """

    def owned(program: Program) -> Array:
        return _real((jnp.asarray(programs) >> np.uint32(program)) & np.uint32(1))

    rows = [
        *(_real(stage == each) for each in range(1, LAST_STAGE + 1)),
        _real(hp) - 2.5,
        _real(jnp.minimum(credits, _MOST_OF_EACH)) / 5,
        _real(jnp.minimum(energy, _MOST_OF_EACH)) / 5,
        _real(jnp.minimum(data_siphons, _MOST_SIPHONS)),
        _real(jnp.minimum(attack_damage - 1, _MOST_ATTACK)),
        _real(crowd),
        owned(Program.RESET),
        owned(Program.CRASH),
        owned(Program.ROW) + owned(Program.COL),
        owned(Program.UNDO),
    ]
    return jnp.stack(rows, axis=-1)
