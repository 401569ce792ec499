"""The league of a run of self-play: its network at several moments, against each other."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.checkpoints import load, save
from hackmatrix_rl.training import Hook, Metrics, Trainer

_SUFFIX = ".policy"


@dataclass(frozen=True)
class LeagueFolder:
    """The networks that a run keeps for its league, at the start and at `marks`, in games."""

    path: Path
    marks: tuple[int, ...]

    @classmethod
    def of(cls, run: Path, *, size: int, goal: int) -> "LeagueFolder":
        """The league folder of a run, for `size` networks, evenly over `goal` games."""
        marks = sorted({max(1, goal * number // size) for number in range(1, size + 1)})
        return cls(run / "league", tuple(marks))

    def next_mark(self, games: int) -> int | None:
        """The first mark that is not reached; `None` after the last."""
        return next((mark for mark in self.marks if mark > games), None)

    def passed(self, newest: int, games: int) -> list[int]:
        """The marks that the newest games have passed, of all games."""
        return [mark for mark in self.marks if games - newest < mark <= games]

    def write(self, mark: int, policy: ActorCritic) -> None:
        """Keeps a network."""
        self.path.mkdir(exist_ok=True)
        save(policy, self.path / f"{mark:012}{_SUFFIX}")

    def read(self, like: ActorCritic) -> dict[str, ActorCritic]:
        """The kept networks, by the number of games before them.

        A run that was made longer has kept more than it wants: they are then some, evenly.
        """
        kept = sorted(self.path.glob(f"*{_SUFFIX}"))
        most = len(self.marks) + 1
        if len(kept) > most:
            kept = [kept[place * (len(kept) - 1) // max(1, most - 1)] for place in range(most)]
        return {f"{int(path.stem):,} games": load(path, like=like) for path in kept}


@final
class KeepForLeague(Hook):
    """Keeps earlier networks of self-play for a league; only a process that `writes` does so."""

    def __init__(
        self, league: LeagueFolder, *, writes: bool, note: Callable[[str], object]
    ) -> None:
        self._league = league
        self._writes = writes
        self._note = note

    def on_start(self, trainer: Trainer[Any]) -> None:
        """Keeps the untrained network."""
        if trainer.algorithm.progress(trainer.state) == 0:
            self._write(0, trainer)

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """Updates until the next network is kept."""
        done = trainer.algorithm.progress(trainer.state)
        mark = self._league.next_mark(done)
        return None if mark is None else trainer.algorithm.updates_until(trainer.state, mark)

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        """Keeps the network at the marks that the dispatch has passed."""
        # A dispatch ends where a mark may be passed, but one update may pass several.
        for mark in self._league.passed(metrics.episodes, int(metrics.extra["games"])):
            self._write(mark, trainer)

    def _write(self, mark: int, trainer: Trainer[Any]) -> None:
        if not self._league.marks:
            return
        policy = trainer.policy  # every process takes part in gathering it
        if not self._writes:
            return
        try:
            self._league.write(mark, policy)
        except OSError as error:  # a league is worth having, but no reason to stop
            self._note(f"could not keep a network for the league: {error}")
