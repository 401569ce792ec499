"""The hooks of every run, and replays of evaluation games in its folder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, final

from jaxtyping import Array, Key

from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.evaluation import Evaluation, PolicyAgent
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs._keys import evaluation_key
from hackmatrix_rl.runs.config import RunConfig, TrainConfig
from hackmatrix_rl.runs.sinks import Sink
from hackmatrix_rl.system import ticking, write_whole
from hackmatrix_rl.training import EvaluateEvery, Hook, Metrics, Trainer
from hackmatrix_rl.view import save_gif
from hackmatrix_rl.view.replays import (
    Match,
    Mind,
    Recording,
    Replay,
    drawings_of,
    game_seed,
    median_game,
    page_of,
    page_of_recording,
    recorded,
    replays_of,
)

MOST_MOVES = 5_000
"""Maximum number of moves in a game that is played only for its replay."""

_MOST_BYTES = 2**21  # of the pictures of a game, because a run keeps many games

_CHOICE = "median:1"  # a typical game; the best one is mostly luck

MOST_FRAMES = 200
"""Maximum number of moves in a GIF, which takes some seconds to write."""

_SCALE = 0.6
_SECONDS = 0.25


def film_of(game: Match | Recording, folder: RunFolder) -> Path:
    """Writes the first moves of a game into the run's folder as a GIF."""
    film = folder.path / "replay.gif"
    drawings = drawings_of(game)[:MOST_FRAMES]
    save_gif(drawings, film, seconds_per_frame=_SECONDS, scale=_SCALE)
    return film


@dataclass
class ReplayWriter:
    """Writes replays of a run: each as a small file, the newest also as an HTML page.

    A failure does not stop the training; it is reported once, until a write succeeds again. The
    `most` newest replays are kept, and the one with the highest return. `show` takes the page, and
    `film` a function that writes a GIF of the game.
    """

    folder: RunFolder
    environment: Environment
    most: int
    note: Callable[[str], None]
    show: Callable[[Path], None] = lambda page: None
    film: Callable[[Callable[[], Path]], None] = lambda draw: None
    _failed: bool = field(default=False, init=False)

    @classmethod
    def of(
        cls, folder: RunFolder, environment: Environment, *, most: int, **options: Any
    ) -> "ReplayWriter | None":
        """A writer; `None` in processes other than 0, or if `most` is 0."""
        if folder.process or not most:
            return None
        return cls(folder, environment, most, **options)

    def keep(
        self,
        found: Evaluation,
        key: Key[Array, ""],
        *,
        update: int,
        agent: PolicyAgent | None = None,
    ) -> None:
        """Keeps the game with the median return of an evaluation.

        In environments other than HackMatrix, the agent plays it again to record what it observes.
        """

        def game() -> Match | Recording:
            if not isinstance(self.environment, HackMatrix):
                return self._recorded(agent, key, median_game(found))
            games = replays_of(found, self.environment, key=key, choice=_CHOICE)
            return next(match for _, match, _ in games)

        self._attempt(game, update, agent)

    def play(self, agent: PolicyAgent, key: Key[Array, ""], *, update: int) -> None:
        """Plays the first game of an evaluation's key with an agent, and keeps it."""

        def game() -> Match | Recording:
            if not isinstance(self.environment, HackMatrix):
                return self._recorded(agent, key, 0)
            config, steps = self.environment.config, self.environment.max_steps
            match = Match(game_seed(key), config=config, max_steps=steps)
            mind = Mind(agent, match, environment=self.environment)
            while match.now.end is None and match.now.number < MOST_MOVES:
                match.play(mind.opinion().action)
            return match

        self._attempt(game, update, agent)

    def _recorded(self, agent: PolicyAgent | None, key: Key[Array, ""], game: int) -> Recording:
        assert agent is not None
        return recorded(
            agent, self.environment, key, game=game, name="agent", most_bytes=_MOST_BYTES
        )

    def _attempt(
        self, game: Callable[[], Match | Recording], update: int, agent: PolicyAgent | None
    ) -> None:
        try:
            self._write(game(), update, agent)
        except Exception as error:  # any error is reported, and training continues
            if not self._failed:
                self._failed = True
                said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                self.note(f"could not write a replay: {said}. Training continues.")
        else:
            self._failed = False

    def _write(self, game: Match | Recording, update: int, agent: PolicyAgent | None) -> None:
        player = f"{self.folder.run_id}, update {update:,}"
        name = f"update-{update:08}_return-{game.total_reward:.2f}"
        replay: Replay | Recording
        if isinstance(game, Recording):
            replay = replace(game, player=player)
        else:
            replay = Replay.from_match(game, player=player)
            name += f"_stage-{replay.stage}"
        folder = self.folder.replays
        folder.mkdir(exist_ok=True)
        # A resumed run may repeat an update.
        for old in folder.glob(f"update-{update:08}_*.json"):
            old.unlink()
        replay.save(folder / f"{name}.json")
        self._forget_the_oldest()
        write_whole(self.folder.page, self._page(game, replay, agent))
        self.show(self.folder.page)
        self.film(partial(film_of, game, self.folder))

    def _page(
        self, game: Match | Recording, replay: Replay | Recording, agent: PolicyAgent | None
    ) -> str:
        if isinstance(replay, Recording):
            return page_of_recording(replay)
        assert isinstance(game, Match)
        assert isinstance(self.environment, HackMatrix)
        minds = {"agent": Mind(agent, game, environment=self.environment)} if agent else {}
        return page_of(game, minds=minds, player=replay.player)

    def _forget_the_oldest(self) -> None:
        replays = sorted(self.folder.replays.glob("update-*_return-*.json"))
        best = max(replays, key=_return, default=None)
        for path in replays[: -self.most]:
            if path != best:
                path.unlink()


def _return(path: Path) -> float:
    """The return in the name of a replay; minus infinity for any other name."""
    _, _, rest = path.stem.partition("_return-")
    try:
        return float(rest.partition("_")[0])
    except ValueError:
        return float("-inf")


@final
class EvaluateAndReplay(Hook):
    """Evaluates a single-player training every `--eval-interval` updates, and keeps replays."""

    def __init__(
        self, config: TrainConfig, folder: RunFolder, trainer: Trainer[Any], sink: Sink
    ) -> None:
        self._config = config
        self._sink = sink
        self._replays = ReplayWriter.of(
            folder,
            trainer.environment,
            most=config.replays,
            note=sink.note,
            show=sink.show,
            film=sink.film,
        )
        self._evaluate: EvaluateEvery | None = None
        if config.eval_interval:
            self._evaluate = EvaluateEvery(
                config.eval_interval,
                episodes=config.eval_interval_episodes,
                key=evaluation_key(config),
                record=self._replays is not None and isinstance(trainer.environment, HackMatrix),
                on_result=self._keep,
            )

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """The updates until the next evaluation."""
        return None if self._evaluate is None else self._evaluate.updates_until_due(trainer)

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> Mapping[str, float] | None:
        """Evaluates where it is due, and logs the result."""
        if self._evaluate is None:
            return None
        with ticking(partial(self._sink.working, "evaluating")):
            found = self._evaluate.after_dispatch(trainer, metrics)
        if found is not None:
            self._sink.note(_evaluation_line(metrics.updates, found))
        return found

    def on_end(self, trainer: Trainer[Any]) -> None:
        """Plays a game for Weights & Biases if no evaluation has kept one.

        Without the service, the final summary keeps one.
        """
        config = self._config
        wanted = "wandb" in config.trackers and config.eval_episodes and config.replays
        if not wanted or config.eval_interval:
            return
        # All processes take part in gathering the arrays; process 0 alone plays.
        agent = trainer.agent
        if self._replays is not None:
            update = int(trainer.state.update)
            with ticking(partial(self._sink.working, "playing")):
                self._replays.play(agent, evaluation_key(config), update=update)

    def _keep(self, trainer: Trainer[Any], metrics: Metrics, found: Evaluation) -> None:
        if not self._config.replays:
            return
        # All processes take part in gathering the arrays; process 0 alone writes.
        agent, key = trainer.agent, evaluation_key(self._config)
        if self._replays is not None:
            self._replays.keep(found, key, update=metrics.updates, agent=agent)


def hooks_of(config: RunConfig, folder: RunFolder, trainer: Trainer[Any], sink: Sink) -> list[Hook]:
    """The hooks of a run: of every training of one player, and of its algorithm."""
    found: list[Hook] = config.hooks(folder, sink)
    if isinstance(config, TrainConfig):
        found.append(EvaluateAndReplay(config, folder, trainer, sink))
    return found


def _evaluation_line(update: int, found: Mapping[str, float]) -> str:
    """The result of an evaluation, in words."""
    parts = [
        f"{name} {found[f'eval/{name}']:.3f} "
        f"[{found[f'eval/{name}_low']:.3f}, {found[f'eval/{name}_high']:.3f}]"
        for name in ("return", "score", "won")
        if f"eval/{name}" in found
    ]
    games = int(found["eval/episodes"])
    return f"update {update:,}: evaluated on {games:,} games: {', '.join(parts)}"
