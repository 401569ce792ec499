"""The line protocol of the original game: a server that speaks it, and a tracker of its games."""

from ._engine import Engine as Engine
from ._engine import Result as Result
from ._engine import Told as Told
from ._given_state import arrays_of as arrays_of
from ._screen import observation_of as observation_of
from ._screen import seen_of as seen_of
from ._serve import serve as serve
from ._server import BREAKDOWN as BREAKDOWN
from ._server import Server as Server
from ._server import info_of as info_of
from ._server import internal_state_of as internal_state_of
from ._tracker import Snapshot as Snapshot
from ._tracker import Step as Step
from ._tracker import Tracker as Tracker
