"""The streams of randomness of the players that search HackMatrix."""

from hackmatrix_rl.system.batching import Stream


class ImaginedStream(Stream):
    """Of one imagined game."""

    UNSEEN = 0  #: The hidden information: see `UnseenStream`.
    PLAY = 1
    UNDO = 2  #: Whether an `Expert` plays UNDO.


class UnseenStream(Stream):
    """Of the hidden information of a position."""

    QUESTIONS = 0
    TRANSMISSIONS = 1
    CRYPTOGS = 2


class RolloutStream(Stream):
    """Of a decision of `RolloutSearch`."""

    UNDO = 0
    OPINIONS = 1
    ROLLOUTS = 2


class WalkStream(Stream):
    """Of a game that a network plays to the end of its stage."""

    MOVES = 0
    NEXT_STAGE = 1
