"""Plays a game of any environment and records it."""

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Array, Key, PyTree

from hackmatrix_rl.env import Environment, picture_of
from hackmatrix_rl.evaluation import Agent, Step, play_steps
from hackmatrix_rl.view._observed import observed
from hackmatrix_rl.view.replays._match import opinion_of
from hackmatrix_rl.view.replays._recording import Recording, Scene, action_text

MOST_STEPS = 2_000
"""Most steps of a game that is played only for watching."""

_MOST_BYTES = 2**24  # of all pictures together
_SIDE = 640  # most pixels of the longer side of a picture
_MOST_COLOURS = 128  # most colours of a picture that is stored with a palette


def record(
    player: Agent,
    environment: Environment,
    key: Key[Array, ""],
    *,
    game: int = 0,
    max_steps: int = MOST_STEPS,
    most_bytes: int = _MOST_BYTES,
    report: Callable[[str], None] = lambda line: None,
) -> Iterator[Scene]:
    """Plays game number `game` of `evaluate(..., key=key)`; yields its positions.

    `most_bytes` bounds the size of all pictures; later positions have none. `report` receives a
    line for an environment that cannot be drawn. Its observations are shown instead.

    Raises:
        ConfigError: the environment returns an invalid picture.
    """
    environment = environment.drawable(report)
    taken, draws = 0, False

    def look(state: PyTree[Array] | None, observation: PyTree[Array]) -> str | bytes | None:
        nonlocal taken, draws
        if taken > most_bytes:
            return "(This position has no picture: the recording has reached its largest size.)"
        if state is None and draws:
            return None  # the last position is unknown: the picture before it is repeated
        drawn = None if state is None else picture_of(environment, state)
        draws = drawn is not None
        if drawn is None:
            return observed(observation)
        picture = drawn if isinstance(drawn, str) else _png(drawn)
        taken += len(picture)
        return picture

    listed = environment.spec.actions.count > 0
    action: int | str | None = None
    reward = 0.0
    terms: Mapping[str, float] = {}
    step: Step | None = None
    for step in play_steps(player, environment, key, game=game, max_steps=max_steps, look=look):
        legal = tuple(int(each) for each in np.flatnonzero(step.mask)) if listed else ()
        chosen = action_text(step.action)
        opinion = opinion_of(chosen, step.thought, legal)
        yield Scene(step.seen, legal, action, reward, terms, None, opinion)
        action, reward, terms = chosen, step.reward, step.terms
    if step is not None:
        last = step.seen if step.last_seen is None else step.last_seen
        yield Scene(last, (), action, reward, terms, step.end or None)


def recorded(
    player: Agent, environment: Environment, key: Key[Array, ""], *, name: str = "", **how: Any
) -> Recording:
    """Plays one game and returns its recording.

    Args:
        player: the player.
        environment: the environment.
        key: the key of the evaluation; see `record`.
        name: the displayed name of the player.
        how: further arguments of `record`.
    """
    scenes = list(record(player, environment, key, **how))
    return Recording(environment.title, name, environment.spec.actions.count, scenes)


def _png(pixels: np.ndarray) -> bytes:
    from PIL import Image

    image = Image.fromarray(pixels, "RGB")
    image.thumbnail((_SIDE, _SIDE))
    if image.getcolors(_MOST_COLOURS) is not None:  # a palette takes a third of the bytes
        image = image.quantize(_MOST_COLOURS, dither=Image.Dither.NONE)
    written = io.BytesIO()
    image.save(written, format="PNG")
    return written.getvalue()
