"""The metrics that people see during a run, and their formats."""

import math
from dataclasses import dataclass

from hackmatrix_rl.runs.sinks._sink import Row

# Label, name in the row, format.
COLUMNS = (
    ("steps/s", "steps_per_second", ",.0f"),
    ("return", "return", "+.3f"),
    ("length", "length", ".1f"),
    ("stage", "stage", ".2f"),
    ("first wins", "first_wins", ".0%"),
    ("draws", "draws", ".0%"),
    ("entropy", "entropy", ".3f"),
    ("KL", "approx_kl", ".4f"),
    ("policy loss", "policy_loss", ".4f"),
    ("value loss", "value_loss", ".4f"),
    ("Q loss", "q_loss", ".4f"),
    ("gradient steps", "gradient_steps", ",.0f"),
)
_LATE = "gradient_steps"
"""It starts late there, after steps that only fill the buffer. Elsewhere it says nothing new."""


def shown(row: Row) -> list[tuple[str, str]]:
    """Labels and texts of the columns in the row; an unknown number is a dash."""
    return [
        (label, format(row[name], form) if math.isfinite(row[name]) else "-")
        for label, name, form in COLUMNS
        if name in row and (name != _LATE or "q_loss" in row)
    ]


@dataclass(frozen=True)
class Length:
    """The length of a run: its goal, and the name of the number in a row that counts to it."""

    goal: int
    counts: str = "env_steps"

    def done(self, row: Row) -> float:
        """The share that is done, at most 1."""
        return min(1.0, row[self.counts] / self.goal)

    def reached(self, row: Row) -> str:
        """`12,800 steps`, or what else counts."""
        return f"{row[self.counts]:,.0f} {_UNITS.get(self.counts, self.counts)}"

    def left(self, row: Row) -> str:
        """`2:03 left`, at the speed of the row; empty if that is not known."""
        if self.counts == "env_steps":
            speed = row["steps_per_second"]
        else:
            speed = row["episodes"] / row["seconds"] if row["seconds"] > 0 else 0.0
        if not speed > 0:
            return ""
        return f"{duration((self.goal - row[self.counts]) / speed)} left"


_UNITS = {"env_steps": "steps"}


def one_line(row: Row, length: Length) -> str:
    """The row as a line: progress, then the columns."""
    left = length.left(row) or "? left"
    parts = [f"{length.done(row):4.0%}", length.reached(row), left]
    return "  ".join([*parts, *(f"{label} {text}" for label, text in shown(row))])


def duration(seconds: float) -> str:
    """`1:02:03` or `2:03`; at least zero."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
