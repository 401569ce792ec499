"""What is asked of an outcome that chance had a hand in.

The whole outcome is one question, but where several enemies and spawns are drawn at once it
has more answers than samples. So each thing is also asked on its own: where each enemy went,
and of the transmissions that spawned (the README says why) the cell and the type, apart from
the rest.
"""

import numpy as np

from games.hackmatrix.recordings import Arrays, canonical
from games.hackmatrix.statistics import Table, compare_labels

ENEMIES_ASKED = 14
SPAWNS_ASKED = 5

Labels = dict[str, np.ndarray]


def fingerprint(*parts: np.ndarray) -> np.ndarray:
    """One number a record, equal where all parts are equal."""
    words = np.concatenate([part.reshape(len(part), -1).astype(np.int64) for part in parts], axis=1)
    # A random linear form modulo 2**64: two different records collide with chance 2**-63.
    weights = np.random.default_rng(0).integers(0, 2**64, words.shape[1], np.uint64) | np.uint64(1)
    return words.view(np.uint64) @ weights


def questions(before: Arrays, after: Arrays, outcome: Arrays) -> Labels:
    """The answers of `n` outcomes (flags and terms) and the positions around them, by question."""
    before, after = canonical(before), canonical(after)
    kept = _kept_transmissions(before, after)
    spawned = after["num_transmissions"] - kept
    done = outcome["completed"].astype(bool) & ~outcome["won"].astype(bool)

    slot = np.arange(after["transmissions"].shape[1])
    old = np.where((slot < kept[:, None])[..., None], after["transmissions"], 0)
    game, cells = after["game"].copy(), after["cells"].copy()
    game[done, 2:4] = 0  # a new stage's exit and board: test_completions.py looks at those
    cells[done] = 0
    terms = np.rint(outcome["terms"].astype(np.float64) * 1000)
    flags = np.stack([outcome[name] for name in ("legal", "died", "won", "completed")], axis=1)

    labels = {
        "all but the spawns": fingerprint(
            after["player"], game, after["owned"], after["enemies"], old, spawned, cells
        ),
        "player": fingerprint(after["player"][:, :3]),
        "reward and end": fingerprint(terms, flags),
    }
    for index in range(ENEMIES_ASKED):
        labels[f"enemy {index}"] = fingerprint(after["enemies"][:, index])
    for index in range(SPAWNS_ASKED):
        place = np.minimum(kept + index, slot[-1])
        spawn = after["transmissions"][np.arange(len(kept)), place]
        there = (index < spawned) & ~done
        labels[f"cell of spawn {index}"] = np.where(there, spawn[:, 0] * 6 + spawn[:, 1], -1)
        labels[f"type of spawn {index}"] = np.where(there, spawn[:, 3], -1)
        labels[f"flags of spawn {index}"] = np.where(there, spawn[:, 4] * 2 + spawn[:, 5], -1)
    return labels


def compare_outcomes(
    where: list[str],
    recorded: Labels,
    recorded_of: np.ndarray,
    recorded_count: np.ndarray,
    sampled: Labels,
    sampled_of: np.ndarray,
) -> list[Table]:
    """One table for each question of each position; `_of` is the position, `_count` how often."""
    tables = []
    for position, name in enumerate(where):
        reference, sample = recorded_of == position, sampled_of == position
        if not sample.any():
            continue
        for question, labels in recorded.items():
            table = compare_labels(
                question,
                name,
                labels[reference],
                sampled[question][sample],
                recorded_count[reference],
            )
            if table is not None:
                tables.append(table)
    return tables


def _kept_transmissions(before: Arrays, after: Arrays) -> np.ndarray:
    """How many transmissions of the position before are still there; they come first."""
    kept = np.zeros(len(after["player"]), np.int64)
    here = np.arange(len(kept))
    for index in range(int(before["num_transmissions"].max(initial=0))):
        old = before["transmissions"][:, index]
        new = after["transmissions"][here, np.minimum(kept, after["transmissions"].shape[1] - 1)]
        same = (new[:, [0, 1, 3]] == old[:, [0, 1, 3]]).all(axis=1)
        ticked = (new[:, 2] == old[:, 2]) | (new[:, 2] == old[:, 2] - 1)
        present = index < before["num_transmissions"]
        kept += same & ticked & present & (kept < after["num_transmissions"])
    return kept
