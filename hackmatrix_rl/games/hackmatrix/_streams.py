"""The streams of randomness of a game, by the `Chance` that each is derived from."""

from hackmatrix_rl.system.batching import Stream


class StepStream(Stream):
    """Of a step of a game."""

    ACT = 0
    NEXT = 1  #: What begins after the action: see `NextStream`.
    SAVED_GAME = 2  #: Which stored position a new game starts from (`Frontier`).


class NextStream(Stream):
    """Of `StepStream.NEXT`; each of the two is divided as `GameStream`."""

    STAGE = 0
    GAME = 1


class GameStream(Stream):
    """Of a new game."""

    PLAYER = 0
    STAGE = 1  #: See `StageStream`.


class StageStream(Stream):
    """Of the set-up of a stage."""

    EXIT = 0
    LAYOUT = 1
    CONTENTS = 2  #: See `ContentStream`.
    RESOURCES = 3
    TRANSMISSIONS = 4


class ContentStream(Stream):
    """Of the contents of blocks, whose own words draw what is in each block."""

    PROGRAMS = 0


class ActStream(Stream):
    """Of an action and the enemy turn after it."""

    EFFECT = 0
    ENEMY_TURN = 1  #: See `TurnStream`.


class TurnStream(Stream):
    """Of an enemy turn."""

    MOVES = 0
    SPAWNS = 1
