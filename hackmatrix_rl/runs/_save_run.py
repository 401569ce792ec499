"""`hm.SaveRun`: a run folder for a training that was composed in Python."""

import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, final

from hackmatrix_rl.agent.networks import module_of
from hackmatrix_rl.runs._curve import draw_curve, number
from hackmatrix_rl.runs._described import describe_training
from hackmatrix_rl.runs._health import Health
from hackmatrix_rl.runs._lock import RunLock, check_links
from hackmatrix_rl.runs._record import settings_of_members
from hackmatrix_rl.runs._saved_summary import summary_of
from hackmatrix_rl.runs._saving import RETRY_SECONDS
from hackmatrix_rl.runs._trainings import MemberMeans
from hackmatrix_rl.runs._versions import record_start
from hackmatrix_rl.runs._wall_time import WallTime
from hackmatrix_rl.runs.checkpoints import (
    AGENT_FILE,
    playing_of_saved,
    settings_of_saved,
    write_agent,
)
from hackmatrix_rl.runs.config import Code
from hackmatrix_rl.runs.sinks import (
    Fanout,
    JsonLines,
    LogFile,
    Sink,
    forget_rows_after,
    read_json_lines,
)
from hackmatrix_rl.system import (
    any_process,
    check_path,
    is_process_zero,
    on_process_zero,
    typed_path,
    write_json,
)
from hackmatrix_rl.system.errors import ConfigError, finite, refusing, whole
from hackmatrix_rl.training import Hook, Metrics, StopTraining, Trainer, first_policy


@final
class _Notes(Sink):
    """Passes messages to a function, and drops rows."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take

    def note(self, message: str) -> None:
        self._take(message)


@final
class SaveRun(Hook):
    """A hook that saves a training in a folder, and resumes it from there.

        trainer.fit(1_000_000, key=jax.random.key(0), hooks=[hm.SaveRun("runs/cartpole")])

    If the folder holds a training of the same modules, the training continues from it, bit for
    bit, whatever its key. So the same cell starts a training, and resumes it after a crash. If
    Python plays the games (`Environment.pure`), new games start, and a message says so. The files
    of the folder are

    - `training.hmrl`: the newest state, as `Trainer.save` writes it;
    - `agent.hmrl`: the agent, for `hm.load`, `hackmatrix-rl eval`, `watch` and `export`;
    - `config.json`: the modules and sizes, as far as settings can express them;
    - `versions.json`: software and hardware of each start;
    - `metrics.jsonl`: one row for each dispatch;
    - `log.txt`: the rows and messages with the time of day;
    - `summary.json`: at the end of the training, the results of the agent: its last evaluation
      (`hm.EvaluateEvery`), or the means over the last tenth of the training;
    - `learning_curve.png`: at the end of the training, the learning curve.

    Of several trainings (`hm.Population`), the agent is the one with the highest return over the
    last tenth of the training.

    It saves at the start, every few minutes, and when the training ends or another hook stops it.
    An exception, such as Ctrl-C in a dispatch, loses the updates since the last save. It checks
    the training's health like the command line (see `hackmatrix_rl.runs.Health`): a state that is
    not finite is never saved, and too many of them in a row stop the training.

    Put it before hooks that may fail. All processes of a training must see the folder.

    Args:
        folder: the folder, created if it is missing. It is locked while the training runs.
        minutes: minutes between saves.
        updates: updates between saves, instead of minutes. A dispatch ends at each multiple.
        health: the health checks and their limits.
        note: called with each message.
        clock: a monotonic clock in seconds.
        agent: a function that makes the trainer, as `my_module:make`. With it, the commands need no
            `--agent` for a training of your modules.

    Raises:
        ConfigError: at the start of the training: the folder cannot be written, is in use, or
            holds a state that does not fit the trainer.
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        minutes: float = 10.0,
        updates: int | None = None,
        health: Health | None = None,
        note: Callable[[str], None] = print,
        clock: Callable[[], float] = time.monotonic,
        agent: str | None = None,
    ) -> None:
        check_path(str(folder), "folder")
        if agent is not None and module_of(agent) is None:
            raise ValueError(f"agent must name a function, as my_module:make, not {agent!r}")
        self._agent = agent
        self._folder = Path(typed_path(folder, lasting=True))  # a hook may change the directory
        if finite("minutes", minutes) <= 0:
            raise ValueError(f"minutes must be above 0, not {minutes}")
        self._seconds = 60 * minutes
        self._updates = None if updates is None else whole("updates", updates)
        self._health = Health() if health is None else health
        self._notes = _Notes(note)
        self._clock = clock
        self._lock: RunLock | None = None
        self._sinks = Fanout([])
        self._seen = self._saved = -1  # the updates of the newest row, and of the file
        self._due = 0.0
        self._ended = False
        self._unwritten: Metrics | None = None
        self._config: dict[str, Any] = {}
        self._members = MemberMeans()
        self._times = WallTime(clock)
        self._share: dict[str, float] = {}
        self._unknown = ""
        self._episode: set[str] = set()  # metrics that are means over games

    @property
    def _state(self) -> Path:
        return self._folder / "training.hmrl"

    @property
    def _metrics(self) -> Path:
        return self._folder / "metrics.jsonl"

    def on_start(self, trainer: Trainer[Any]) -> None:
        """Continues from the state in the folder, or saves the first one there."""
        self._ended = False
        self._members = MemberMeans()
        self._times = WallTime(self._clock)
        self._unknown = ""
        sinks: list[Sink] = []
        with ExitStack() as unless_opened:
            lock = unless_opened.enter_context(RunLock())
            if is_process_zero():
                lock.take("folder", self._folder)
                check_links(self._folder, f"folder {self._folder}")
                log = self._folder / "log.txt"
                with refusing(f"folder {self._folder}: ", of=OSError):
                    sinks = [self._notes, JsonLines(self._metrics), LogFile(log)]
            unless_opened.pop_all()
        self._lock, self._sinks = lock, Fanout(sinks)
        if is_process_zero():
            self._describe(trainer)
        if on_process_zero(self._state.exists):
            new: list[str] = []
            trainer.load(self._state, report=new.append)
            self._seen = self._saved = int(trainer.state.update)
            self._sinks.note(
                "; ".join([f"resumed at update {self._saved:,}, from {self._state}", *new])
            )
        else:
            self._save(trainer)
        if is_process_zero():
            if self._metrics.exists():
                self._times.recall_file(self._metrics, self._saved)
            for message in forget_rows_after(self._metrics, self._saved):
                self._sinks.note(message)
            rows = list(read_json_lines(self._metrics))
            self._health.recall(rows)
            self._members.recall(rows)
        if not on_process_zero((self._folder / AGENT_FILE).exists):
            self._write_agent(trainer)

    def before_dispatch(self, trainer: Trainer[Any]) -> None:
        """Saves if a save is due."""
        update = int(trainer.state.update)
        due = self._clock() >= self._due
        if self._updates is not None:
            due = update % self._updates == 0
        if any_process(due) and update != self._saved and self._health.sound:
            try:
                self._save(trainer)
            except OSError as error:
                self._due = self._clock() + RETRY_SECONDS
                self._sinks.note(f"COULD NOT SAVE update {update}: {error}. Training continues.")

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """The updates until the next save, if saves are counted in updates."""
        every = self._updates
        return None if every is None else every - int(trainer.state.update) % every

    def _describe(self, trainer: Trainer[Any]) -> None:
        """Writes `config.json`, and adds this start to `versions.json`."""
        with refusing(f"folder {self._folder}: ", of=OSError):
            for line in record_start(self._folder / "versions.json"):
                self._sinks.note(line)
            before = settings_of_saved(self._folder, self._sinks.note).get("hook_metrics")
            named = (
                [each for each in before if isinstance(each, str)]
                if isinstance(before, list)
                else []
            )
            self._config = {**describe_training(trainer, self._agent), "hook_metrics": named}
            write_json(self._folder / "config.json", self._config)
        if self._agent is not None and (module := module_of(self._agent)) is not None:
            with suppress(OSError):  # the flag is asked for
                Code("agent", self._agent, module).remember()

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        """Checks the metrics."""
        self._seen = metrics.updates
        self._unwritten = metrics
        unknown = trainer.utilization().unknown
        if unknown not in ("", self._unknown):
            self._sinks.note(f"mfu is left out: {unknown}")
        self._unknown = unknown
        self._share = self._times.train(trainer, metrics)
        self._members.look(metrics.updates, metrics.extra)
        self._episode |= metrics.episode.keys()
        findings = self._health.look(metrics)
        for finding in findings:
            self._sinks.note(finding.message)
        if any(finding.stop for finding in findings):
            raise StopTraining

    def on_metrics(self, trainer: Trainer[Any], metrics: Metrics, added: Collection[str]) -> None:
        """Writes the metrics, including the metrics of hooks after this one."""
        self._unwritten = metrics
        self._write()
        named = self._config.get("hook_metrics", [])
        if is_process_zero() and not set(added) <= set(named):
            self._config["hook_metrics"] = sorted({*named, *added})
            try:
                write_json(self._folder / "config.json", self._config)
            except OSError as error:
                self._sinks.note(f"could not write {self._folder / 'config.json'}: {error}")

    def _write(self) -> None:
        if self._unwritten is not None:
            self._sinks.write({**self._unwritten.as_dict(), **self._share, **self._times.read()})
            self._unwritten = None

    def on_end(self, trainer: Trainer[Any]) -> None:
        """Notes that the training has reached its goal."""
        self._ended = True

    def on_exit(self, trainer: Trainer[Any]) -> None:
        """Saves the last state, draws the curve, and frees the folder."""
        if self._lock is None:
            return
        try:
            self._write()  # where a later hook has raised
            update = trainer.state.update
            # A dispatch that raised has already donated the state that it began with.
            whole = not update.is_deleted() and int(update) == self._seen != self._saved
            if whole and self._health.sound:
                try:
                    self._save(trainer)
                except OSError as error:
                    self._sinks.note(f"COULD NOT SAVE update {self._seen}: {error}.")
                    raise
            how = "trained to the end at" if self._ended else "stopped at"
            if spent := str(self._times):
                self._sinks.note(f"time {spent}")
            self._sinks.note(f"{how} update {self._seen:,}; saved: update {self._saved:,}")
            if is_process_zero():
                try:
                    self._summarize(trainer)
                except (OSError, ConfigError) as error:  # such as a full disk
                    self._sinks.note(f"could not write the summary or the curve: {error}")
        finally:
            self._sinks.close()
            self._lock.close()
            self._lock = None

    def _summarize(self, trainer: Trainer[Any]) -> None:
        """Writes the results and the learning curve."""
        algorithm = trainer.algorithm
        like = first_policy(algorithm, algorithm.initial_policy)
        rows = [
            row
            for row in read_json_lines(self._metrics)
            if number(row.get("updates")) <= self._saved
        ]
        if rows:
            found = summary_of(
                self._config,
                rows,
                self._episode,
                plays=playing_of_saved(self._folder, like, self._sinks.note),
                evaluated=trainer.member,
            )
            found["trained"] |= self._times.results()
            write_json(self._folder / "summary.json", found)
        draw_curve(
            self._metrics,
            self._folder / "learning_curve.png",
            title=self._folder.resolve().name,
            settings=settings_of_members(self._config),
        )

    def _write_agent(self, trainer: Trainer[Any]) -> None:
        write_agent(self._folder, trainer, self._members.counters, write=is_process_zero())

    def _save(self, trainer: Trainer[Any]) -> None:
        with self._times.spending("save"):
            trainer.save(self._state)
            self._write_agent(trainer)
        self._saved = int(trainer.state.update)
        self._due = self._clock() + self._seconds
