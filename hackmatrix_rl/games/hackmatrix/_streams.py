"""The random streams of a game, grouped by the `Chance` that they are derived from."""

from hackmatrix_rl.system.batching import Stream


class StepStream(Stream):
    """The streams of a step of a game."""

    ACT = 0  #: The action and its enemy turn; see `ActStream`.
    NEXT = 1  #: The next stage or game; see `NextStream`.
    SAVED_GAME = 2  #: The saved position that a new episode starts from (`StartStates`).


class NextStream(Stream):
    """The streams of `StepStream.NEXT`. Each is split further as a `GameStream`."""

    STAGE = 0
    GAME = 1


class GameStream(Stream):
    """The streams of a new game."""

    PLAYER = 0
    STAGE = 1  #: See `StageStream`.


class StageStream(Stream):
    """The streams of a stage set-up."""

    EXIT = 0
    LAYOUT = 1
    CONTENTS = 2  #: See `ContentStream`.
    RESOURCES = 3
    TRANSMISSIONS = 4


class ContentStream(Stream):
    """The stream derived from `StageStream.CONTENTS`, whose own words draw the blocks."""

    PROGRAMS = 0


class ActStream(Stream):
    """The streams of an action and the enemy turn after it."""

    EFFECT = 0
    ENEMY_TURN = 1  #: See `TurnStream`.


class TurnStream(Stream):
    """The streams of an enemy turn."""

    MOVES = 0
    SPAWNS = 1
