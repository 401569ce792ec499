"""The names and units of metrics in the original project."""

from collections.abc import Mapping
from typing import Any

from hackmatrix_rl.runs.sinks._sink import Row

AXIS = "train/update_step"
"""The horizontal axis of its dashboards: updates."""

# By our names. Metrics that are not listed keep their names.
_SAME_UNIT: Mapping[str, str] = {
    "updates": AXIS,
    "policy_loss": "train/pg_loss",
    "value_loss": "train/vf_loss",
    "entropy": "train/entropy",
    "approx_kl": "train/approx_kl",
    "clip_fraction": "train/clip_frac",
    "return": "train/mean_episode_return",
    "length": "train/mean_episode_length",
    "episodes": "train/num_episodes",
}
_REWARD = "reward/"


class OriginalNames:
    """Converts a run's rows, called in order, to the names and units of the original project.

    Its rewards are means per step, while ours are means per ended game. It counts siphons and
    programs as fractions of the actions. Numbers that do not follow from a row are left out.

    Args:
        settings: the run's settings. With the weights of the losses among them, rows have
            `train/total_loss`.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        # The weights of a training in stages differ between its stages.
        self._settings = {} if "then" in settings else settings
        self._updates: float | None = None

    def __call__(self, row: Row) -> dict[str, float]:
        """The numbers of a row under those names."""
        named = {
            _SAME_UNIT.get(name, name): value
            for name, value in row.items()
            if not name.startswith(_REWARD) and name not in ("siphons", "programs")
        }
        return named | self._rewards(row) | _shares(row) | self._learning(row) | self._speed(row)

    def _rewards(self, row: Row) -> dict[str, float]:
        """The sum of each term in the dispatch, divided by its steps."""
        steps = row.get("seconds", 0.0) * row.get("steps_per_second", 0.0)
        terms = {name: value for name, value in row.items() if name.startswith(_REWARD)}
        if not terms or not steps > 0:
            return {}
        means = {name: value * row["episodes"] / steps for name, value in terms.items()}
        return means | {"train/mean_reward": sum(means.values())}

    def _learning(self, row: Row) -> dict[str, float]:
        """The entropy loss without its weight, and the total loss."""
        if "entropy" not in row:
            return {}
        found = {"train/ent_loss": -row["entropy"]}
        weights = [row.get(name, self._settings.get(name)) for name in ("vf_coef", "ent_coef")]
        of_value, of_entropy = (each if isinstance(each, int | float) else None for each in weights)
        if of_value is None or of_entropy is None or not {"policy_loss", "value_loss"} <= {*row}:
            return found
        loss = row["policy_loss"] + of_value * row["value_loss"] - of_entropy * row["entropy"]
        return found | {"train/total_loss": loss}

    def _speed(self, row: Row) -> dict[str, float]:
        """Updates per second, from the second row on."""
        before, self._updates = self._updates, row.get("updates")
        if before is None or self._updates is None or not row.get("seconds", 0.0) > 0:
            return {}
        return {"train/updates_per_second": (self._updates - before) / row["seconds"]}


def _shares(row: Row) -> dict[str, float]:
    """Kinds of actions as fractions of the actions in ended games."""
    length = row.get("length", 0.0)
    if not {"siphons", "programs"} <= {*row} or not length > 0:
        return {}
    siphon, program = row["siphons"] / length, row["programs"] / length
    return {
        "actions/move_frac": 1 - siphon - program,
        "actions/siphon_frac": siphon,
        "actions/program_frac": program,
    }
