from ._pages import Score as Score
from ._pages import ScoreTable as ScoreTable
from ._play import Seat as Seat
from ._run import check_terminal as check_terminal
from ._run import play_in_terminal as play_in_terminal
from ._run import show_in_terminal as show_in_terminal
from ._run import watch_in_terminal as watch_in_terminal
