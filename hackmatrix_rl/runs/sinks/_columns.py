"""The metrics that people see during a run, and their formats."""

import math
from collections.abc import Callable

from hackmatrix_rl.runs.sinks._sink import Row


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def _plain(value: float) -> str:
    return f"{value:.3f}"


def _small(value: float) -> str:
    return f"{value:.4f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


# Label, name in the row, format.
COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("steps/s", "steps_per_second", _whole),
    ("return", "return", _signed),
    ("length", "length", lambda value: f"{value:.1f}"),
    ("stage", "stage", lambda value: f"{value:.2f}"),
    ("entropy", "entropy", _plain),
    ("KL", "approx_kl", _small),
    ("policy loss", "policy_loss", _small),
    ("value loss", "value_loss", _small),
)


def shown(row: Row) -> list[tuple[str, str]]:
    """Labels and texts of the columns in the row; an unknown number is a dash."""
    return [
        (label, write(row[name]) if math.isfinite(row[name]) else "-")
        for label, name, write in COLUMNS
        if name in row
    ]


def one_line(row: Row, total_timesteps: int) -> str:
    """The row as a line: progress, then the columns."""
    done = min(1.0, row["env_steps"] / total_timesteps)
    parts = [f"{done:4.0%}", f"{row['env_steps']:,.0f} steps", _left(row, total_timesteps)]
    return "  ".join([*parts, *(f"{label} {text}" for label, text in shown(row))])


def _left(row: Row, total_timesteps: int) -> str:
    speed = row["steps_per_second"]
    if not speed > 0:
        return "? left"
    return f"{duration((total_timesteps - row['env_steps']) / speed)} left"


def duration(seconds: float) -> str:
    """`1:02:03` or `2:03`; at least zero."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
