"""Replays of evaluation games in a run's folder."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import Array, Key

from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.evaluation import Evaluation, PolicyAgent
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.system import write_whole
from hackmatrix_rl.view.replays import Match, Mind, Replay, game_seed, page_of, replays_of

MOST_MOVES = 5_000
"""Moves after which a game that is played only to be watched ends."""

_CHOICE = "median:1"  # how the agent usually plays; the best game is mostly luck


@dataclass
class ReplayWriter:
    """Writes games of a run down: each as a small file, the newest also as a page.

    Nothing here stops a training: what fails is told once, until something succeeds again. The
    `most` newest replays stay, beside the one with the highest return.
    """

    folder: RunFolder
    environment: HackMatrix
    most: int
    note: Callable[[str], None]
    show: Callable[[Path], None] = lambda page: None
    _failed: bool = field(default=False, init=False)

    @classmethod
    def of(
        cls, folder: RunFolder, environment: Environment, *, most: int, **told: Any
    ) -> "ReplayWriter | None":
        """A writer, or `None` where nothing is written: another process or another game."""
        if folder.process or not most or not isinstance(environment, HackMatrix):
            return None
        return cls(folder, environment, most, **told)

    def keep(
        self,
        found: Evaluation,
        key: Key[Array, ""],
        *,
        update: int,
        agent: PolicyAgent | None = None,
    ) -> None:
        """Keeps the game with the median return of an evaluation."""

        def game() -> Match:
            games = replays_of(found, self.environment, key=key, choice=_CHOICE)
            return next(match for _, match, _ in games)

        self._attempt(game, update, agent)

    def play(self, agent: PolicyAgent, key: Key[Array, ""], *, update: int) -> None:
        """Plays the first game of an evaluation's key with an agent, and keeps it."""

        def game() -> Match:
            config, steps = self.environment.config, self.environment.max_steps
            match = Match(game_seed(key), config=config, max_steps=steps)
            mind = Mind(agent, match, environment=self.environment)
            while match.now.end is None and match.now.number < MOST_MOVES:
                match.play(mind.opinion().action)
            return match

        self._attempt(game, update, agent)

    def _attempt(self, game: Callable[[], Match], update: int, agent: PolicyAgent | None) -> None:
        try:
            self._write(game(), update, agent)
        except Exception as error:  # any error: told, and training goes on
            if not self._failed:
                self._failed = True
                said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                self.note(f"could not write a replay: {said}. Training goes on.")
        else:
            self._failed = False

    def _write(self, match: Match, update: int, agent: PolicyAgent | None) -> None:
        player = f"{self.folder.run_id}, update {update:,}"
        replay = Replay.of(match, player=player)
        folder = self.folder.replays
        folder.mkdir(exist_ok=True)
        # A resumed run may come here again.
        for old in folder.glob(f"update-{update:08}_*.json"):
            old.unlink()
        name = f"update-{update:08}_return-{replay.total_reward:.2f}_stage-{replay.stage}"
        replay.save(folder / f"{name}.json")
        self._forget_the_oldest()
        minds = {"agent": Mind(agent, match, environment=self.environment)} if agent else {}
        write_whole(self.folder.page, page_of(match, minds=minds, player=player))
        self.show(self.folder.page)

    def _forget_the_oldest(self) -> None:
        replays = sorted(self.folder.replays.glob("update-*_return-*.json"))
        best = max(replays, key=_return, default=None)
        for path in replays[: -self.most]:
            if path != best:
                path.unlink()


def _return(path: Path) -> float:
    """The return in the name of a replay; the lowest for a name that somebody changed."""
    _, _, rest = path.stem.partition("_return-")
    try:
        return float(rest.partition("_")[0])
    except ValueError:
        return float("-inf")
