"""A game of an agent as a page: in a notebook, or as a file."""

import html
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.errors import ConfigError, instance
from hackmatrix_rl.evaluation import Agent, PolicyAgent, check_player
from hackmatrix_rl.system import write_whole
from hackmatrix_rl.view._board_drawing import draw
from hackmatrix_rl.view._raster import save_gif, save_mp4
from hackmatrix_rl.view.replays._match import Match, Mind
from hackmatrix_rl.view.replays._page import page_of

HEIGHT = 760
"""Pixels that a page takes in a notebook."""

_FILMS = {".gif": save_gif, ".mp4": save_mp4}


@dataclass(frozen=True, repr=False)
class GamePage:
    """A game that a notebook shows by itself, with buttons to play it; `html` needs no network."""

    match: Match
    html: str

    def __repr__(self) -> str:
        now = self.match.now
        return f"<game of {now.number} moves: {now.end}, stage {now.frame.stage}>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="{HEIGHT}" '
            'style="border:0" title="a game of HackMatrix"></iframe>'
        )

    def save(self, path: str | Path) -> None:
        """Writes the page as `.html`, or the game as a film: `.gif` or `.mp4` (which needs ffmpeg).

        Raises:
            ConfigError: the name ends in something else, or there is no ffmpeg.
            OSError: the file cannot be written.
        """
        ending = Path(path).suffix.lower()
        if ending == ".html":
            write_whole(Path(path), self.html)
        elif ending in _FILMS:
            _FILMS[ending]([draw(moment.frame) for moment in self.match.moments], path)
        else:
            raise ConfigError(f"path {str(path)!r}: a game is saved as .html, .gif or .mp4")


def watch(
    player: ActorCritic | Agent,
    *,
    seed: int = 0,
    game: int = 0,
    environment: HackMatrix | None = None,
    greedy: bool = False,
    name: str = "",
    max_moves: int = 2_000,
) -> GamePage:
    """Plays a game and returns it as a page. A notebook shows the page by itself.

    The game is number `game` of `evaluate(player, environment, key=jax.random.key(seed), ...)`.

    Args:
        player: a network or an agent.
        seed: of the evaluation.
        game: number of the game in it.
        environment: by default `HackMatrix()`.
        greedy: a network takes its likeliest action instead of drawing one.
        name: of the player, for people; by default its class.
        max_moves: the game is cut off after so many moves, if the environment has no lower limit.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the player does not fit the environment.
    """
    environment = HackMatrix() if environment is None else environment
    instance("environment", environment, HackMatrix, "hm.HackMatrix()")
    check_player(player, environment)
    if isinstance(player, ActorCritic):
        player = PolicyAgent(player, greedy=greedy)
    name = name or type(player.policy if isinstance(player, PolicyAgent) else player).__name__
    limit = max_moves if environment.max_steps is None else min(max_moves, environment.max_steps)
    match = Match.start(seed, game=game, config=environment.config, max_steps=limit)
    mind = Mind(player, match, environment=environment)
    play_on(match, mind)
    return GamePage(match, page_of(match, minds={name: mind}, player=name))


def play_on(match: Match, mind: Mind, *, on_move: Callable[[int], None] = lambda _: None) -> None:
    """Plays a game to its end by an agent's opinions; `on_move` is told the number of moves."""
    while match.now.end is None:
        match.play(mind.opinion().action)
        on_move(match.now.number)
