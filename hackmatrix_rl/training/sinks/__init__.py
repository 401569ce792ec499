"""Where a run's metrics and messages go."""

from hackmatrix_rl.training.sinks.build import open_sinks
from hackmatrix_rl.training.sinks.json_lines import JsonLines
from hackmatrix_rl.training.sinks.log_file import LogFile
from hackmatrix_rl.training.sinks.queued import Queued
from hackmatrix_rl.training.sinks.sink import Fanout, Row, Sink
from hackmatrix_rl.training.sinks.tensorboard import TensorBoard
from hackmatrix_rl.training.sinks.terminal import LiveTerminal, PlainTerminal, terminal
from hackmatrix_rl.training.sinks.weights_and_biases import WeightsAndBiases

__all__ = [
    "Fanout",
    "JsonLines",
    "LiveTerminal",
    "LogFile",
    "PlainTerminal",
    "Queued",
    "Row",
    "Sink",
    "TensorBoard",
    "WeightsAndBiases",
    "open_sinks",
    "terminal",
]
