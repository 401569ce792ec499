"""The line protocol of the original game: a server that speaks it, a client, a tracker."""

from ._engine import Engine as Engine
from ._screen import observation_of as observation_of
from ._screen import seen_of as seen_of
from ._serve import serve as serve
from ._server import BREAKDOWN as BREAKDOWN
from ._server import Server as Server
from ._tracker import Snapshot as Snapshot
from ._tracker import Step as Step
from ._tracker import Tracker as Tracker
