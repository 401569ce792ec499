"""The programs: a table of costs, conditions and effects (rules, section 6).

To add a program, add a member to `Program` and a row to `SPECS`. Action numbers and array shapes
follow from them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from hackmatrix_rl.games.hackmatrix import _effects as effects
from hackmatrix_rl.games.hackmatrix._board import CellSet, distance
from hackmatrix_rl.games.hackmatrix._effects import Effect, Given, View
from hackmatrix_rl.games.hackmatrix._slots import destroy, hit
from hackmatrix_rl.games.hackmatrix._state import (
    LAST_STAGE,
    MAX_HP,
    Board,
    EnemyType,
    Position,
    Program,
    is_block,
)
from hackmatrix_rl.system.batching import Chance, only_first

Damage = Callable[[View], Int32[Array, " max_enemies"]]
Motion = Callable[[View], Int32[Array, " max_enemies"]]
Destruction = Callable[[View, Given], tuple[CellSet, CellSet]]


@dataclass(frozen=True)
class Spec:
    """One program.

    All programs share the code that applies `damage`, `destroys` and `moves`.
    """

    credits: int
    energy: int
    spawn_cost: int  #: The initial spawn_count of its block.
    needs: str  #: Its condition in words, to follow "needs"; empty without one.
    does: str  #: A short description of its effect.
    usable: Callable[[View], Bool[Array, ""]]  #: Its condition, besides ownership and cost.
    damage: Damage | None = None  #: Damage to each enemy.
    #: The cells whose enemies it destroys, and the cells whose transmissions it destroys.
    destroys: Destruction | None = None
    moves: Motion | None = None  #: The wanted cell of each enemy.
    effect: Effect | None = None  #: Everything else.

    def __post_init__(self) -> None:
        largest = Board.FIELDS["spawn_count"].largest
        if not 1 <= self.spawn_cost <= largest:
            raise ValueError(f"spawn_cost must be within 1..{largest}, not {self.spawn_cost}")


def _always(view: View) -> Bool[Array, ""]:
    return jnp.bool_(True)


def _any_enemy(view: View) -> Bool[Array, ""]:
    return view.enemies.any()


def _attacks(where: Callable[[View], Bool[Array, " max_enemies"]]) -> Damage:
    """Deals the player's attack damage to the enemies that `where` marks."""

    def damage(view: View) -> Int32[Array, " max_enemies"]:
        attack_damage = jnp.minimum(view.position.player.attack_damage, 127).astype(jnp.int32)
        return jnp.where(where(view), attack_damage, jnp.int32(0))

    return damage


def _d_bom(view: View) -> Int32[Array, " max_enemies"]:
    """Destroys the nearest daemon and deals 1 damage to the enemies around it."""
    cell = view.position.enemies.cell
    away = distance(cell, jnp.full_like(cell, view.position.player.cell))
    away = jnp.where(view.of_type(EnemyType.DAEMON), away, jnp.int32(127))
    target = only_first(away == jnp.min(away))
    center = CellSet.from_cells(cell, target)
    around = view.standing_on(center.surroundings() - center)
    return jnp.where(target, jnp.int32(127), around.astype(jnp.int32))


def _with_player(position: Position, **values: Int32[Array, ""]) -> Position:
    return replace(position, player=replace(position.player, **values))


def _score(position: Position) -> Position:
    return _with_player(position, score=position.player.score + LAST_STAGE - position.stage)


def _attack_plus(position: Position) -> Position:
    stronger = _with_player(position, attack_damage=position.player.attack_damage + 1)
    return replace(stronger, atk_plus_uses_this_stage=position.atk_plus_uses_this_stage + 1)


def _spawning_block(view: View) -> Bool[Array, ""]:
    board = view.position.board
    return (is_block(board.content) & ~board.siphoned & (board.spawn_count > 0)).any()


# fmt: off
SPECS: dict[Program, Spec] = {
    Program.PUSH: Spec(
        0, 2, 4, "an enemy", "moves each enemy one step away from you",
        _any_enemy, moves=effects.push),
    Program.PULL: Spec(
        0, 2, 4, "an enemy", "moves each enemy one step towards you",
        _any_enemy, moves=effects.pull),
    Program.CRASH: Spec(
        3, 2, 6, "a block, enemy or transmission around you", "clears the 8 cells around you",
        lambda v: (v.around & (v.blocks | v.enemies | v.transmissions)).any(),
        destroys=lambda v, _: (v.around, v.around), effect=effects.crash),
    Program.WARP: Spec(
        2, 2, 5, "an enemy or transmission",
        "takes you onto a random enemy or transmission and removes it",
        lambda v: (v.enemies | v.transmissions).any(),
        destroys=effects.warp_destroys, effect=effects.warp),
    Program.POLY: Spec(
        1, 1, 3, "an enemy", "turns each enemy into another type",
        _any_enemy, effect=effects.poly),
    Program.WAIT: Spec(
        0, 1, 1, "", "passes the turn",
        _always),
    Program.DEBUG: Spec(
        3, 0, 4, "an enemy on a block", "attacks all enemies on blocks",
        lambda v: (v.enemies & v.blocks).any(),
        damage=_attacks(lambda v: v.standing_on(v.blocks))),
    Program.ROW: Spec(
        3, 1, 2, "an enemy in your row", "attacks all enemies in your row",
        lambda v: (v.enemies & v.row).any(),
        damage=_attacks(lambda v: v.standing_on(v.row))),
    Program.COL: Spec(
        3, 1, 2, "an enemy in your column", "attacks all enemies in your column",
        lambda v: (v.enemies & v.column).any(),
        damage=_attacks(lambda v: v.standing_on(v.column))),
    Program.UNDO: Spec(
        1, 0, 3, "an earlier turn", "takes the last turn back",
        lambda v: v.can_undo, effect=effects.undo),
    Program.STEP: Spec(
        0, 3, 4, "", "skips the next enemy turn",
        _always, effect=effects.setting("step_active")),
    Program.SIPH_PLUS: Spec(
        5, 0, 7, "", "gives a data siphon",
        _always, effect=effects.gaining(data_siphons=1)),
    Program.EXCH: Spec(
        4, 0, 3, "4 credits", "turns 4 credits into 4 energy",
        lambda v: v.position.player.credits >= 4, effect=effects.gaining(energy=4)),
    Program.SHOW: Spec(
        2, 0, 2, "that SHOW is not active",
        "shows cryptogs and the types of transmissions in this stage",
        lambda v: ~v.position.show_activated, effect=effects.setting("show_activated")),
    Program.RESET: Spec(
        0, 4, 2, "less than 3 hp", "restores 3 hp",
        lambda v: v.position.player.hp < MAX_HP,
        effect=effects.changing(lambda p: _with_player(p, hp=jnp.int32(MAX_HP)))),
    Program.CALM: Spec(
        2, 4, 6, "that CALM is not active", "stops scheduled tasks in this stage",
        lambda v: ~v.position.scheduled_tasks_disabled,
        effect=effects.setting("scheduled_tasks_disabled")),
    Program.D_BOM: Spec(
        3, 0, 4, "a daemon", "destroys the nearest daemon and hits the 8 cells around it",
        lambda v: v.any_of_type(EnemyType.DAEMON), damage=_d_bom),
    Program.DELAY: Spec(
        1, 2, 4, "a transmission", "delays all transmissions by 3 turns",
        lambda v: v.transmissions.any(), effect=effects.changing(effects.delay)),
    Program.ANTI_V: Spec(
        3, 0, 4, "a virus", "takes 1 hp from each virus",
        lambda v: v.any_of_type(EnemyType.VIRUS),
        damage=lambda v: v.of_type(EnemyType.VIRUS).astype(jnp.int32)),
    Program.SCORE: Spec(
        0, 5, 5, "a stage before the last", "gives a point for each stage left",
        lambda v: v.position.stage < LAST_STAGE, effect=effects.changing(_score)),
    Program.REDUC: Spec(
        2, 1, 3, "a block that would spawn", "lowers the spawns of all blocks by 1",
        _spawning_block, effect=effects.changing(effects.reduce_spawns)),
    Program.ATK_PLUS: Spec(
        4, 4, 8, "fewer than 2 uses in this stage", "raises your attack by 1",
        lambda v: v.position.atk_plus_uses_this_stage < 2,
        effect=effects.changing(_attack_plus)),
    Program.HACK: Spec(
        2, 2, 4, "a siphoned cell", "attacks all enemies on siphoned cells",
        lambda v: v.position.board.siphoned.any(),
        damage=_attacks(lambda v: v.standing_on(CellSet.from_array(v.position.board.siphoned)))),
}
# fmt: on

CREDITS = np.array([SPECS[program].credits for program in Program], np.int32)
"""The cost of each program in credits."""
ENERGY = np.array([SPECS[program].energy for program in Program], np.int32)
"""The cost of each program in energy."""
SPAWN_COSTS = np.array([SPECS[program].spawn_cost for program in Program], np.int32)


def usable_programs(view: View) -> UInt32[Array, ""]:
    """The bit set of the programs that are owned, affordable and usable."""
    position = view.position
    credits_, energy = position.player.credits, position.player.energy
    usable = jnp.uint32(0)
    for program, spec in SPECS.items():
        met = spec.usable(view) & (credits_ >= spec.credits) & (energy >= spec.energy)
        usable = usable | (met.astype(jnp.uint32) << program.value)
    return usable & position.programs


def run_program(
    position: Position,
    program: Int32[Array, ""],
    snapshot: UInt32[Array, " snapshot_words"],
    *,
    chance: Chance,
) -> tuple[Position, Int32[Array, ""]]:
    """Pays for a program and applies it. Returns the position and the kills that count."""
    player = position.player
    position = _with_player(
        position,
        credits=player.credits - jnp.asarray(CREDITS)[program],
        energy=player.energy - jnp.asarray(ENERGY)[program],
    )
    view = View.from_position(position, can_undo=jnp.bool_(True))
    given = Given(chance, snapshot, *effects.random_target(position, chance=chance))

    damage = jnp.zeros_like(position.enemies.hp)
    wanted = position.enemies.cell
    struck = silenced = CellSet.empty()
    for each, spec in SPECS.items():
        runs = program == each
        if spec.damage is not None:
            damage = jnp.where(runs, spec.damage(view), damage)
        if spec.moves is not None:
            wanted = jnp.where(runs, spec.moves(view), wanted)
        if spec.destroys is not None:
            some, others = spec.destroys(view, given)
            struck, silenced = struck | some.where(runs), silenced | others.where(runs)
    enemies, kills = hit(effects.moved(position.enemies, wanted), damage)
    enemies, by_destruction = destroy(enemies, struck)
    transmissions, cut = destroy(position.transmissions, silenced)
    kills = kills + by_destruction + cut
    after = replace(position, enemies=enemies, transmissions=transmissions)

    for each, spec in SPECS.items():
        if spec.effect is not None:
            changed, more = spec.effect(view, given)
            runs = program == each
            after = _overlay(runs, position, changed, after)
            kills = kills + jnp.where(runs, more, 0)
    return after, kills


def _overlay(
    runs: Bool[Array, ""], before: Position, changed: Position, after: Position
) -> Position:
    """`changed` if the program runs, else `after`. An unchanged leaf costs nothing."""

    # Only one program runs. If it is this one, no other effect has changed `after`.
    def one(old: Array, new: Array, kept: Array) -> Array:
        return kept if new is old else jnp.where(runs, new, kept)

    return jax.tree.map(one, before, changed, after)
