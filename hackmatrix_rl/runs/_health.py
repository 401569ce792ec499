"""Signs of a training that goes wrong, and the reaction to each.

| sign | reaction |
|---|---|
| a gradient that is not finite | its step is skipped and counted; a warning |
| nothing finite in an update | a warning; a stop after N in a row |
| entropy below the floor for ten updates | a warning |
| an update that moves the policy beyond the alarm | a warning; a stop on request |
| spawns that found no room | a warning that names the flags to raise |
| siphons, programs or ownership of UNDO far below their peak | a warning, once a run |
| many UNDOs a game, or some in games longer than half of `max_steps` | a warning, once a run |

A stop keeps the last good checkpoint and saves nothing more.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.training import LEFT_OUT, Metrics, of_member, without_members

GAMES = 1000
"""Number of games in a mean: over fewer, the mean number of siphons is mostly noise."""
LEFT = 0.25
"""Fraction of its peak below which a habit is dying out."""
MANY_UNDOS = 50.0
"""UNDOs a game above which the agent loops, undoing its own turns.

The default recipe ends with 5 to 18 UNDOs a game. The shipped agents, which play for points, use
more: 203 a game in no-rewind, 173 in the original league (benchmarks/learning.md).
"""
NAMES = ("siphons", "programs", "undos", "owns_undo", "length")
"""The metrics that the habits are computed from."""


@dataclass(frozen=True)
class Habit:
    """Something that an agent should not unlearn.

    `mean` computes its amount in a game from the mean metrics. A peak below `notable` is ignored.
    `sign` is the message of its decline, with the fields `now` and `peak`.
    """

    mean: Callable[[Mapping[str, float]], float]
    notable: float
    sign: str


HABITS: Mapping[str, Habit] = {
    "siphons": Habit(
        lambda means: means["siphons"],
        0.2,
        "{now:.2g} siphons a game, after {peak:.2g}: siphoning dies out, and with it the programs",
    ),
    "programs": Habit(
        lambda means: means["programs"] - means["undos"],
        0.2,
        "{now:.2g} programs a game (without UNDO), after {peak:.2g}: the use of programs dies out",
    ),
    "owns_undo": Habit(
        lambda means: means["owns_undo"],
        0.5,
        "the player owns UNDO in {now:.0%} of the games, after {peak:.0%}: the agent no longer "
        "takes it",
    ),
}
"""The habits by kind of finding."""


class Habits:
    """Compares means over windows of `GAMES` games; each sign is reported once."""

    def __init__(self, max_steps: int | None = None) -> None:
        self._max_steps = max_steps
        self._games = 0.0
        self._sums = dict.fromkeys(NAMES, 0.0)
        self._peaks = dict.fromkeys(HABITS, 0.0)
        self._reported: set[str] = set()

    def recall(self, rows: Iterable[Mapping[str, float | None]]) -> None:
        """Replays the rows that were logged before a resume, oldest first."""
        for row in rows:
            numbers = {
                name: float(value)
                for name in (*NAMES, "episodes")
                # A damaged file may hold integers too large for a float.
                if (value := row.get(name)) is not None and abs(value) <= sys.float_info.max
            }
            self._take(numbers.get("episodes", 0.0), numbers)

    def look(self, metrics: Metrics) -> Sequence[tuple[str, str]]:
        """The kind and message of each sign that is new in a dispatch."""
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
        new = {kind: text for kind, text in signs.items() if text and kind not in self._reported}
        self._reported |= new.keys()
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


ENTROPY_PATIENCE = 10
"""Consecutive updates below the floor before a warning: a single one may be noise."""


@dataclass(frozen=True)
class Finding:
    """A message of one line about a sign of trouble, with a remedy.

    `kind` is `nonfinite`, `entropy`, `kl`, `dropped`, a habit (`HABITS`) or `undo`. A finding with
    `stop` ends training without another checkpoint; its `sign` is the message without the remedy.
    """

    kind: str
    message: str
    sign: str = ""
    stop: bool = False


@dataclass(kw_only=True)
class Health:
    """Checks the metrics of each dispatch; it uses no clock, file or device.

    A warning is shown at its 1st, 2nd, 4th, 8th ... occurrence, so it does not flood the log. A
    dispatch counts as its number of updates. Limits are in consecutive updates or in nats; `None`
    disables one.
    """

    stop_after_nonfinite: int | None = 20
    entropy_floor: float | None = 0.02
    kl_alarm: float | None = 0.2
    stop_after_kl: int | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._in_a_row: Counter[str] = Counter()
        self._updates: int | None = None
        self._habits = Habits(self.max_steps)

    @classmethod
    def from_config(cls, config: RunConfig) -> "Health":
        """The checks with the limits of a config."""
        return cls(**config.health())

    @classmethod
    def of_all(cls, config: RunConfig) -> "Health":
        """The checks of a run. They stop nothing if `MemberHealth` stops single members."""
        limits = config.health()
        if config.stop_unhealthy_members:
            limits |= {name: None for name in limits if name.startswith("stop_after")}
        return cls(**limits)

    @property
    def sound(self) -> bool:
        """Whether the newest dispatch was finite. Only then is its state a good checkpoint."""
        return not self._in_a_row["nonfinite"]

    def recall(self, rows: Iterable[Mapping[str, float | None]]) -> None:
        """Replays the rows that were logged before a resume; see `Habits.recall`."""
        self._habits.recall(rows)

    def look(self, metrics: Metrics) -> Sequence[Finding]:
        """The findings of a dispatch, usually none."""
        # Unknown at the first call, because the run may be a resumed one.
        updates = 1 if self._updates is None else max(1, metrics.updates - self._updates)
        self._updates = metrics.updates
        found = [
            self._nonfinite(metrics, updates),
            self._entropy(metrics, updates),
            self._kl(metrics, updates),
            self._dropped(metrics),
            *(
                Finding(kind, f"Warning: update {metrics.updates:,}: {message}")
                for kind, message in self._habits.look(metrics)
            ),
        ]
        return [finding for finding in found if finding is not None]

    def _nonfinite(self, metrics: Metrics, updates: int) -> Finding | None:
        learning = metrics.learning
        odd = [
            name
            for name, value in {**metrics.episode, **metrics.reward, **learning}.items()
            if not math.isfinite(value)
        ]
        skipped, taken = int(learning.get("skipped", 0)), int(learning.get("gradient_steps", 0))
        lost = bool(odd) or (skipped > 0 and taken == 0)
        row = self._count("nonfinite", lost, updates)
        if not odd and not skipped:
            return None
        what = f"{skipped} of {skipped + taken} gradient steps skipped: not finite"
        if odd:
            what = f"{', '.join(odd[:3])} not finite" + (f"; {what}" if skipped else "")
        where = f"update {metrics.updates:,}"
        limit = self.stop_after_nonfinite
        if limit is not None and row >= limit:
            sign = f"{where}: {what}, for {row} updates in a row"
            return Finding(
                "nonfinite",
                f"{sign}. Stopping; the last good checkpoint is kept. Try --debug nans, a lower "
                "--learning-rate, --precision f32.",
                sign,
                stop=True,
            )
        return self._warning("nonfinite", f"{where}: {what}. --debug nans shows where.")

    def _entropy(self, metrics: Metrics, updates: int) -> Finding | None:
        entropy, floor = metrics.learning.get("entropy"), self.entropy_floor
        # Without a step there is no entropy.
        if floor is None or entropy is None or not metrics.learning.get("gradient_steps", 1):
            return None
        if self._count("entropy", entropy < floor, updates) < ENTROPY_PATIENCE:
            return None
        return self._warning(
            "entropy",
            f"update {metrics.updates:,}: entropy {entropy:.2g} nats, below {floor:g} "
            "(--entropy-floor): the policy hardly explores. Try a higher --ent-coef.",
        )

    def _kl(self, metrics: Metrics, updates: int) -> Finding | None:
        moved, alarm = metrics.learning.get("approx_kl"), self.kl_alarm
        if alarm is None or moved is None:
            return None
        row = self._count("kl", moved > alarm, updates)
        if not row:
            return None
        what = f"update {metrics.updates:,}: the policy moved by {moved:.2g}, beyond {alarm:g}"
        if self.stop_after_kl is not None and row >= self.stop_after_kl:
            sign = f"{what}, for {row} updates in a row"
            return Finding(
                "kl",
                f"{sign}. Stopping; the last good checkpoint is kept. Try --target-kl, or a lower "
                "--learning-rate.",
                sign,
                stop=True,
            )
        return self._warning(
            "kl", f"{what} (--kl-alarm). Try --target-kl, or a lower --learning-rate."
        )

    def _dropped(self, metrics: Metrics) -> Finding | None:
        dropped = metrics.episode.get("dropped", 0.0)
        if not dropped > 0:
            return None
        return self._warning(
            "dropped",
            f"update {metrics.updates:,}: {dropped:.2g} spawns a game found no room and were "
            "dropped. Raise --max-enemies and --max-transmissions.",
        )

    def _count(self, kind: str, happened: bool, updates: int) -> int:
        self._in_a_row[kind] = self._in_a_row[kind] + updates if happened else 0
        return self._in_a_row[kind]

    def _warning(self, kind: str, message: str) -> Finding | None:
        self._seen[kind] += 1
        times = self._seen[kind]
        if times & (times - 1):  # not a power of two
            return None
        again = f" (seen {times} times)" if times > 1 else ""
        return Finding(kind, f"Warning: {message}{again}")


class MemberHealth:
    """Leaves out each training whose health findings stop it, while the others continue.

    The program still computes it, but the means exclude its metrics. The run stops when no training
    is left.
    """

    def __init__(self, config: RunConfig) -> None:
        self._each = [Health.from_config(config) for _ in range(config.members)]
        self._left_out: set[int] = set()

    @property
    def left_out(self) -> Collection[int]:
        """The numbers of the trainings that were left out."""
        return self._left_out

    @property
    def plays(self) -> int:
        """The first training that is not left out; 0 if all are."""
        return next((k for k in range(len(self._each)) if k not in self._left_out), 0)

    def recall(self, rows: Iterable[Mapping[str, float | None]]) -> None:
        """Replays the rows that were logged before a resume."""
        rows = list(rows)
        last = rows[-1] if rows else {}
        self._left_out = {k for k in range(len(self._each)) if LEFT_OUT.format(k) in last}

    def look(self, metrics: Metrics) -> tuple[Metrics, list[Finding]]:
        """The metrics without the trainings that are left out, and new findings about those."""
        found = []
        for number, health in enumerate(self._each):
            if number in self._left_out:
                continue
            own = replace(metrics, episode={}, reward={}, learning=of_member(metrics, number))
            for finding in health.look(own):
                if finding.stop:
                    played = self.plays
                    self._left_out.add(number)
                    none_left = len(self._left_out) == len(self._each)
                    then = "It was the last one. Stopping" if none_left else "The others continue"
                    if not none_left and played == number:
                        then += f", and training {self.plays} plays"
                    said = f"training {number} is left out: {finding.sign}. {then}."
                    found.append(Finding(finding.kind, said, finding.sign, stop=none_left))
        return without_members(metrics, self._left_out), found
