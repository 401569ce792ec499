"""Games of any environment that can draw itself, as drawings."""

from collections.abc import Sequence

from jaxtyping import Array, PyTree

from hackmatrix_rl.env import Environment, HackMatrixState
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.view._board_drawing import draw
from hackmatrix_rl.view._drawing import Drawing, Text
from hackmatrix_rl.view._frame_of import frames_of

_WIDE, _HIGH, _SIZE = 9.0, 18.0, 14.0  # of a character, in pixels


def rendered(environment: Environment, state: PyTree[Array]) -> str:
    """The first game of a batch as lines of text.

    Raises:
        ConfigError: the environment cannot draw itself.
    """
    text = environment.render(state, 0)
    if text is None:
        game = getattr(environment, "game", environment)
        raise ConfigError(
            f"{type(game).__name__} cannot draw itself: give it a method render that returns lines "
            "of text"
        )
    return text


def drawings_of(environment: Environment, states: Sequence[PyTree[Array]]) -> list[Drawing]:
    """The first game of each state, all of one size.

    Raises:
        ConfigError: the environment cannot draw itself.
    """
    if states and isinstance(states[0], HackMatrixState):
        return [draw(frames_of(state.games)[0]) for state in states]
    texts = [rendered(environment, state).split("\n") for state in states]
    rows = max(map(len, texts), default=0)
    columns = max((len(line) for lines in texts for line in lines), default=0)
    return [_drawing(lines, columns + 2, rows + 1) for lines in texts]


def _drawing(lines: Sequence[str], columns: int, rows: int) -> Drawing:
    """Text of fixed width; each character stands alone, since the font has widths of its own."""
    shapes = tuple(
        Text((column + 1.5) * _WIDE, (row + 1) * _HIGH, character, _SIZE, "text", "middle")
        for row, line in enumerate(lines)
        for column, character in enumerate(line)
        if character != " "
    )
    return Drawing(columns * _WIDE, rows * _HIGH, shapes, title="\n".join(lines))
