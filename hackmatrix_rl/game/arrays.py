"""Positions in and out, in the layout of the recordings (tests/data/conformance/README.md)."""

from collections.abc import Iterator, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from hackmatrix_rl.game.board import NUM_CELLS, SIZE, CellSet
from hackmatrix_rl.game.config import GameConfig
from hackmatrix_rl.game.history import pack
from hackmatrix_rl.game.state import (
    ENEMY_HP,
    LAST_STAGE,
    MAX_HP,
    NUM_ENEMY_TYPES,
    NUM_PROGRAMS,
    Board,
    Content,
    Enemies,
    History,
    Player,
    Position,
    State,
    Transmissions,
)

PADDING = 40
"""Rows of the enemy and transmission arrays; more where a config has room for more."""

_PLAYER = (
    "row", "col", "hp", "credits", "energy", "data_siphons", "score", "attack_damage",
)  # fmt: skip
_GAME = (
    "stage", "turn", "exit row", "exit col", "show_activated", "scheduled_tasks_disabled",
    "step_active", "atk_plus_uses_this_stage", "scheduled_task_interval",
    "next_scheduled_task_turn", "pending_siphon_transmissions", "snapshots",
)  # fmt: skip
_TOP_GAME = ("turn", "show_activated", "scheduled_tasks_disabled", "atk_plus_uses_this_stage")
_ENEMY = (
    "type", "row", "col", "hp", "disabled_turns", "stunned", "last_known row", "last_known col",
    "from_scheduled_task", "spawned_from_siphon",
)  # fmt: skip
_TRANSMISSION = (
    "row", "col", "turns_remaining", "type", "from_scheduled_task", "spawned_from_siphon",
)  # fmt: skip
_CELL = ("content", "value", "spawn_count", "credits", "energy", "siphoned", "siphon_center")

_BOUNDLESS = (0, np.iinfo(np.int32).max)
_ON_BOARD = (0, SIZE - 1)
_FLAG = (0, 1)
_RANGES = {
    "row": _ON_BOARD, "col": _ON_BOARD, "exit row": _ON_BOARD, "exit col": _ON_BOARD,
    "last_known row": (-1, SIZE - 1), "last_known col": (-1, SIZE - 1),
    "hp": (0, MAX_HP), "stage": (1, LAST_STAGE), "type": (0, NUM_ENEMY_TYPES - 1),
    "turns_remaining": (np.iinfo(np.int32).min, np.iinfo(np.int32).max),
    "disabled_turns": (0, 127), "stunned": _FLAG, "from_scheduled_task": _FLAG,
    "spawned_from_siphon": _FLAG, "show_activated": _FLAG, "scheduled_tasks_disabled": _FLAG,
    "step_active": _FLAG, "siphoned": _FLAG, "siphon_center": _FLAG,
    "content": (0, len(Content) - 1), "value": (0, 127), "spawn_count": (0, 9),
    "cell credits": (0, 3), "cell energy": (0, 3),
}  # fmt: skip


def from_arrays(config: GameConfig, arrays: Mapping[str, np.ndarray]) -> State:
    """A game, or a batch of games, from a recorded position.

    Args:
        config: the capacities; what does not fit in them is an error.
        arrays: `player`, `game`, `owned`, `enemies`, `num_enemies`, `transmissions`,
            `num_transmissions` and `cells`, with or without a leading batch axis. With the
            prefix `top_`, optionally, the newest snapshot. Older ones that `game` counts are
            unknown and stand as copies of it (of the position, where there is no `top_`).
            Other names are ignored.

    Raises:
        ValueError: if an array is missing or has another shape, or if a position is
            impossible or does not fit; the message names the record and the field.
    """
    batched = np.ndim(arrays["player"]) == 2 if "player" in arrays else True
    now = _checked(arrays, "", config, batched)
    top = _checked(arrays, "top_", config, batched) if "top_player" in arrays else now
    states = _build(config, _to_device(now), _to_device(top))
    return states if batched else jax.tree.map(lambda x: x[0], states)


def to_arrays(state: State) -> dict[str, np.ndarray]:
    """The layout that `from_arrays` reads, from one game or a batch of games.

    The snapshots themselves are left out; `game` counts those that are held. The order in
    which programs were acquired is not kept: owned ones are numbered in the order of actions.
    """
    position = jax.tree.map(np.asarray, state.position)
    count = np.asarray(state.history.count)
    if count.ndim == 0:
        lead = jax.tree.map(lambda x: np.asarray(x)[None], state)
        return {name: array[0] for name, array in to_arrays(lead).items()}

    player, board = position.player, position.board
    bits = jax.vmap(CellSet.to_array)
    cells = [
        board.content, board.value, board.spawn_count, board.credits, board.energy,
        np.asarray(bits(board.siphoned)), np.asarray(bits(board.siphon_center)),
    ]  # fmt: skip
    enemies, transmissions = position.enemies, position.transmissions
    known = enemies.last_known >= 0
    enemy_columns = [
        enemies.type, enemies.cell // SIZE, enemies.cell % SIZE, enemies.hp,
        enemies.disabled_turns, enemies.stunned, np.where(known, enemies.last_known // SIZE, -1),
        np.where(known, enemies.last_known % SIZE, -1), enemies.from_scheduled_task,
        enemies.spawned_from_siphon,
    ]  # fmt: skip
    transmission_columns = [
        transmissions.cell // SIZE, transmissions.cell % SIZE, transmissions.turns_remaining,
        transmissions.type, transmissions.from_scheduled_task, transmissions.spawned_from_siphon,
    ]  # fmt: skip
    game = [
        position.stage, position.turn, position.exit_cell // SIZE, position.exit_cell % SIZE,
        position.show_activated, position.scheduled_tasks_disabled, position.step_active,
        position.atk_plus_uses_this_stage, position.scheduled_task_interval,
        position.next_scheduled_task_turn, position.pending_siphon_transmissions, count,
    ]  # fmt: skip
    return {
        "player": np.stack(
            [
                player.cell // SIZE, player.cell % SIZE, player.hp, player.credits,
                player.energy, player.data_siphons, player.score, player.attack_damage,
            ],
            axis=1,
        ).astype(np.int32),
        "game": np.stack(game, axis=1).astype(np.int32),
        "owned": (np.cumsum(position.owned, axis=1) * position.owned).astype(np.int8),
        "enemies": _listed(enemy_columns, enemies.present).astype(np.int8),
        "num_enemies": enemies.present.sum(1).astype(np.int8),
        "transmissions": _listed(transmission_columns, transmissions.present),
        "num_transmissions": transmissions.present.sum(1).astype(np.int8),
        "cells": np.stack(cells, axis=2).astype(np.int8),
    }  # fmt: skip


def _listed(columns: list[np.ndarray], present: np.ndarray) -> np.ndarray:
    """The entries that are present, first come first, padded with zeros."""
    table = np.stack(columns, axis=2).astype(np.int32) * present[..., None]
    order = np.argsort(~present, axis=1, kind="stable")
    table = np.take_along_axis(table, order[..., None], axis=1)
    missing = max(PADDING - table.shape[1], 0)
    return np.pad(table, ((0, 0), (0, missing), (0, 0)))


def _checked(
    arrays: Mapping[str, np.ndarray], prefix: str, config: GameConfig, batched: bool
) -> dict[str, np.ndarray]:
    """The arrays of one position, with a batch axis, found possible and small enough."""
    game_columns = _TOP_GAME if prefix else _GAME
    shapes = {
        "player": (len(_PLAYER),), "game": (len(game_columns),), "owned": (NUM_PROGRAMS,),
        "enemies": (None, len(_ENEMY)), "num_enemies": (),
        "transmissions": (None, len(_TRANSMISSION)), "num_transmissions": (),
        "cells": (NUM_CELLS, len(_CELL)),
    }  # fmt: skip
    out = {}
    for name, shape in shapes.items():
        if prefix + name not in arrays:
            raise ValueError(f"{prefix}{name} is missing")
        array = np.asarray(arrays[prefix + name])
        array = array if batched else array[None]
        fits = array.ndim == len(shape) + 1 and all(
            want in (None, have) for want, have in zip(shape, array.shape[1:], strict=True)
        )
        if not fits:
            raise ValueError(f"{prefix}{name} has shape {array.shape}, not (records, *{shape})")
        if array.dtype.kind not in "iub":
            raise ValueError(f"{prefix}{name} has dtype {array.dtype}, not an integer type")
        out[name] = array.astype(np.int32)

    def check(name: str, columns: tuple[str, ...], used: np.ndarray | None = None) -> None:
        for number, column in enumerate(columns):
            values = out[name][..., number]
            key = f"cell {column}" if f"cell {column}" in _RANGES and name == "cells" else column
            low, high = _RANGES.get(key, _BOUNDLESS)
            bad = (values < low) | (values > high)
            _refuse(bad if used is None else bad & used, prefix + name, column, values, low, high)

    for name, capacity, field in (
        ("enemies", config.max_enemies, "max_enemies"),
        ("transmissions", config.max_transmissions, "max_transmissions"),
    ):
        number, rows = out[f"num_{name}"], out[name].shape[1]
        _refuse((number < 0) | (number > rows), f"{prefix}num_{name}", "number", number, 0, rows)
        over = np.flatnonzero(number > capacity)
        if over.size:
            raise ValueError(
                f"record {over[0]}: {prefix}num_{name} is {number[over[0]]}, more than "
                f"{field}={capacity} of the config"
            )
        used = np.arange(rows) < number[:, None]
        check(name, _ENEMY if name == "enemies" else _TRANSMISSION, used)
        if name == "enemies":
            kinds = np.clip(out[name][..., 0], 0, NUM_ENEMY_TYPES - 1)
            hp = out[name][..., 3]
            full = ENEMY_HP[kinds]
            _refuse(
                ((hp < 1) | (hp > full)) & used, prefix + name, "hp", hp, 1, "its type's full hp"
            )
        padded = np.zeros((len(number), capacity, out[name].shape[2]), np.int32)
        keep = min(rows, capacity)
        padded[:, :keep] = out[name][:, :keep]
        out[name] = padded
    check("player", _PLAYER)
    check("game", game_columns)
    check("cells", _CELL)
    content, value = out["cells"][..., 0], out["cells"][..., 1]
    data = (content == Content.DATA) | (content == Content.HIDDEN_DATA)
    program = (content == Content.PROGRAM) | (content == Content.HIDDEN_PROGRAM)
    _refuse(data & ((value < 1) | (value > 9)), f"{prefix}cells", "points", value, 1, 9)
    last = NUM_PROGRAMS - 1
    _refuse(program & (value > last), f"{prefix}cells", "program", value, 0, last)
    return out


def _to_device(arrays: dict[str, np.ndarray]) -> dict[str, Array]:
    return {name: jnp.asarray(array) for name, array in arrays.items()}


def _refuse(
    bad: np.ndarray, name: str, column: str, values: np.ndarray, low: object, high: object
) -> None:
    for record, *row in _first(bad):
        where = f"{name}[{row[0]}]" if row else name
        raise ValueError(
            f"record {record}: {column} of {where} is {values[(record, *row)]}, "
            f"not within {low}..{high}"
        )


def _first(bad: np.ndarray) -> Iterator[tuple[int, ...]]:
    for index in np.argwhere(bad)[:1]:
        yield tuple(int(i) for i in index)


@partial(jax.jit, static_argnums=0)
def _build(config: GameConfig, now: dict[str, Array], top: dict[str, Array]) -> State:
    def one(now: dict[str, Array], top: dict[str, Array]) -> State:
        game = dict(zip(_GAME, now["game"], strict=True))
        names = _GAME if top["game"].size == len(_GAME) else _TOP_GAME
        position = _position(now, game)
        remembered = _position(top, game | dict(zip(names, top["game"], strict=True)))
        count = jnp.minimum(now["game"][_GAME.index("snapshots")], config.history)
        row = pack(remembered)
        ring = jnp.broadcast_to(row, (config.history, row.size))
        return State(position, History(ring, jnp.remainder(count, config.history), count))

    return jax.vmap(one)(now, top)


def _position(arrays: dict[str, Array], game: dict[str, Array]) -> Position:
    player = dict(zip(_PLAYER, arrays["player"], strict=True))
    cell = _small(player.pop("row") * SIZE + player.pop("col"))
    enemy = dict(zip(_ENEMY, arrays["enemies"].T, strict=True))
    transmission = dict(zip(_TRANSMISSION, arrays["transmissions"].T, strict=True))
    cells = dict(zip(_CELL, arrays["cells"].T, strict=True))
    known = (enemy["last_known row"] >= 0) & (enemy["last_known col"] >= 0)
    last_known = jnp.where(known, enemy["last_known row"] * SIZE + enemy["last_known col"], -1)
    flag = lambda value: value.astype(bool)  # noqa: E731
    return Position(
        player=Player(cell=cell, **player),
        board=Board(
            content=_small(cells["content"]),
            value=_small(cells["value"]),
            spawn_count=_small(cells["spawn_count"]),
            credits=_small(cells["credits"]),
            energy=_small(cells["energy"]),
            siphoned=CellSet.from_array(flag(cells["siphoned"])),
            siphon_center=CellSet.from_array(flag(cells["siphon_center"])),
        ),
        enemies=Enemies(
            present=jnp.arange(enemy["type"].size) < arrays["num_enemies"],
            type=_small(enemy["type"]),
            cell=_small(enemy["row"] * SIZE + enemy["col"]),
            hp=_small(enemy["hp"]),
            disabled_turns=_small(enemy["disabled_turns"]),
            stunned=flag(enemy["stunned"]),
            last_known=_small(last_known),
            from_scheduled_task=flag(enemy["from_scheduled_task"]),
            spawned_from_siphon=flag(enemy["spawned_from_siphon"]),
        ),
        transmissions=Transmissions(
            present=jnp.arange(transmission["type"].size) < arrays["num_transmissions"],
            type=_small(transmission["type"]),
            cell=_small(transmission["row"] * SIZE + transmission["col"]),
            turns_remaining=transmission["turns_remaining"],
            from_scheduled_task=flag(transmission["from_scheduled_task"]),
            spawned_from_siphon=flag(transmission["spawned_from_siphon"]),
        ),
        owned=arrays["owned"] > 0,
        stage=game["stage"],
        turn=game["turn"],
        exit_cell=_small(game["exit row"] * SIZE + game["exit col"]),
        show_activated=flag(game["show_activated"]),
        scheduled_tasks_disabled=flag(game["scheduled_tasks_disabled"]),
        step_active=flag(game["step_active"]),
        atk_plus_uses_this_stage=game["atk_plus_uses_this_stage"],
        scheduled_task_interval=game["scheduled_task_interval"],
        next_scheduled_task_turn=game["next_scheduled_task_turn"],
        pending_siphon_transmissions=game["pending_siphon_transmissions"],
        dropped=jnp.int32(0),
    )


def _small(values: Shaped[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    return values.astype(jnp.int8)
