"""Signs that a training is going wrong, and what each is answered with.

| sign | what is done |
|---|---|
| a gradient that is not finite | its step is skipped and counted (`PPO.learn`); a warning |
| nothing finite in an update | a warning; after so many in a row, a stop |
| entropy below the floor for ten updates | a warning |
| an update that moves the policy beyond the alarm | a warning; a stop, if asked for |
| spawns that found no room | a warning that names what to raise |

A stop keeps the last good checkpoint: nothing is saved any more.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.training import Metrics

ENTROPY_PATIENCE = 10
"""Updates in a row below the floor that make a collapse: one alone may be chance."""


@dataclass(frozen=True)
class Finding:
    """Something that people should know.

    Attributes:
        kind: `nonfinite`, `entropy`, `kl` or `dropped`.
        message: one line: what was seen, and what may help.
        stop: whether training is to end here, without another checkpoint.
    """

    kind: str
    message: str
    stop: bool = False


class Health:
    """Looks at the metrics of each dispatch. Pure: it knows no clock, no file and no device.

    The same warning comes at its 1st, 2nd, 4th, 8th ... occurrence, so that it neither goes
    unseen nor floods the log. A dispatch counts as so many updates as it did.

    Args:
        stop_after_nonfinite: updates in a row without anything finite that end the training;
            `None`: none do.
        entropy_floor: nats; `None`: no floor.
        kl_alarm: divergence in an update; `None`: no alarm.
        stop_after_kl: updates in a row beyond the alarm that end the training; `None`: none do.
    """

    def __init__(
        self,
        *,
        stop_after_nonfinite: int | None = 20,
        entropy_floor: float | None = 0.02,
        kl_alarm: float | None = 0.2,
        stop_after_kl: int | None = None,
    ) -> None:
        self._stop_after_nonfinite = stop_after_nonfinite
        self._entropy_floor = entropy_floor
        self._kl_alarm = kl_alarm
        self._stop_after_kl = stop_after_kl
        self._seen: Counter[str] = Counter()
        self._in_a_row: Counter[str] = Counter()
        self._updates: int | None = None

    @classmethod
    def of(cls, config: TrainConfig) -> "Health":
        """With the limits of a config."""
        return cls(
            stop_after_nonfinite=config.stop_after_nonfinite,
            entropy_floor=config.entropy_floor,
            kl_alarm=config.kl_alarm,
            stop_after_kl=config.stop_after_kl,
        )

    @property
    def sound(self) -> bool:
        """Whether the newest dispatch was finite: what is worth saving as a good checkpoint."""
        return not self._in_a_row["nonfinite"]

    def look(self, metrics: Metrics) -> Sequence[Finding]:
        """What there is to say about a dispatch; mostly nothing."""
        # At the first look, of a resumed run maybe, it is not known how many there were.
        updates = 1 if self._updates is None else max(1, metrics.updates - self._updates)
        self._updates = metrics.updates
        found = [
            self._nonfinite(metrics, updates),
            self._entropy(metrics, updates),
            self._kl(metrics, updates),
            self._dropped(metrics),
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
        limit = self._stop_after_nonfinite
        if limit is not None and row >= limit:
            return Finding(
                "nonfinite",
                f"{where}: {what}, for {row} updates in a row. Stopping; the last good "
                "checkpoint is kept. Try --debug nans, a lower --learning-rate, --precision f32.",
                stop=True,
            )
        return self._warning("nonfinite", f"{where}: {what}. --debug nans tells where.")

    def _entropy(self, metrics: Metrics, updates: int) -> Finding | None:
        entropy, floor = metrics.learning.get("entropy"), self._entropy_floor
        # Where no step was taken, no entropy was measured.
        if floor is None or entropy is None or not metrics.learning.get("gradient_steps", 1):
            return None
        if self._count("entropy", entropy < floor, updates) < ENTROPY_PATIENCE:
            return None
        return self._warning(
            "entropy",
            f"update {metrics.updates:,}: entropy {entropy:.2g} nats, below {floor:g} "
            "(--entropy-floor): the policy hardly tries anything. Try a higher "
            "--ent-coef.",
        )

    def _kl(self, metrics: Metrics, updates: int) -> Finding | None:
        moved, alarm = metrics.learning.get("approx_kl"), self._kl_alarm
        if alarm is None or moved is None:
            return None
        row = self._count("kl", moved > alarm, updates)
        if not row:
            return None
        what = f"update {metrics.updates:,}: the policy moved by {moved:.2g}, beyond {alarm:g}"
        if self._stop_after_kl is not None and row >= self._stop_after_kl:
            return Finding(
                "kl",
                f"{what}, for {row} updates in a row. Stopping; the last good checkpoint is "
                "kept. Try --target-kl, or a lower --learning-rate.",
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
        """How many updates in a row it has happened."""
        self._in_a_row[kind] = self._in_a_row[kind] + updates if happened else 0
        return self._in_a_row[kind]

    def _warning(self, kind: str, message: str) -> Finding | None:
        self._seen[kind] += 1
        times = self._seen[kind]
        if times & (times - 1):  # not a power of two
            return None
        again = f" (seen {times} times)" if times > 1 else ""
        return Finding(kind, f"Warning: {message}{again}")
