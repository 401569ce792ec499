"""Sinks: they take a run's metrics and messages."""

from ._files import JsonLines as JsonLines
from ._files import LogFile as LogFile
from ._files import forget_rows_after as forget_rows_after
from ._files import read_json_lines as read_json_lines
from ._files import rows_and_damage as rows_and_damage
from ._original_names import OriginalNames as OriginalNames
from ._queued import Queued as Queued
from ._sink import Fanout as Fanout
from ._sink import Row as Row
from ._sink import Sink as Sink
from ._tensorboard import TensorBoard as TensorBoard
from ._tensorboard import require_tensorboard as require_tensorboard
from ._terminal import Length as Length
from ._terminal import LiveTerminal as LiveTerminal
from ._terminal import PlainTerminal as PlainTerminal
from ._terminal import terminal as terminal
from ._weights_and_biases import ARTIFACT as ARTIFACT
from ._weights_and_biases import UPLOAD_SECONDS as UPLOAD_SECONDS
from ._weights_and_biases import WeightsAndBiases as WeightsAndBiases
from ._weights_and_biases import artifact_name as artifact_name
