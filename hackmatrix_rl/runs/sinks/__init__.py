"""Sinks: they take a run's metrics and messages."""

from hackmatrix_rl.runs.sinks._files import (
    JsonLines,
    LogFile,
    forget_rows_after,
    read_json_lines,
    rows_and_damage,
)
from hackmatrix_rl.runs.sinks._queued import Queued
from hackmatrix_rl.runs.sinks._sink import Fanout, Row, Sink
from hackmatrix_rl.runs.sinks._tensorboard import TensorBoard, require_tensorboard
from hackmatrix_rl.runs.sinks._terminal import Length, LiveTerminal, PlainTerminal, terminal
from hackmatrix_rl.runs.sinks._weights_and_biases import WeightsAndBiases

__all__ = [
    "Fanout",
    "JsonLines",
    "Length",
    "LiveTerminal",
    "LogFile",
    "PlainTerminal",
    "Queued",
    "Row",
    "Sink",
    "TensorBoard",
    "WeightsAndBiases",
    "forget_rows_after",
    "read_json_lines",
    "require_tensorboard",
    "rows_and_damage",
    "terminal",
]
