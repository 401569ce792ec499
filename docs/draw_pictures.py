"""Draws the pictures of docs/game.md and the moving one of README.md: games of the package's agent.

python docs/draw_pictures.py
"""

import itertools
from pathlib import Path

import hackmatrix_rl as hm
from hackmatrix_rl.games.hackmatrix import Action
from hackmatrix_rl.view import draw, save_gif
from hackmatrix_rl.view.replays import Match, Mind, Moment

FOLDER = Path(__file__).parent / "pictures"
SEED = 7
MOVES = 150
FILM = 60
"""Moves in which the game of the film is won."""
MOVEMENTS = {Action.UP, Action.DOWN, Action.LEFT, Action.RIGHT}
OTHERS = MOVEMENTS | {Action.SIPHON, Action.UNDO}
"""Actions that are no example of a program."""


def game(seed: int, moves: int) -> list[Moment]:
    """The moments of a game of the agent, at most some moves."""
    agent = hm.load("pretrained@1")  # whose games are short
    match = Match.start(seed=seed)
    mind = Mind(agent.policy, match, environment=agent.environment)
    while match.now.end is None and match.now.number < moves:
        match.play(mind.opinion().action)
    return list(match.moments)


def first(moments: list[Moment], actions: set[Action]) -> int:
    """The number of the first move that is one of these actions."""
    return next(moment.number for moment in moments if moment.action in actions)


def pictures() -> dict[str, Moment]:
    """The positions to draw, by the name of the picture."""
    moments = game(SEED, MOVES)
    siphon = first(moments, {Action.SIPHON})
    program = first(moments, set(Action) - OTHERS)
    shot = next(
        moment.number
        for moment in moments
        if moment.action in MOVEMENTS and moment.terms["kills"] > 0
    )
    return {
        "start": moments[0],
        "shot": moments[shot - 1],
        "siphon_before": moments[siphon - 1],
        "siphon_after": moments[siphon],
        "program_before": moments[program - 1],
        "program_after": moments[program],
    }


def film() -> list[Moment]:
    """The first short game that the agent wins."""
    games = (game(seed, FILM) for seed in itertools.count())
    return next(moments for moments in games if moments[-1].end == "won")


if __name__ == "__main__":
    for name, moment in pictures().items():
        hm.show(moment.frame.seen(), theme="light").save(FOLDER / f"{name}.svg")
        move = "the start" if moment.action is None else moment.action.label
        print(f"{name}: move {moment.number}, after {move}")
    moments = film()
    save_gif([draw(moment.frame) for moment in moments], FOLDER / "game.gif")
    print("game.gif:", " ".join(moment.action.label for moment in moments if moment.action))
