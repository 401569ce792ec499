"""The recordings of the original game as arrays (tests/data/conformance/README.md)."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from hackmatrix_rl.games.hackmatrix import GameConfig

DATA = Path(__file__).resolve().parents[2] / "data" / "conformance"

CONFIG = GameConfig(max_enemies=40, max_transmissions=40, history=8)
"""Room for everything recorded, and a short history: it is bounded as the README allows."""

Arrays = dict[str, np.ndarray]

POSITION = (
    *("player", "game", "owned", "enemies", "num_enemies", "transmissions", "num_transmissions"),
    "cells",
)

COLUMNS = {
    "player": "row col hp credits energy data_siphons score attack_damage",
    "game": "stage turn exit_row exit_col show_activated scheduled_tasks_disabled step_active"
    " atk_plus_uses_this_stage scheduled_task_interval next_scheduled_task_turn"
    " pending_siphon_transmissions snapshots",
    "enemies": "type row col hp disabled_turns stunned last_known_row last_known_col"
    " from_scheduled_task spawned_from_siphon",
    "transmissions": "row col turns_remaining type from_scheduled_task spawned_from_siphon",
    "cells": "content value spawn_count credits energy siphoned siphon_center",
    "terms": "step_penalty stage_completion score_gain kills data_siphon distance_shaping victory"
    " death_penalty resource_gain resource_holding damage_penalty hp_recovery siphon_quality"
    " program_waste siphon_death_penalty",
}
"""The columns of each array, in words, in the README's order."""

FLAGS = ("legal", "died", "won", "completed")


@dataclass(frozen=True)
class Recording:
    """One file: `n` positions, and what the original made of them.

    Attributes:
        before: the positions; the history's length is at most the bound of `CONFIG`.
        after: the positions after the action (one row an outcome in chance.npz), or empty.
        top: the snapshots that UNDO restores, under `top_` names, or empty.
        other: every array that is not part of a position, by its name in the file.
    """

    before: Arrays
    after: Arrays
    top: Arrays
    other: Arrays

    def __len__(self) -> int:
        return len(self.before["player"])

    @property
    def action(self) -> np.ndarray:
        return self.other["action"].astype(np.int32)


@cache
def load(name: str) -> Recording:
    """Reads `name`.npz."""
    with np.load(DATA / f"{name}.npz") as file:
        arrays = {key: file[key] for key in file.files}
    before = {key: arrays.pop(key) for key in POSITION}
    after = {key: arrays.pop(f"next_{key}") for key in POSITION if f"next_{key}" in arrays}
    top = {f"top_{key}": arrays.pop(f"top_{key}") for key in POSITION if f"top_{key}" in arrays}

    count = before["game"][:, 11]
    held = np.minimum(count, CONFIG.history)
    if after:
        origin = arrays.get("outcome_of", np.arange(len(count)))
        change = after["game"][:, 11] - count[origin]
        after["game"][:, 11] = np.minimum(held[origin] + change, CONFIG.history)
    before["game"][:, 11] = held
    return Recording(before, after, top, arrays)


def rows(arrays: Arrays, index: np.ndarray) -> Arrays:
    """The records `index` of each array."""
    return {key: value[index] for key, value in arrays.items()}


def concatenate(parts: list[Arrays]) -> Arrays:
    """Several batches as one."""
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def canonical(position: Arrays) -> Arrays:
    """A position without what means nothing.

    The order of acquired programs, what lies behind the last enemy or transmission, and the
    last_known cell of an enemy that is no cryptog (POLY gives a new cryptog a fresh one).
    """
    result = {key: np.asarray(position[key]).astype(np.int32) for key in POSITION}
    result["owned"] = (result["owned"] > 0).astype(np.int32)
    for things in ("enemies", "transmissions"):
        slots = result[things].shape[-2]
        present = np.arange(slots) < result[f"num_{things}"][..., None]
        result[things] = np.where(present[..., None], result[things], 0)
    cryptog = result["enemies"][..., 0] == 3
    present = np.arange(cryptog.shape[-1]) < result["num_enemies"][..., None]
    last_known = result["enemies"][..., 6:8]
    result["enemies"][..., 6:8] = np.where((cryptog & present)[..., None], last_known, 0)
    return result


def differences(
    expected: Arrays, got: Arrays, actions: np.ndarray, *, atol: float = 0.0
) -> list[str]:
    """Where two batches disagree, one line an entry: record, action, field, both values."""
    lines = []
    for field, want in expected.items():
        have = np.asarray(got[field])
        if want.shape != have.shape:
            lines.append(f"{field}: shape {want.shape} expected, got {have.shape}")
            continue
        wrong = ~(np.abs(want.astype(np.float64) - have.astype(np.float64)) <= atol)
        names = COLUMNS.get(field, "").split()
        for index in np.argwhere(wrong):
            record, *place = (int(i) for i in index)
            if names and place:
                place[-1] = names[place[-1]]
            lines.append(
                f"record {record} (action {actions[record]}): {field}{place or ''}"
                f" expected {want[tuple(index)]}, got {have[tuple(index)]}"
            )
    return lines


def report(lines: list[str], shown: int = 20) -> str:
    """The first few differences, for a failure's message."""
    return "\n".join([f"{len(lines)} differences", *lines[:shown]])
