"""Games in a notebook: played, shown as a page, and saved as a page or a film."""

import html
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.evaluation import Agent, PolicyAgent, check_player
from hackmatrix_rl.system import typed_path, write_whole
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view._board_drawing import draw
from hackmatrix_rl.view._drawing import Drawing
from hackmatrix_rl.view._raster import save_gif, save_mp4
from hackmatrix_rl.view.replays._match import Match, Mind
from hackmatrix_rl.view.replays._page import page_of, page_of_recording
from hackmatrix_rl.view.replays._recorder import recorded
from hackmatrix_rl.view.replays._recording import Recording

HEIGHT = 760
"""The height of a page in a notebook, in pixels."""

_FILMS = {".gif": save_gif, ".mp4": save_mp4}


@dataclass(frozen=True, repr=False)
class GamePage:
    """A game that a notebook displays as a page with playback buttons; `html` is self-contained."""

    match: Match | Recording
    html: str

    def __repr__(self) -> str:
        if isinstance(self.match, Recording):
            return f"<game of {self.match.moves} moves: {self.match.end or 'unfinished'}>"
        now = self.match.now
        return f"<game of {now.number} moves: {now.end}, stage {now.frame.stage}>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="{HEIGHT}" '
            'style="border:0" title="a game"></iframe>'
        )

    def save(self, path: str | Path) -> None:
        """Writes the page as `.html`, or the game as `.gif` or `.mp4` (which needs ffmpeg).

        Raises:
            ConfigError: the path has another suffix, or ffmpeg is missing.
            OSError: the file cannot be written.
        """
        path = typed_path(path)
        ending = Path(path).suffix.lower()
        if ending == ".html":
            write_whole(Path(path), self.html)
        elif ending in _FILMS:
            _FILMS[ending](drawings_of(self.match), path)
        else:
            raise ConfigError(f"path {str(path)!r}: a game is saved as .html, .gif or .mp4")


def drawings_of(game: Match | Recording) -> list[Drawing]:
    """The pictures of all positions of a game, in one size."""
    if isinstance(game, Recording):
        return game.drawings()
    return [draw(moment.frame) for moment in game.moments]


def watch(
    player: ActorCritic | Agent,
    *,
    seed: int = 0,
    game: int = 0,
    environment: Environment | None = None,
    greedy: bool = False,
    name: str = "",
    max_moves: int = 2_000,
) -> GamePage:
    """Plays a game and returns it as a page, which a notebook displays.

    The game is number `game` of `evaluate(player, environment, key=jax.random.key(seed), ...)`.
    An environment without pictures is shown by its observations.

    Args:
        player: a network or an agent.
        seed: the seed of the evaluation.
        game: the number of the game in the evaluation.
        environment: by default `HackMatrix()`.
        greedy: whether a network takes its most probable action instead of sampling.
        name: the displayed name of the player; by default its class.
        max_moves: the game is cut off after this many moves, if the environment has no lower limit.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the player does not fit the environment, or the environment returns an invalid
            picture.

    Warns:
        UserWarning: the environment cannot be drawn; the message names the cause.
    """
    environment = HackMatrix() if environment is None else environment
    check_player(player, environment)
    if isinstance(player, ActorCritic):
        player = PolicyAgent(player)
        player = player.likeliest(environment) if greedy else player
    name = name or type(player.policy if isinstance(player, PolicyAgent) else player).__name__
    if not isinstance(environment, HackMatrix):
        how: dict[str, Any] = {"game": game, "max_steps": max_moves, "report": warnings.warn}
        recording = recorded(player, environment, jax.random.key(seed), name=name, **how)
        return GamePage(recording, page_of_recording(recording))
    limit = max_moves if environment.max_steps is None else min(max_moves, environment.max_steps)
    match = Match.start(seed, game=game, config=environment.config, max_steps=limit)
    mind = Mind(player, match, environment=environment)
    play_on(match, mind)
    return GamePage(match, page_of(match, minds={name: mind}, player=name))


def play_on(match: Match, mind: Mind, *, on_move: Callable[[int], None] = lambda _: None) -> None:
    """Plays an agent's moves until the game ends; `on_move` receives the number of moves."""
    while match.now.end is None:
        match.play(mind.opinion().action)
        on_move(match.now.number)
