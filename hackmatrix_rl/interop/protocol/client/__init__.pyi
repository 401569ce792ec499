from ._app import App as App
from ._app import AppError as AppError
from ._coach import coach as coach
from ._guessed import Guesses as Guesses
from ._pilot import play_app as play_app
from ._seen_game import FORMAT as FORMAT
from ._seen_game import SeenGame as SeenGame
