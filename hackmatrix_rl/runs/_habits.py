"""Signs that an agent unlearns to siphon, or lives off UNDO.

Both can raise the return for a while, so the return does not show them.
"""

from collections.abc import Sequence

from hackmatrix_rl.training import Metrics

GAMES = 1000
"""Games over which the means are taken: in fewer, siphons a game are chance."""
NOTABLE_SIPHONS = 0.2
"""Siphons a game from which there is something to lose."""
LEFT = 0.25
"""The share of the most siphons a game so far below which siphoning is dying out."""
MANY_UNDOS = 10.0
"""UNDOs a game above which an agent plays turns again for their reward."""


class Habits:
    """Looks at means over whole windows of games; each sign is told once.

    Args:
        max_steps: the limit of an episode's length; `None` without one.
    """

    def __init__(self, max_steps: int | None = None) -> None:
        self._max_steps = max_steps
        self._games = 0
        self._sums = {"siphons": 0.0, "undos": 0.0, "length": 0.0}
        self._most_siphons = 0.0
        self._told: set[str] = set()

    def look(self, metrics: Metrics) -> Sequence[tuple[str, str]]:
        """Kind and message of the signs that are new in a dispatch."""
        if not metrics.episodes or not self._sums.keys() <= metrics.episode.keys():
            return ()  # no game ended, or it is another game
        self._games += metrics.episodes
        for name in self._sums:
            self._sums[name] += metrics.episodes * metrics.episode[name]
        if self._games < GAMES:
            return ()
        means = {name: total / self._games for name, total in self._sums.items()}
        self._games, self._sums = 0, dict.fromkeys(self._sums, 0.0)
        signs = {"siphons": self._siphons(means), "undo": self._undo(means)}
        new = {kind: text for kind, text in signs.items() if text and kind not in self._told}
        self._told |= new.keys()
        return tuple(new.items())

    def _siphons(self, means: dict[str, float]) -> str | None:
        now, most = means["siphons"], self._most_siphons
        self._most_siphons = max(most, now)
        if most < NOTABLE_SIPHONS or now >= LEFT * most:
            return None
        return (
            f"{now:.2g} siphons a game, after {most:.2g}: siphoning dies out, and with it the "
            "programs. Start from an agent that siphons (--init), with --teacher-kl."
        )

    def _undo(self, means: dict[str, float]) -> str | None:
        undos, length = means["undos"], means["length"]
        endless = self._max_steps is not None and length > 0.5 * self._max_steps
        if undos <= MANY_UNDOS and not (endless and undos > 1):
            return None
        return (
            f"{undos:.2g} UNDOs a game of {length:.3g} moves: the agent plays turns again for "
            "their reward. Try --league no-rewind, a lower --gamma, or another --reward."
        )
