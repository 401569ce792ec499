"""The hooks that every training on HackMatrix has on the command line."""

from collections.abc import Mapping
from functools import partial
from typing import Any, final

import jax
from jaxtyping import Array, Key

from hackmatrix_rl.config import RunConfig, TrainConfig
from hackmatrix_rl.evaluation import Evaluation
from hackmatrix_rl.runs._compose import run_keys
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs._replaying import ReplayWriter
from hackmatrix_rl.runs.sinks import Sink
from hackmatrix_rl.system import ticking
from hackmatrix_rl.training import EVALUATION, EvaluateEvery, Hook, Metrics, Trainer


@final
class EvaluateAndReplay(Hook):
    """Evaluates a training on HackMatrix now and then (`--eval-interval`), and keeps replays."""

    def __init__(
        self, config: TrainConfig, folder: RunFolder, trainer: Trainer[Any], sink: Sink
    ) -> None:
        self._config = config
        self._sink = sink
        self._replays = ReplayWriter.of(
            folder, trainer.environment, most=config.replays, note=sink.note, show=sink.show
        )
        self._evaluate: EvaluateEvery | None = None
        if config.eval_interval:
            self._evaluate = EvaluateEvery(
                config.eval_interval,
                episodes=config.eval_interval_episodes,
                key=evaluation_key(config),
                record=self._replays is not None,
                on_result=self._keep,
            )

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """The updates until the next evaluation."""
        return None if self._evaluate is None else self._evaluate.updates_until_due(trainer)

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> Mapping[str, float] | None:
        """Evaluates where it is due, and tells the result."""
        if self._evaluate is None:
            return None
        with ticking(partial(self._sink.working, "evaluating")):
            found = self._evaluate.after_dispatch(trainer, metrics)
        if found is not None:
            self._sink.note(_evaluation_line(metrics.updates, found))
        return found

    def on_end(self, trainer: Trainer[Any]) -> None:
        """Plays a game for Weights & Biases, where the run has shown none.

        Without the service, the summary that follows keeps one.
        """
        config = self._config
        if not (config.wandb and config.eval_episodes and config.replays) or config.eval_interval:
            return
        # Every process takes part in gathering them, and process 0 alone plays.
        agent = trainer.agent
        if self._replays is not None:
            update = int(trainer.state.update)
            with ticking(partial(self._sink.working, "playing")):
                self._replays.play(agent, evaluation_key(config), update=update)

    def _keep(self, trainer: Trainer[Any], metrics: Metrics, found: Evaluation) -> None:
        if not self._config.replays:
            return
        # Every process takes part in gathering them, and process 0 alone writes.
        agent, key = trainer.agent, evaluation_key(self._config)
        if self._replays is not None:
            self._replays.keep(found, key, update=metrics.updates, agent=agent)


def hooks_of(config: RunConfig, folder: RunFolder, trainer: Trainer[Any], sink: Sink) -> list[Hook]:
    """The hooks of a run: those of every training on HackMatrix, and those of its algorithm."""
    found: list[Hook] = config.hooks(folder, sink)
    if isinstance(config, TrainConfig):
        found.append(EvaluateAndReplay(config, folder, trainer, sink))
    return found


def evaluation_key(config: TrainConfig) -> Key[Array, ""]:
    """The key of the games that a run is evaluated on."""
    return jax.random.fold_in(run_keys(config.seed)[1], EVALUATION)


def _evaluation_line(update: int, found: Mapping[str, float]) -> str:
    """What an evaluation came to, for people to read."""
    parts = [
        f"{name} {found[f'eval/{name}']:.3f} "
        f"[{found[f'eval/{name}_low']:.3f}, {found[f'eval/{name}_high']:.3f}]"
        for name in ("return", "score", "won")
        if f"eval/{name}" in found
    ]
    games = int(found["eval/episodes"])
    return f"update {update:,}: evaluated on {games:,} games: {', '.join(parts)}"
