"""HackMatrix in a terminal: a person plays, or watches an agent."""

from hackmatrix_rl.view.terminal._play import Seat
from hackmatrix_rl.view.terminal._run import (
    check_terminal,
    is_terminal,
    play_in_terminal,
    show_in_terminal,
    watch_in_terminal,
)
from hackmatrix_rl.view.terminal._scores import Score, ScoreTable

__all__ = [
    "Score",
    "ScoreTable",
    "Seat",
    "check_terminal",
    "is_terminal",
    "play_in_terminal",
    "show_in_terminal",
    "watch_in_terminal",
]
