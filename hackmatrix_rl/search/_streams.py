"""The streams of random numbers of the players that search HackMatrix."""

from hackmatrix_rl.system.batching import Stream


class ImaginedStream(Stream):
    """Streams of one imagined game."""

    UNSEEN = 0  #: The hidden information: see `UnseenStream`.
    PLAY = 1
    UNDO = 2  #: Whether an `Expert` plays UNDO.


class UnseenStream(Stream):
    """Streams of the hidden information of a position."""

    QUESTIONS = 0
    TRANSMISSIONS = 1
    CRYPTOGS = 2


class RolloutStream(Stream):
    """Streams of a decision of `RolloutSearch`."""

    UNDO = 0
    OPINIONS = 1
    ROLLOUTS = 2


class WalkStream(Stream):
    """Streams of an imagined game that a network plays."""

    MOVES = 0
    NEXT_STAGE = 1
