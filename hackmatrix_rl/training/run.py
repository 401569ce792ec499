"""A whole training run: from a config to a folder with everything in it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hackmatrix_rl.agent import ActorCritic
from hackmatrix_rl.env.environment import Environment
from hackmatrix_rl.training.checkpoints import CheckpointWriter
from hackmatrix_rl.training.compose import run_keys
from hackmatrix_rl.training.config import TrainConfig
from hackmatrix_rl.training.curve import draw_curve
from hackmatrix_rl.training.interrupts import Interrupts
from hackmatrix_rl.training.run_folder import RunFolder
from hackmatrix_rl.training.sinks import Sink, open_sinks
from hackmatrix_rl.training.trainer import Trainer
from hackmatrix_rl.training.watch import Watch


@dataclass(frozen=True)
class RunResult:
    """What a run came to.

    Attributes:
        policy: as it was at the end.
        environment: what it was trained in.
        env_steps: environment steps that were taken.
        interrupted: it was asked to stop before its end.
    """

    policy: ActorCritic
    environment: Environment
    env_steps: int
    interrupted: bool


def run(
    config: TrainConfig,
    trainer: Trainer,
    folder: RunFolder,
    *,
    displays: Sequence[Sink] = (),
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Trains, and writes metrics, log, checkpoints and learning curve into the run's folder.

    Asked to stop (Ctrl-C), it finishes the dispatch that is running, saves, and returns.

    Args:
        config: what to do.
        trainer: as `compose` built it from the config; it need not have started.
        folder: where; as `make_run_folder` made it.
        displays: further sinks; closed at the end.
        clock: seconds since some moment, for the time between checkpoints and of compiling.

    Raises:
        ConfigError: if Weights & Biases was asked for and refuses.
    """
    _, training_key = run_keys(config.seed)
    sink = open_sinks(config, folder, displays)
    try:
        with (
            CheckpointWriter(
                folder.checkpoints, keep=config.keep_checkpoints, config=config
            ) as checkpoints,
            Interrupts() as interrupts,
        ):
            sink.note("compiling ...")
            began = clock()
            trainer.start(training_key)
            trainer.compile()
            sink.note(f"compiled in {clock() - began:.1f} s")
            with Watch(config, folder, sink) as watch:
                _train(config, trainer, checkpoints, watch, interrupts, clock)
            if watch.sound:
                _save(checkpoints, trainer)
        if interrupts.requested():
            sink.note(f"stopped at {int(trainer.state.env_steps):,} steps; saved")
        draw_curve(folder.metrics, folder.curve, title=folder.run_id)
    finally:
        sink.close()
    return RunResult(
        policy=trainer.policy,
        environment=trainer.update.environment,
        env_steps=int(trainer.state.env_steps),
        interrupted=interrupts.requested(),
    )


def _train(
    config: TrainConfig,
    trainer: Trainer,
    checkpoints: CheckpointWriter,
    watch: Watch,
    interrupts: Interrupts,
    clock: Callable[[], float],
) -> None:
    saved = clock()
    if interrupts.requested():  # while compiling
        return
    for metrics in trainer.train(config.total_timesteps):
        if watch.look(metrics) or interrupts.requested():
            return
        minutes = config.save_interval_minutes
        if watch.sound and minutes is not None and clock() - saved >= 60 * minutes:
            _save(checkpoints, trainer)
            saved = clock()


def _save(checkpoints: CheckpointWriter, trainer: Trainer) -> None:
    state = trainer.state
    checkpoints.save(
        int(state.update),
        policy=state.learner.policy,
        training=state,
        counters={"env_steps": int(state.env_steps)},
    )
