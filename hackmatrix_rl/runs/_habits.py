"""Signs that an agent unlearns to siphon or to play programs, loses UNDO, or plays turns for ever.

Such a change can raise the return for a while, so the return does not show it.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from hackmatrix_rl.training import Metrics

GAMES = 1000
"""Games over which the means are taken: in fewer, siphons a game are chance."""
LEFT = 0.25
"""The share of a habit's peak so far below which the habit is dying out."""
MANY_UNDOS = 50.0
"""UNDOs a game above which an agent plays turns for ever.

The default recipe ends with 5 to 18 UNDOs a game, and the agent of the package uses 31 in the
league no-rewind, where it wins most games (benchmarks/learning.md).
"""
NAMES = ("siphons", "programs", "undos", "owns_undo", "length")
"""The means that the signs are made of."""


@dataclass(frozen=True)
class Habit:
    """Something that an agent should not unlearn.

    Attributes:
        mean: how much of it there is in a mean game.
        notable: the mean from which there is something to lose.
        sign: the message when little is left: `now`, after `peak`.
    """

    mean: Callable[[Mapping[str, float]], float]
    notable: float
    sign: str


HABITS: Mapping[str, Habit] = MappingProxyType(
    {
        "siphons": Habit(
            lambda means: means["siphons"],
            0.2,
            "{now:.2g} siphons a game, after {peak:.2g}: siphoning dies out, and with it the "
            "programs",
        ),
        "programs": Habit(
            lambda means: means["programs"] - means["undos"],
            0.2,
            "{now:.2g} programs a game beside UNDO, after {peak:.2g}: the use of programs dies out",
        ),
        "owns_undo": Habit(
            lambda means: means["owns_undo"],
            0.5,
            "the player owns UNDO in {now:.0%} of the games, after {peak:.0%}: the agent no longer "
            "takes it",
        ),
    }
)
"""Each kind of finding with its habit."""


class Habits:
    """Looks at means over whole windows of games; each sign is told once.

    Args:
        max_steps: the limit of an episode's length; `None` without one.
    """

    def __init__(self, max_steps: int | None = None) -> None:
        self._max_steps = max_steps
        self._games = 0.0
        self._sums = dict.fromkeys(NAMES, 0.0)
        self._peaks = dict.fromkeys(HABITS, 0.0)
        self._told: set[str] = set()

    def recall(self, rows: Iterable[Mapping[str, float | None]]) -> None:
        """Takes in what was logged before a resume: peaks, and which signs were told.

        Args:
            rows: of `Metrics.as_dict`, the oldest first; a number that was not finite is `None`.
        """
        for row in rows:
            numbers = {
                name: float(value)
                for name in (*NAMES, "episodes")
                # A damaged file may hold whole numbers that no float can.
                if (value := row.get(name)) is not None and abs(value) <= sys.float_info.max
            }
            self._take(numbers.get("episodes", 0.0), numbers)

    def look(self, metrics: Metrics) -> Sequence[tuple[str, str]]:
        """Kind and message of the signs that are new in a dispatch."""
        return self._take(metrics.episodes, metrics.episode)

    def _take(self, games: float, episode: Mapping[str, float]) -> Sequence[tuple[str, str]]:
        if not games or not self._sums.keys() <= episode.keys():
            return ()  # no game ended, or it is another game
        self._games += games
        for name in NAMES:
            self._sums[name] += games * episode[name]
        if self._games < GAMES:
            return ()
        means = {name: total / self._games for name, total in self._sums.items()}
        self._games, self._sums = 0.0, dict.fromkeys(NAMES, 0.0)
        signs = {kind: self._fading(kind, means) for kind in HABITS} | {"undo": self._undo(means)}
        new = {kind: text for kind, text in signs.items() if text and kind not in self._told}
        self._told |= new.keys()
        return tuple(new.items())

    def _fading(self, kind: str, means: Mapping[str, float]) -> str | None:
        habit, peak = HABITS[kind], self._peaks[kind]
        now = habit.mean(means)
        self._peaks[kind] = max(peak, now)
        if peak < habit.notable or not now < LEFT * peak:
            return None
        return (
            f"{habit.sign.format(now=now, peak=peak)}. Start from an agent that has not unlearned "
            "it (--init), with --teacher-kl."
        )

    def _undo(self, means: Mapping[str, float]) -> str | None:
        undos, length = means["undos"], means["length"]
        endless = self._max_steps is not None and length > 0.5 * self._max_steps
        if not (undos > MANY_UNDOS or (endless and undos > 1)):
            return None
        return (
            f"{undos:.2g} UNDOs a game of {length:.3g} moves: the agent plays turns again and "
            "again. If it wins no more games by that, a reward may pay twice: give --reward "
            "data_siphon=0,kills=0,distance_shaping=0. A lower --gamma means fewer UNDOs."
        )
