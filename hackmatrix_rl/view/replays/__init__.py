"""Games move by move: played, replayed, and what an agent thinks of them."""

from ._chosen import ChosenGame as ChosenGame
from ._chosen import choose_games as choose_games
from ._chosen import parse_choice as parse_choice
from ._chosen import replays_of as replays_of
from ._match import DIED as DIED
from ._match import ILLEGAL as ILLEGAL
from ._match import WON as WON
from ._match import Match as Match
from ._match import Mind as Mind
from ._match import Moment as Moment
from ._match import Opinion as Opinion
from ._match import Seed as Seed
from ._match import game_seed as game_seed
from ._page import Film as Film
from ._page import GamePage as GamePage
from ._page import Json as Json
from ._page import opinion_data as opinion_data
from ._page import page_of as page_of
from ._page import play_on as play_on
from ._page import rules_data as rules_data
from ._page import script_source as script_source
from ._page import watch as watch
from ._page import whole_page as whole_page
from ._replay import MOST_MOVES as MOST_MOVES
from ._replay import Replay as Replay
