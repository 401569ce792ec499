"""New games and stage set-up (rules, sections 2 and 3)."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, UInt32

from hackmatrix_rl.games.hackmatrix._board import (
    NUM_CELLS,
    CellSet,
    constant_set,
    corners,
    flood,
    inner_bits,
    inner_cells,
)
from hackmatrix_rl.games.hackmatrix._config import GameConfig
from hackmatrix_rl.games.hackmatrix._history import empty_history
from hackmatrix_rl.games.hackmatrix._programs import SPAWN_COSTS
from hackmatrix_rl.games.hackmatrix._slots import spawn_transmissions
from hackmatrix_rl.games.hackmatrix._state import (
    ALL_PROGRAMS,
    MAX_HP,
    MAX_POINTS,
    Board,
    Content,
    Enemies,
    Player,
    Position,
    State,
    Transmissions,
)
from hackmatrix_rl.games.hackmatrix._streams import ContentStream, GameStream, StageStream
from hackmatrix_rl.system.batching import (
    Chance,
    avoids_rounds,
    below,
    first_success,
    materialize,
    platform,
    random_bit,
    settled,
    size_of,
    sparse_cond,
    sparse_while_loop,
)

FIRST_INTERVAL = 12
"""Turns between scheduled tasks in stage 1; one less in each later stage."""
BLOCKS = (5, 11)
"""The smallest and the largest number of blocks of a layout."""
MAX_LAYOUTS = 104
"""Layouts drawn before a stage stays without blocks.

The original stops after 100. This is the next multiple of every number in `AT_ONCE`.
"""
AT_ONCE = {"cpu": 8, "tpu": 1, "gpu": 13}
"""Layouts drawn in parallel per round, by platform. The first acceptable one is used.

Nearly half of all layouts are acceptable. On a GPU a second round is rare.
"""


@eqx.filter_jit  # traced once, however many programs contain it
def new_game(
    config: GameConfig, *, key: Key[Array, ""], stage: Int32[Array, ""] | None = None
) -> State:
    """A new game.

    Args:
        config: sizes and league of the game.
        key: source of randomness.
        stage: the stage to set up, 1 to 8; by default 1, the only one in the rules.
    """
    chance = Chance.from_key(key)
    blank = blank_position(config, chance=chance.fold_in(GameStream.PLAYER))
    if stage is not None:
        interval = FIRST_INTERVAL + 1 - stage
        blank = replace(blank, stage=stage, scheduled_task_interval=interval)
    position = set_up_stage(blank, chance=chance.fold_in(GameStream.STAGE))
    return State(position=position, history=empty_history(config, position))


def blank_position(config: GameConfig, *, chance: Chance) -> Position:
    """Section 2: the player on a corner, with a starting bonus. No stage is set up yet."""
    bonus = below(chance.bits(0), 3)
    zero = jnp.int32(0)
    player = Player(
        cell=corners().choose(chance.bits(1)),
        hp=jnp.int32(MAX_HP),
        credits=jnp.where(bonus == 0, 10, zero),
        energy=jnp.where(bonus == 1, 11, zero),
        data_siphons=jnp.where(bonus == 2, 1, zero),
        score=zero,
        attack_damage=jnp.int32(1),
    )
    return Position(
        player=player,
        board=Board(jnp.zeros(NUM_CELLS, jnp.uint32)),
        enemies=Enemies(jnp.zeros(config.max_enemies, jnp.uint32)),
        transmissions=Transmissions(jnp.zeros(config.max_transmissions, jnp.uint32)),
        programs=jnp.uint32(0),
        stage=jnp.int32(1),
        turn=zero,
        exit_cell=player.cell,
        show_activated=jnp.bool_(False),
        scheduled_tasks_disabled=jnp.bool_(False),
        step_active=jnp.bool_(False),
        atk_plus_uses_this_stage=zero,
        scheduled_task_interval=jnp.int32(FIRST_INTERVAL),
        next_scheduled_task_turn=zero,
        pending_siphon_transmissions=zero,
        dropped=zero,
    )


def set_up_stage(
    position: Position, *, chance: Chance, needed: Bool[Array, ""] | bool = True
) -> Position:
    """Sets up stage `position.stage` (section 3). The result is undefined unless `needed`."""
    exit_chance = chance.fold_in(StageStream.EXIT)
    exit_cell = (corners() - CellSet.from_cell(position.player.cell)).choose(exit_chance.bits())
    occupied = position.enemies.cells | position.transmissions.cells
    layout, contents = chance.fold_in(StageStream.LAYOUT), chance.fold_in(StageStream.CONTENTS)
    blocks = draw_layout(position.player.cell, exit_cell, occupied, chance=layout, needed=needed)
    board = draw_contents(position.player.cell, exit_cell, blocks, chance=contents)
    board = draw_resources(board, exit_cell, blocks, chance=chance.fold_in(StageStream.RESOURCES))
    position = replace(
        position,
        board=board,
        exit_cell=exit_cell,
        turn=jnp.int32(0),
        next_scheduled_task_turn=position.scheduled_task_interval,
        show_activated=jnp.bool_(False),
        scheduled_tasks_disabled=jnp.bool_(False),
        step_active=jnp.bool_(False),
        atk_plus_uses_this_stage=jnp.int32(0),
    )
    transmissions, missed = spawn_transmissions(
        position.transmissions,
        position.player.cell,
        position.enemies.cells | blocks,
        scheduled=jnp.bool_(False),
        from_siphon=jnp.int32(0),
        unflagged=position.stage,
        chance=chance.fold_in(StageStream.TRANSMISSIONS),
    )
    return replace(position, transmissions=transmissions, dropped=position.dropped + missed)


@eqx.filter_jit  # traced once, however many programs contain it
def set_up_if(condition: Bool[Array, ""], position: Position, *, chance: Chance) -> Position:
    """`set_up_stage` if the condition holds."""
    return sparse_cond(
        condition,
        lambda position, given: set_up_stage(position, chance=given[0], needed=given[1]),
        position,
        (chance, condition),
        share=8,
    )


def draw_layout(
    player_cell: Int32[Array, ""],
    exit_cell: Int32[Array, ""],
    occupied: CellSet,
    *,
    chance: Chance,
    needed: Bool[Array, ""] | bool = True,
) -> CellSet:
    """The cells of the blocks. Their number is drawn once; layouts are redrawn until acceptable.

    Unless `needed`, nothing is drawn, and no other game of the batch waits for it.
    """
    allowed = ~(corners() | occupied)
    number = BLOCKS[0] + below(chance.bits(), BLOCKS[1] - BLOCKS[0] + 1)
    number = jnp.minimum(number, allowed.size())
    at_once = AT_ONCE.get(platform(), AT_ONCE["cpu"])
    Carry = tuple[Int32[Array, ""], Bool[Array, ""], CellSet]
    Given = tuple[CellSet, Int32[Array, ""], Int32[Array, ""], Int32[Array, ""], Chance]

    def draw(index: Int32[Array, ""], given: Given) -> tuple[Bool[Array, ""], CellSet]:
        allowed, number, player_cell, exit_cell, chance = given
        blocks, complete = draw_cells(allowed, number, chance=chance.fold_in(index))
        return complete & acceptable(blocks, player_cell, exit_cell), blocks

    def draw_some(carry: Carry, given: Given) -> Carry:
        tries, _, _ = carry
        accepted, blocks = first_success(draw, tries + 1, given, count=at_once)
        return tries + at_once, accepted, blocks

    _, accepted, blocks = sparse_while_loop(
        lambda carry, _: ~carry[1] & (carry[0] < MAX_LAYOUTS),
        draw_some,
        (jnp.int32(0), ~jnp.bool_(needed), CellSet.empty()),
        (allowed, number, player_cell, exit_cell, chance),
        shares=(2,),
    )
    return blocks.where(accepted)


_DRAWS_A_WORD, _WORDS_A_LAYOUT = 6, 4


def draw_cells(
    allowed: CellSet, number: Int32[Array, ""], *, chance: Chance
) -> tuple[CellSet, Bool[Array, ""]]:
    """`number` distinct allowed cells, uniformly. None is a corner.

    Draws a cell 24 times, and ignores cells that are not allowed or drawn before. This is symmetric
    in the cells, so every complete layout is equally likely. Also returns whether the layout is
    complete; for 11 of 32 cells it nearly always is.
    """
    open_ = inner_bits(allowed)

    def draw_some(word: Int32[Array, ""], chosen: UInt32[Array, ""]) -> UInt32[Array, ""]:
        bits = chance.bits(word)
        for draw in range(_DRAWS_A_WORD):
            bit = jnp.uint32(1) << ((bits >> (5 * draw)) & 31)
            chosen = jnp.where(size_of(chosen) < number, chosen | (bit & open_), chosen)
        return chosen

    chosen = jax.lax.fori_loop(0, _WORDS_A_LAYOUT, draw_some, jnp.uint32(0), unroll=avoids_rounds())
    return inner_cells(chosen), size_of(chosen) == number


def acceptable(
    blocks: CellSet, player_cell: Int32[Array, ""], exit_cell: Int32[Array, ""]
) -> Bool[Array, ""]:
    """Whether the free cells are connected and every block has a free neighbour."""
    free = ~blocks
    # A path may end at the exit but not pass it, unless it is at (0, 0): a quirk of the original.
    barrier = CellSet.from_cell(exit_cell) - constant_set((0,))
    reached = flood(CellSet.from_cell(player_cell), free, until=CellSet.empty(), barrier=barrier)
    unreached = free - reached
    walled_in = blocks - free.neighbours()
    return ~unreached.any() & ~walled_in.any()


def draw_contents(
    player_cell: Int32[Array, ""], exit_cell: Int32[Array, ""], blocks: CellSet, *, chance: Chance
) -> Board:
    """The board with the contents of the blocks, the exit, and pickups on the other corners."""
    is_block = blocks.to_array()
    kind = chance.words(NUM_CELLS)
    # The top bit is data or program. The bits below it decide whether the block is hidden.
    program = is_block & (kind >> 31 == 1)
    hidden = below(kind << 1, 10) == 0
    points = 1 + below(chance.words(NUM_CELLS, first=NUM_CELLS), MAX_POINTS)
    programs = distinct_programs(
        CellSet.from_array(program), chance=chance.fold_in(ContentStream.PROGRAMS)
    )

    shown = jnp.where(program, Content.PROGRAM, Content.DATA)
    secret = jnp.where(program, Content.HIDDEN_PROGRAM, Content.HIDDEN_DATA)
    exit_ = CellSet.from_cell(exit_cell)
    pickups = (corners() - exit_ - CellSet.from_cell(player_cell)).to_array()
    rest = jnp.where(pickups, Content.PICKUP, Content.EMPTY)
    rest = jnp.where(exit_.to_array(), Content.EXIT, rest)
    data = jnp.where(is_block & ~program, points, 0)
    board = Board.from_fields(
        content=jnp.where(is_block, jnp.where(hidden, secret, shown), rest),
        value=data,
        spawn_count=data,
    )
    return Board(board.words | programs.words)


_NUMBER_BITS = 5
_NUMBERS_A_WORD = 32 // _NUMBER_BITS
_A_NUMBER = (1 << _NUMBER_BITS) - 1


def distinct_programs(
    wanted: CellSet, *, chance: Chance, unused: UInt32[Array, ""] | None = None
) -> Board:
    """Distinct uniform programs, with their spawn_count, on the wanted cells (at most 11).

    They are drawn from `unused`, a bit set; by default from all programs.
    """
    wanted_cells = wanted.to_array()
    unused = jnp.uint32(ALL_PROGRAMS) if unused is None else unused
    count = wanted.size()
    Carry = tuple[Int32[Array, ""], UInt32[Array, ""], UInt32[Array, ""], UInt32[Array, ""]]

    def one(carry: Carry) -> Carry:
        index, unused, first, rest = carry
        number = random_bit(unused, chance.bits(index)).astype(jnp.uint32)
        unused = unused & ~(jnp.uint32(1) << number)
        # Each word has 6 numbers of 5 bits: [4 9 1 2 3 7 5] -> first = 4 | 9 << 5 | ... | 7 << 25,
        # rest = 5. A shift out of range gives 0. Nobody reads bits 30 and 31.
        first = first | number << (_NUMBER_BITS * index).astype(jnp.uint32)
        rest = rest | number << (_NUMBER_BITS * (index - _NUMBERS_A_WORD)).astype(jnp.uint32)
        return index + 1, unused, first, rest

    # Rounds beyond `count` add numbers that no cell reads.
    start = (jnp.int32(0), unused, jnp.uint32(0), jnp.uint32(0))
    drawn = settled(lambda carry: carry[0] < count, one, start, rounds=BLOCKS[1])
    _, _, first, rest = materialize(drawn)
    place = wanted.ranks()
    later = place >= _NUMBERS_A_WORD
    shift = _NUMBER_BITS * jnp.where(later, place - _NUMBERS_A_WORD, place)
    number = (jnp.where(later, rest, first) >> shift.astype(jnp.uint32)) & _A_NUMBER
    words = Board.word(value=number, spawn_count=jnp.asarray(SPAWN_COSTS)[number])
    return Board(jnp.where(wanted_cells, words, jnp.uint32(0)))


def draw_resources(
    board: Board, exit_cell: Int32[Array, ""], blocks: CellSet, *, chance: Chance
) -> Board:
    """1, 2 or 3 credits or energy on every cell except blocks and the exit."""
    bits = chance.words(NUM_CELLS)
    share = below(bits, 20)
    amount = 1 + (share >= 9).astype(jnp.int32) + (share >= 18).astype(jnp.int32)
    amount = jnp.where((~(blocks | CellSet.from_cell(exit_cell))).to_array(), amount, 0)
    credit = (bits & 1) == 0  # `below` does not use the lowest bits
    return board.replace(credits=jnp.where(credit, amount, 0), energy=jnp.where(credit, 0, amount))
