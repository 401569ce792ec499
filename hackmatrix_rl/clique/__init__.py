"""The rules of the clique game: pure functions of the state of one game."""

from ._colouring import Colouring as Colouring
from ._colouring import find_clique as find_clique
from ._colouring import read_colourings as read_colourings
from ._colouring import write_colourings as write_colourings
from ._game import FIRST as FIRST
from ._game import FULL_BOARDS as FULL_BOARDS
from ._game import NOBODY as NOBODY
from ._game import OBJECTIVES as OBJECTIVES
from ._game import SECOND as SECOND
from ._game import CliqueConfig as CliqueConfig
from ._game import FullBoard as FullBoard
from ._game import Objective as Objective
from ._game import Outcome as Outcome
from ._game import State as State
from ._game import colours as colours
from ._game import completes_clique as completes_clique
from ._game import edge_numbers as edge_numbers
from ._game import edges as edges
from ._game import from_edges as from_edges
from ._game import legal_actions as legal_actions
from ._game import mover as mover
from ._game import new_game as new_game
from ._game import play as play
from ._solution import Solution as Solution
from ._solution import solve as solve
