"""Positions in and out, in the layout of the recordings (tests/data/conformance/README.md)."""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Shaped

from hackmatrix_rl.game.board import SIZE, CellSet
from hackmatrix_rl.game.config import GameConfig
from hackmatrix_rl.game.history import pack
from hackmatrix_rl.game.state import (
    Board,
    Enemies,
    History,
    Player,
    Position,
    State,
    Transmissions,
)
from hackmatrix_rl.game.validation import (
    CELL,
    ENEMY,
    GAME,
    PLAYER,
    TOP_GAME,
    TRANSMISSION,
    checked,
)

PADDING = 40
"""Rows of the enemy and transmission arrays; more where a config has room for more."""


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
    now = checked(arrays, "", config, batched=batched)
    top = checked(arrays, "top_", config, batched=batched) if "top_player" in arrays else now
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


def _to_device(arrays: dict[str, np.ndarray]) -> dict[str, Array]:
    return {name: jnp.asarray(array) for name, array in arrays.items()}


@partial(jax.jit, static_argnums=0)
def _build(config: GameConfig, now: dict[str, Array], top: dict[str, Array]) -> State:
    def one(now: dict[str, Array], top: dict[str, Array]) -> State:
        game = dict(zip(GAME, now["game"], strict=True))
        names = GAME if top["game"].size == len(GAME) else TOP_GAME
        position = _position(now, game)
        remembered = _position(top, game | dict(zip(names, top["game"], strict=True)))
        count = jnp.minimum(now["game"][GAME.index("snapshots")], config.history)
        row = pack(remembered)
        ring = jnp.broadcast_to(row, (config.history, row.size))
        return State(position, History(ring, jnp.remainder(count, config.history), count))

    return jax.vmap(one)(now, top)


def _position(arrays: dict[str, Array], game: dict[str, Array]) -> Position:
    player = dict(zip(PLAYER, arrays["player"], strict=True))
    cell = _small(player.pop("row") * SIZE + player.pop("col"))
    enemy = dict(zip(ENEMY, arrays["enemies"].T, strict=True))
    transmission = dict(zip(TRANSMISSION, arrays["transmissions"].T, strict=True))
    cells = dict(zip(CELL, arrays["cells"].T, strict=True))
    known = (enemy["last_known row"] >= 0) & (enemy["last_known col"] >= 0)
    last_known = jnp.where(known, enemy["last_known row"] * SIZE + enemy["last_known col"], -1)
    return Position(
        player=Player(cell=cell, **player),
        board=Board(
            content=_small(cells["content"]),
            value=_small(cells["value"]),
            spawn_count=_small(cells["spawn_count"]),
            credits=_small(cells["credits"]),
            energy=_small(cells["energy"]),
            siphoned=CellSet.from_array(_flag(cells["siphoned"])),
            siphon_center=CellSet.from_array(_flag(cells["siphon_center"])),
        ),
        enemies=Enemies(
            present=jnp.arange(enemy["type"].size) < arrays["num_enemies"],
            type=_small(enemy["type"]),
            cell=_small(enemy["row"] * SIZE + enemy["col"]),
            hp=_small(enemy["hp"]),
            disabled_turns=_small(enemy["disabled_turns"]),
            stunned=_flag(enemy["stunned"]),
            last_known=_small(last_known),
            from_scheduled_task=_flag(enemy["from_scheduled_task"]),
            spawned_from_siphon=_flag(enemy["spawned_from_siphon"]),
        ),
        transmissions=Transmissions(
            present=jnp.arange(transmission["type"].size) < arrays["num_transmissions"],
            type=_small(transmission["type"]),
            cell=_small(transmission["row"] * SIZE + transmission["col"]),
            turns_remaining=transmission["turns_remaining"],
            from_scheduled_task=_flag(transmission["from_scheduled_task"]),
            spawned_from_siphon=_flag(transmission["spawned_from_siphon"]),
        ),
        owned=arrays["owned"] > 0,
        stage=game["stage"],
        turn=game["turn"],
        exit_cell=_small(game["exit row"] * SIZE + game["exit col"]),
        show_activated=_flag(game["show_activated"]),
        scheduled_tasks_disabled=_flag(game["scheduled_tasks_disabled"]),
        step_active=_flag(game["step_active"]),
        atk_plus_uses_this_stage=game["atk_plus_uses_this_stage"],
        scheduled_task_interval=game["scheduled_task_interval"],
        next_scheduled_task_turn=game["next_scheduled_task_turn"],
        pending_siphon_transmissions=game["pending_siphon_transmissions"],
        dropped=jnp.int32(0),
    )


def _small(values: Shaped[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    return values.astype(jnp.int8)


def _flag(values: Shaped[Array, "*shape"]) -> Bool[Array, "*shape"]:
    return values.astype(bool)
