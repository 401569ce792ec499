"""The heuristic value of a position, a weighted sum of terms.

To win, the player must survive eight stages. So hp, stages and programs count, and threats count
by their time of arrival; the score counts for almost nothing, unless the weights are
`ReturnWeights`. The terms need one or two distance searches and a few sums over planes of the
board.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Shaped

from hackmatrix_rl.games.hackmatrix import (
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
from hackmatrix_rl.search._weights import EvaluationWeights, ReturnWeights
from hackmatrix_rl.system.batching import bits_of

WON, DEAD = 1e6, -1000.0
REWINDS_AHEAD = 1000.0
"""Value of a position from which UNDO walks to victory (`walks_by_undo`)."""
NO_EXIT, NO_PICKUP = 15, 20
"""Steps to an exit or a pickup that cannot be reached."""
_MOST_RESOURCES, MOST_ATTACK, _LATE = 20, 3, 20
_QUESTION, _MOST_EXIT_STEPS, _MOST_SIPHONS, _LEAST_HP = 2.5, 10, 3, 2
"""In a harvest: points of a question block, most steps to the exit and data siphons that count,
and the least hp."""
_NEVER = 6
"""Turns until the attack of an enemy that has no path to the player."""

Value = Float32[Array, ""]


def heuristic(config: GameConfig, position: Position, weights: EvaluationWeights) -> Value:
    """The heuristic value of a position in the middle of a stage; use `jax.vmap` for a batch."""
    where = Where.from_position(position)
    worth = _possessions(position, weights) + _dangers(position, where, weights)
    walks = walks_by_undo(config, position)
    aims = jnp.where(walks, weights["walk"] * real(where.to_exit), _aims(position, where, weights))
    if isinstance(weights, ReturnWeights):
        hp, last = position.player.hp, position.stage == LAST_STAGE
        harvests = walks & (real(hp) >= weights["harvest_hp"])
        harvests = harvests | (last & (hp >= _LEAST_HP) & (weights["score_last"] > 0))
        aims = jnp.where(harvests, _harvest(config, position, where, weights), aims)
        worth = worth + _paid(config, position, weights)
        worth = worth + jnp.where(walks, REWINDS_AHEAD, 0.0)
    return jnp.where(position.player.hp <= 0, DEAD, worth + aims)


def evaluate_next_stage(
    config: GameConfig, position: Position, weights: EvaluationWeights
) -> Value:
    """The heuristic value of a position that has just completed a stage."""
    along = real(position.enemies.count + position.transmissions.count)
    worth = _possessions(position, weights) + weights["crowd"] * along
    # Every stage begins with two pickups, and an exit to walk to.
    worth = worth + 2 * weights["pickup"] + 2 * weights["exit_distance"]
    if isinstance(weights, ReturnWeights):
        worth = worth + _paid(config, position, weights)
    return worth + jnp.where(walks_by_undo(config, position), REWINDS_AHEAD, 0.0)


def evaluate_result(
    config: GameConfig, position: Position, event: Event, weights: EvaluationWeights
) -> Value:
    """The heuristic value of a position after an action, without the set-up of a next stage."""
    pending = real(position.pending_siphon_transmissions)
    worth = heuristic(config, position, weights) - weights["spawn"] * pending
    worth = jnp.where(event.completed, evaluate_next_stage(config, position, weights), worth)
    won = worth + weights["victory"] if isinstance(weights, ReturnWeights) else WON
    return jnp.where(event.won, won, worth)


def owns(position: Position, program: Program) -> Bool[Array, ""]:
    """Whether the player owns a program."""
    return (position.programs & np.uint32(1 << program)) != 0


def walks_by_undo(config: GameConfig, position: Position) -> Bool[Array, ""]:
    """Whether UNDO can lead the player through all stages.

    In the league original, UNDO at the start of a stage restores the old board, one step from its
    exit. It needs the program and a credit.
    """
    ready = owns(position, Program.UNDO) & (position.player.credits >= 1)
    return ready & config.rewind_across_stages


class Where(eqx.Module):
    """The distances that the terms depend on."""

    #: Steps from the player to each cell around blocks; to a block, the steps until it is entered.
    steps: Int32[Array, "36"]
    to_exit: Int32[Array, ""]  #: Steps to the exit; `NO_EXIT` if none leads there.
    fire: CellSet  #: The cells in the line of fire.

    @staticmethod
    def from_position(position: Position) -> "Where":
        """The distances in a position."""
        here, blocks = CellSet.from_cell(position.player.cell), position.board.blocks
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
    credits_, energy = real(player.credits), real(player.energy)
    hp = jnp.where(player.hp >= 3, weights["hp_3"], weights["hp_2"])
    hp = jnp.where(player.hp <= 1, weights["hp_1"], hp)
    ready = owns(position, Program.UNDO) & (player.credits >= 1)
    owned = bits_of(position.programs, NUM_PROGRAMS)
    return (
        hp
        + weights["stage"] * real(position.stage)
        + weights["siphon"] * real(player.data_siphons)
        + weights["credit"] * jnp.minimum(credits_, _MOST_RESOURCES)
        + weights["energy"] * jnp.minimum(energy, _MOST_RESOURCES)
        + weights["credits_root"] * jnp.sqrt(credits_)
        + weights["energy_root"] * jnp.sqrt(energy)
        + weights["score"] * real(player.score)
        + weights["attack"] * real(jnp.minimum(player.attack_damage - 1, MOST_ATTACK))
        + jnp.sum(jnp.where(owned, weights.programs, 0.0))
        + jnp.where(ready, weights["undo_ready"], 0.0)
    )


def _dangers(position: Position, where: Where, weights: EvaluationWeights) -> Value:
    """The terms of enemies, transmissions, and programs that stop them."""
    player, enemies = position.player, position.enemies
    present = enemies.present
    turns = turns_to_contact(enemies, player.cell, where.steps)
    in_line = where.fire.has(enemies.cell)

    def count(which: Bool[Array, " n"]) -> Value:
        return real(jnp.sum(which & present, dtype=jnp.int32))

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
        + weights["hits"] * real(hits)
        + jnp.sum(of_kinds * kinds)
        + weights["transmission"] * real(position.transmissions.count)
        + weights["transmission_in_line"] * real(jnp.sum(due, dtype=jnp.int32))
        + weights["line_of_fire"] * real(where.fire.size())
        + weights["late"] * real(jnp.maximum(position.turn - _LATE, 0))
        + jnp.where(player.hp == 1, weights["threat_at_hp_1"], 0.0) * (next_turn + two)
        + jnp.where(position.scheduled_tasks_disabled, weights["calm"], 0.0)
        + jnp.where(position.step_active, weights["step"], 0.0) * next_turn
    )


def turns_to_contact(
    enemies: Enemies, player_cell: Int32[Array, ""], steps: Int32[Array, "36"]
) -> Int32[Array, " n"]:
    """Turns until each enemy can attack; `_NEVER` without a path to the player."""
    there = np.arange(NUM_CELLS)[None, :] == enemies.cell[:, None]
    around_blocks = jnp.max(jnp.where(there, steps[None, :], 0), axis=1)
    straight = distance(enemies.cell, jnp.full_like(enemies.cell, player_cell))
    away = jnp.where(enemies.type == EnemyType.GLITCH, straight, around_blocks)
    speed = by_type(ENEMY_SPEED, enemies.type)
    turns = jnp.where(away == UNREACHED, _NEVER, (away + speed - 1) // speed)
    held_up = (enemies.disabled_turns > 0) | enemies.stunned
    return turns + held_up.astype(jnp.int32)


def _aims(position: Position, where: Where, weights: EvaluationWeights) -> Value:
    """The terms of the goals in this stage: pickups, the best siphon, the exit."""
    siphons = position.player.data_siphons
    number, nearest = _pickups(position, where)
    plans = siphon_values(position, weights) - weights["plan_distance"] * real(where.steps)
    best = _best_plan(position, where, plans)

    in_hand, to_get = siphons > 0, number > 0
    share = jnp.where(in_hand, weights["plan"], weights["plan_without_siphon"])
    plan = jnp.where(in_hand | to_get, share * best, 0.0)
    pickup = weights["pickup"] * number + weights["pickup_distance"] * nearest
    busy = to_get | (in_hand & (best > weights["siphon"]))
    exit_ = weights["exit_distance"] * real(where.to_exit) * jnp.where(busy, 0.15, 1.0)
    return plan + jnp.where(to_get, pickup, 0.0) + exit_


def _pickups(position: Position, where: Where) -> tuple[Value, Value]:
    """The number of pickups, and the steps to the nearest."""
    pickups = position.board.content == Content.PICKUP
    nearest = jnp.min(jnp.where(pickups, where.steps, UNREACHED))
    nearest = jnp.where(nearest == UNREACHED, NO_PICKUP, nearest)
    return real(jnp.sum(pickups, dtype=jnp.int32)), real(nearest)


def _best_plan(position: Position, where: Where, plans: Float32[Array, "36"]) -> Value:
    """The best plan over the cells on which the player can stand; at least 0."""
    content = position.board.content
    standing = (where.steps != UNREACHED) & ~is_block(content) & (content != Content.EXIT)
    standing = standing | (np.arange(NUM_CELLS) == position.player.cell)
    return jnp.maximum(jnp.max(jnp.where(standing, plans, 0.0)), 0.0)


def _point(config: GameConfig, position: Position, weights: ReturnWeights) -> Value:
    """The value of a point, taken or in a siphon."""
    last = jnp.where(position.stage == LAST_STAGE, weights["score_last"], 0.0)
    return jnp.where(walks_by_undo(config, position), weights["score_ready"], last)


def _paid(config: GameConfig, position: Position, weights: ReturnWeights) -> Value:
    """The terms of the player's points, and of its hp while UNDO walks to victory."""
    hp = jnp.where(walks_by_undo(config, position), weights["ready_hp"], 0.0)
    points = _point(config, position, weights) * real(position.player.score)
    return points + hp * real(position.player.hp)


def _harvest(config: GameConfig, position: Position, where: Where, weights: ReturnWeights) -> Value:
    """The terms of the goals in a harvest: siphons, pickups, the exit."""
    board, player, each = position.board, position.player, yields_of(position.board)
    # SCORE has the value of the points that the available energy buys, until the last stage.
    new = (each.programs & ~position.programs) == np.uint32(1 << Program.SCORE)
    buys = jnp.minimum(player.energy // 5, 3) * (LAST_STAGE - position.stage)
    points = real(each.points) + _QUESTION * real(each.questions)
    points = jnp.sum(crosses(points + jnp.where(new, real(buys), 0.0)), axis=0)

    exit_ = CellSet.from_cell(position.exit_cell)
    from_exit = distances(exit_, ~CellSet.empty(), barrier=board.blocks)
    # On an old board that UNDO has restored, `exit_cell` is elsewhere; the player is at the exit.
    here = board.content[position.exit_cell] == Content.EXIT
    from_exit = jnp.minimum(jnp.where(here, from_exit, where.steps), _MOST_EXIT_STEPS)
    crowd = real(position.enemies.count + position.transmissions.count)
    plans = (
        _point(config, position, weights) * points
        + weights["harvest_base"] * siphon_values(position, weights)
        - weights["harvest_crowd"] * crowd
        - weights["harvest_step"] * real(where.steps)
        - weights["harvest_exit_step"] * real(from_exit)
    )
    best = _best_plan(position, where, jnp.where(points > 0, plans, 0.0))

    number, nearest = _pickups(position, where)
    planned, in_hand, to_get = best > 0, player.data_siphons > 0, number > 0
    without = jnp.where(to_get, weights["harvest_plan_without"], 0.0)
    plan = jnp.where(in_hand, weights["harvest_plan"], without) * best
    fetch = weights["harvest_pickup_distance"] * nearest + weights["harvest_pickup"] * number
    hand = weights["harvest_siphon"] * real(jnp.minimum(player.data_siphons, _MOST_SIPHONS))
    busy = planned & (in_hand | to_get)
    step = weights["harvest_walk"] * jnp.where(busy, 0.15, 1.0) - weights["harvest_flight"] * crowd
    fetch, hand = jnp.where(planned & to_get, fetch, 0.0), jnp.where(planned, hand, 0.0)
    return plan + fetch + hand + step * real(where.to_exit)


def siphon_values(position: Position, weights: EvaluationWeights) -> Float32[Array, "36"]:
    """The value of a siphon at each cell."""
    board, programs = position.board, weights.programs
    each = yields_of(board)
    new = each.programs & ~position.programs
    worth = programs[jnp.clip(board.value, 0, NUM_PROGRAMS - 1)]
    undo = np.uint32(1 << Program.UNDO)
    gain = (
        weights["plan_point"] * real(each.points)
        + weights["plan_resource"] * real(each.credits + each.energy)
        + weights["plan_question"] * real(each.questions)
        - weights["spawn"] * real(each.spawns)
        + jnp.where(new != 0, worth, 0.0)
        + jnp.where(new == undo, 0.5 * weights["undo_ready"], 0.0)
    )
    total = jnp.sum(crosses(gain), axis=0)
    # The first credit has a higher value if UNDO lacks the credit that it costs.
    has_undo = owns(position, Program.UNDO) | (crosses(each.programs == undo)).any(axis=0)
    first_credit = has_undo & (position.player.credits < 1) & crosses(each.credits > 0).any(axis=0)
    return total + jnp.where(first_credit, weights["plan_first_credit"], 0.0)


def real(number: Shaped[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Converts integers or booleans to float32."""
    return jnp.asarray(number).astype(jnp.float32)
