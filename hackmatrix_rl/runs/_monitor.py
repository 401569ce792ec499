"""Monitors a run: sinks, health checks and profiler."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import jax

from hackmatrix_rl.evaluation import Evaluation
from hackmatrix_rl.runs import sinks
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs._health import Finding, Health, MemberHealth
from hackmatrix_rl.runs._replaying import film_of
from hackmatrix_rl.runs._versions import record_start
from hackmatrix_rl.runs._wall_time import WallTime
from hackmatrix_rl.runs.config import RunConfig, TrainConfig
from hackmatrix_rl.runs.sinks import Sink, read_json_lines
from hackmatrix_rl.system import Usage, wandb_sync
from hackmatrix_rl.system.errors import in_shell
from hackmatrix_rl.training import Metrics, Reports
from hackmatrix_rl.view.replays import Replay, load_game


def open_sinks(
    config: RunConfig, folder: RunFolder, displays: Sequence[sinks.Sink] = ()
) -> sinks.Fanout:
    """Opens the run's files and services as one sink, after the `displays`.

    Processes other than 0 have only a log.
    """
    log = sinks.LogFile(folder.log, length=sinks.Length.from_config(config))
    if folder.process > 0:
        return sinks.Fanout([log])
    begun = folder.metrics.exists() and folder.metrics.stat().st_size > 0
    every = [*displays, sinks.JsonLines(folder.metrics), log]
    report = sinks.Fanout(every).note
    if "tensorboard" in config.trackers:
        every.append(sinks.TensorBoard(folder.path / "tensorboard", names=_names(config)))
    if "trackio" in config.trackers:
        trackio = open_trackio(config, folder)
        if begun and not trackio.resumed:
            report(
                f"trackio: the project {config.wandb_project} has no run {folder.wandb_id}. Its "
                f"curves begin here; the earlier rows are in {folder.metrics.name}."
            )
        every.append(sinks.Queued(trackio, report=report))
    if "wandb" in config.trackers:
        patience = 60.0 + (sinks.UPLOAD_SECONDS if config.wandb_artifacts else 0)
        every.append(sinks.Queued(open_wandb(config, folder), patience=patience, report=report))
        for member in range(config.members if config.wandb_members else 0):
            sink = open_wandb(config, folder, member=member)
            every.append(sinks.Queued(sink, patience=patience, report=report))
    return sinks.Fanout(every)


def _names(config: RunConfig) -> Callable[[sinks.Row], sinks.Row]:
    """The names of metrics in the trackers, except for the original project's."""
    return dict if config.metric_names == "flat" else sinks.grouped


def open_trackio(config: RunConfig, folder: RunFolder) -> sinks.Trackio:
    """Opens or resumes the run in trackio, under its id on Weights & Biases."""
    return sinks.Trackio(
        project=config.wandb_project,
        run_id=folder.wandb_id,
        config=config.as_dict(),
        group=config.wandb_group,
        names=_names(config),
    )


def open_wandb(
    config: RunConfig, folder: RunFolder, *, member: int | None = None
) -> sinks.WeightsAndBiases:
    """Opens or resumes the run on Weights & Biases.

    With `member`, that training is logged as a separate run, in a group with the others.
    """
    name, group = config.wandb_name or folder.run_id, config.wandb_group
    tags = [tag.strip() for tag in (config.wandb_tags or "").split(",") if tag.strip()]
    settings, last = config.as_dict(), ""
    original = config.metric_names == "original"
    if member is not None:
        group, last = group or folder.wandb_id, f"-{member}"
        tags += config.member_tags()[member]
        settings = config.member_configs()[member].as_dict()
    return sinks.WeightsAndBiases(
        project=config.wandb_project,
        run_id=f"{folder.wandb_id}{last}",
        name=f"{name}{last}",
        group=group,
        tags=tags,
        notes=config.wandb_notes,
        folder=folder.path,
        config=settings,
        mode="offline" if config.wandb_mode == "offline" else "online",
        names=sinks.OriginalNames(settings) if original else _names(config),
        artifacts=config.wandb_artifacts and member is None,
        member=member,
    )


def send_summary(
    config: TrainConfig,
    folder: RunFolder,
    evaluations: Mapping[str, Evaluation],
    *,
    note: Callable[[str], None],
) -> None:
    """Sends trackio and Weights & Biases the final evaluations as a table, and the newest replay.

    The run has already succeeded, so a failure is only reported. With `--wandb-mode offline`,
    Weights & Biases gets nothing: the library would start a second folder without the curves.
    """
    services: dict[str, Callable[[], sinks.Trackio | sinks.WeightsAndBiases]] = {}
    if "trackio" in config.trackers:
        services["trackio"] = partial(open_trackio, config, folder)
    if "wandb" in config.trackers and config.wandb_mode != "offline":
        services["Weights & Biases"] = partial(open_wandb, config, folder)
    elif "wandb" in config.trackers:
        note(
            "Send the run to Weights & Biases:  "
            f"{in_shell(*wandb_sync(), folder.path / 'wandb')}/offline-run-*    "
            f"(the final evaluations stay in {folder.summary.name})"
        )
    for name, opened in services.items():
        try:
            newest = max(folder.replays.glob("update-*.json"), default=None)
            with closing(opened()) as service:
                if newest is not None:
                    service.film(partial(_film, newest, folder))
                service.table("final evaluations", rows_of(evaluations))
        except Exception as error:  # any error of a library or a service is reported
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            note(f"could not send the final evaluations to {name}: {said}")


def rows_of(evaluations: Mapping[str, Evaluation]) -> list[dict[str, str | float]]:
    """A row for each player: its name, and each metric with the ends of its 95% interval."""
    rows = []
    for player, evaluation in evaluations.items():
        row: dict[str, str | float] = {"player": player, "episodes": evaluation.episodes}
        for name in evaluation.values:
            found = evaluation.estimate(name)
            row |= {name: found.mean, f"{name} low": found.low, f"{name} high": found.high}
        rows.append(row)
    return rows


def _film(replay: Path, folder: RunFolder) -> Path:
    """A replay as a GIF."""
    game = load_game(replay)
    return film_of(game.match() if isinstance(game, Replay) else game, folder)


class Profiler:
    """Records some updates with JAX's profiler.

    It skips the first dispatch, which warms up memory and caches. Then it records dispatches until
    they have `updates` updates, or until the run ends. With `None`, it records nothing.
    """

    def __init__(self, updates: int | None, folder: Path, *, report: Callable[[str], None]) -> None:
        self._wanted = updates
        self._folder = folder
        self._report = report
        self._began: int | None = None
        self._newest = 0

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(self, *error: object) -> None:
        if self._began is not None:
            self._stop(self._began)

    def look(self, metrics: Metrics) -> None:
        """Starts or ends the recording. Call it after each dispatch."""
        self._newest = metrics.updates
        if self._wanted is None:
            return
        if self._began is None:
            jax.profiler.start_trace(str(self._folder))
            self._began = metrics.updates
        elif metrics.updates - self._began >= self._wanted:
            self._stop(self._began)

    def _stop(self, began: int) -> None:
        jax.profiler.stop_trace()
        self._wanted = self._began = None
        self._report(f"profiler trace of {self._newest - began} updates: {self._folder}")


class RunMonitor:
    """Logs each dispatch with machine usage and wall time, and reports signs of trouble.

    On entry, it records software and hardware, and replays the rows that were logged before a
    resume. Any of the `reports` from checks inside the program (`--debug`) stops the run.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        sink: Sink,
        times: WallTime,
        *,
        reports: Reports | None = None,
    ) -> None:
        self._sink = sink
        self._times = times
        self._members = MemberHealth(config) if config.stop_unhealthy_members else None
        self._health = Health.of_all(config)
        self._reports = reports
        self._usage = Usage()
        self._profiler = Profiler(config.profile, folder.path / "profile", report=sink.note)
        self._versions = folder.versions
        self._metrics = folder.metrics
        self._first = folder.process == 0
        self._leave = ExitStack()
        self._stopped = False

    def __enter__(self) -> "RunMonitor":
        if self._first:
            try:
                for change in record_start(self._versions):
                    self._sink.note(change)
            except OSError as error:  # useful, but not required
                self._sink.note(f"could not write {self._versions}: {error}")
            if self._metrics.exists():  # of a resumed run; other processes may not see it
                rows = read_json_lines(self._metrics)
                self._health.recall(rows)
                if self._members is not None:
                    self._members.recall(rows)
        self._leave.enter_context(self._profiler)
        return self

    def __exit__(self, *error: object) -> None:
        self._leave.close()

    def begin(self, config: RunConfig, reports: Reports | None) -> None:
        """Switches to the limits and the reports of the next stage."""
        self._health = Health.of_all(config)
        self._reports = reports

    @property
    def sound(self) -> bool:
        """Whether the state may be saved: the newest dispatch was finite, and nothing must stop."""
        return self._health.sound and not self._stopped

    @property
    def left_out(self) -> Collection[int]:
        """The numbers of the trainings that are left out as unhealthy."""
        return () if self._members is None else self._members.left_out

    @property
    def plays(self) -> int:
        """The number of the training that plays: the first that is not left out."""
        return 0 if self._members is None else self._members.plays

    def look(self, metrics: Metrics) -> bool:
        """Logs and checks a dispatch; returns whether training must stop, without a checkpoint."""
        found: list[Finding] = []
        if self._members is not None:
            metrics, found = self._members.look(metrics)
        self._sink.write({**metrics.as_dict(), **self._usage.read(), **self._times.read()})
        self._profiler.look(metrics)
        for finding in [*found, *self._health.look(metrics)]:
            self._sink.note(finding.message)
            self._stopped = self._stopped or finding.stop
        for line in () if self._reports is None else self._reports.take():
            self._sink.note(f"--debug, update {metrics.updates:,}: {line}. Stopping.")
            self._stopped = True
        return self._stopped
