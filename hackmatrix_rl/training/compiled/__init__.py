"""Facts about a compiled program: its collectives, its cost and its size."""

from ._collectives import Collective as Collective
from ._collectives import Launches as Launches
from ._collectives import collectives as collectives
from ._collectives import instructions as instructions
from ._collectives import launches as launches
from ._collectives import program_bytes as program_bytes
from ._estimates import Estimate as Estimate
from ._estimates import estimated_cycles as estimated_cycles
from ._estimates import estimates as estimates
