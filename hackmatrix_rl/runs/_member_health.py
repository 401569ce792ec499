"""The health of several trainings in one program, each by itself."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from hackmatrix_rl.runs._health import Finding, Health
from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.training import LEFT_OUT, Metrics, of_member, without_members


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
