"""The sinks that a run's settings ask for."""

from collections.abc import Sequence

from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs.sinks import (
    Fanout,
    JsonLines,
    LogFile,
    Place,
    Queued,
    Sink,
    TensorBoard,
    WeightsAndBiases,
)


def open_sinks(
    config: TrainConfig,
    folder: RunFolder,
    displays: Sequence[Sink] = (),
    *,
    place: Place | None = None,
) -> Fanout:
    """Opens everything that a run reports to: files of its own always, services if asked for.

    With several processes, all but process 0 have a log alone.

    Args:
        config: which ones.
        folder: the run's.
        displays: further sinks, which come first.
        place: looks after the run's folder.

    Raises:
        ConfigError: if a service refuses.
    """
    log = LogFile(folder.log, total_timesteps=config.total_timesteps, place=place)
    if folder.process > 0:
        return Fanout([log])
    sinks = [
        *displays,
        JsonLines(folder.metrics, place),
        log,
    ]
    if config.tensorboard:
        sinks.append(TensorBoard(folder.path / "tensorboard", place=place))
    if config.wandb:
        service = WeightsAndBiases(
            project=config.wandb_project,
            run_id=folder.wandb_id,
            name=folder.run_id,
            folder=folder.path,
            config=config.as_dict(),
            mode="offline" if config.wandb_mode == "offline" else "online",
        )
        sinks.append(Queued(service, report=Fanout(sinks).note))
    return Fanout(sinks)
