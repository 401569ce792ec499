"""Opens the sinks of a run."""

from collections.abc import Sequence

from hackmatrix_rl.config import RunConfig
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs.sinks import (
    Fanout,
    JsonLines,
    Length,
    LogFile,
    Queued,
    Sink,
    TensorBoard,
    WeightsAndBiases,
)


def open_sinks(config: RunConfig, folder: RunFolder, displays: Sequence[Sink] = ()) -> Fanout:
    """Opens the run's files, and the services that its settings ask for.

    With several processes, all except process 0 have only a log.

    Args:
        config: the settings.
        folder: the run's folder.
        displays: further sinks, which come first.

    Returns:
        All sinks as one.

    Raises:
        ConfigError: a service refuses.
    """
    log = LogFile(folder.log, length=Length(config.last_goal, config.counts))
    if folder.process > 0:
        return Fanout([log])
    sinks = [*displays, JsonLines(folder.metrics), log]
    if config.tensorboard:
        sinks.append(TensorBoard(folder.path / "tensorboard"))
    if config.wandb:
        sinks.append(Queued(open_wandb(config, folder), report=Fanout(sinks).note))
    return Fanout(sinks)


def open_wandb(config: RunConfig, folder: RunFolder) -> WeightsAndBiases:
    """Opens the run on Weights & Biases; one that is there goes on.

    Args:
        config: the settings.
        folder: the run's folder.

    Raises:
        ConfigError: the service refuses.
    """
    return WeightsAndBiases(
        project=config.wandb_project,
        run_id=folder.wandb_id,
        name=config.wandb_name or folder.run_id,
        group=config.wandb_group,
        tags=[tag.strip() for tag in (config.wandb_tags or "").split(",") if tag.strip()],
        notes=config.wandb_notes,
        folder=folder.path,
        config=config.as_dict(),
        mode="offline" if config.wandb_mode == "offline" else "online",
    )
