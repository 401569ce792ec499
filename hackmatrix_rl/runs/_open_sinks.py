"""The sinks of a run, and its results on Weights & Biases."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from hackmatrix_rl.config import RunConfig, TrainConfig
from hackmatrix_rl.evaluation import Evaluation
from hackmatrix_rl.runs import sinks
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.view import draw, save_gif
from hackmatrix_rl.view.replays import Replay


def open_sinks(
    config: RunConfig, folder: RunFolder, displays: Sequence[sinks.Sink] = ()
) -> sinks.Fanout:
    """Opens the run's files, and the services that its settings ask for, as one sink.

    With several processes, all except process 0 have only a log. The `displays` come first.

    Raises:
        ConfigError: a service refuses.
    """
    log = sinks.LogFile(folder.log, length=sinks.Length(config.last_goal, config.counts))
    if folder.process > 0:
        return sinks.Fanout([log])
    every = [*displays, sinks.JsonLines(folder.metrics), log]
    if config.tensorboard:
        every.append(sinks.TensorBoard(folder.path / "tensorboard"))
    if config.wandb:
        report = sinks.Fanout(every).note
        patience = 60.0 + (sinks.UPLOAD_SECONDS if config.wandb_artifacts else 0)
        every.append(sinks.Queued(open_wandb(config, folder), patience=patience, report=report))
    return sinks.Fanout(every)


def open_wandb(config: RunConfig, folder: RunFolder) -> sinks.WeightsAndBiases:
    """Opens the run on Weights & Biases; one that is there goes on."""
    settings = config.as_dict()
    return sinks.WeightsAndBiases(
        project=config.wandb_project,
        run_id=folder.wandb_id,
        name=config.wandb_name or folder.run_id,
        group=config.wandb_group,
        tags=[tag.strip() for tag in (config.wandb_tags or "").split(",") if tag.strip()],
        notes=config.wandb_notes,
        folder=folder.path,
        config=settings,
        mode="offline" if config.wandb_mode == "offline" else "online",
        names=sinks.OriginalNames(settings) if config.metric_names == "original" else None,
        artifacts=config.wandb_artifacts,
    )


MOST_FRAMES = 200
"""Moves of a film. It takes some seconds, and a long one is not watched."""

_SCALE = 0.6
_SECONDS = 0.25


def send_summary(
    config: TrainConfig,
    folder: RunFolder,
    evaluations: Mapping[str, Evaluation],
    *,
    note: Callable[[str], None],
) -> None:
    """Sends the evaluations at the end as a table, and the newest replay as a GIF.

    The run has ended well without it, so what fails is told in one line. Offline, nothing is sent:
    the library would begin a second folder, without curves.
    """
    if config.wandb_mode == "offline":
        note(
            f"Send the run to Weights & Biases:  wandb sync {folder.path}/wandb/offline-run-*    "
            f"(the final evaluations stay in {folder.summary.name})"
        )
        return
    try:
        film = _film(folder)
        with closing(open_wandb(config, folder)) as service:
            if film is not None:
                service.film(film)
            service.table("final evaluations", rows_of(evaluations))
    except Exception as error:  # any error of a library or a service: told
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        note(f"could not send the final evaluations to Weights & Biases: {said}")


def rows_of(evaluations: Mapping[str, Evaluation]) -> list[dict[str, str | float]]:
    """A row for each player: its name, and each number with the ends of its 95% interval."""
    rows = []
    for player, evaluation in evaluations.items():
        row: dict[str, str | float] = {"player": player, "episodes": evaluation.episodes}
        for name in evaluation.values:
            found = evaluation.estimate(name)
            row |= {name: found.mean, f"{name} low": found.low, f"{name} high": found.high}
        rows.append(row)
    return rows


def _film(folder: RunFolder) -> Path | None:
    """The newest replay of the run as a GIF; `None` where it keeps none."""
    newest = max(folder.replays.glob("update-*.json"), default=None)
    if newest is None:
        return None
    moments = Replay.load(newest).match().moments[:MOST_FRAMES]
    film = folder.path / "replay.gif"
    drawings = [draw(moment.frame) for moment in moments]
    save_gif(drawings, film, seconds_per_frame=_SECONDS, scale=_SCALE)
    return film
