"""Runs a training in a run folder, with checkpoints, metrics and a log."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from etils import epath
from jaxtyping import Array, Key

from hackmatrix_rl import system
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs._compose import compose
from hackmatrix_rl.runs._curve import draw_curve_of
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs._keys import stage_keys, training_keys
from hackmatrix_rl.runs._lineage import keep_lineage
from hackmatrix_rl.runs._monitor import RunMonitor, open_sinks
from hackmatrix_rl.runs._next_stage import NextStage
from hackmatrix_rl.runs._replaying import hooks_of
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs._saving import CheckpointScheduler
from hackmatrix_rl.runs._wall_time import WallTime
from hackmatrix_rl.runs.checkpoints import (
    CheckpointWriter,
    Complaints,
    playing_member,
    read_metadata,
)
from hackmatrix_rl.runs.config import RunConfig, TrainConfig
from hackmatrix_rl.runs.sinks import Fanout, Length, Sink, forget_rows_after, read_json_lines
from hackmatrix_rl.system.errors import as_given
from hackmatrix_rl.training import (
    Counter,
    Hook,
    Metrics,
    StopTraining,
    Trainer,
    reports_of,
    updates_until,
    without_members,
)


@dataclass(frozen=True)
class RunResult:
    """The result of a run: its player, the environment of its training, and how it ended.

    `config` describes the stage in which it ended. `member` is the number of the player's training
    if the program has several. `times` has the seconds of each part of the wall time and the share
    of the devices' peak, as metrics.
    """

    agent: PolicyAgent
    environment: Environment
    env_steps: int
    exit_code: system.ExitCode
    config: RunConfig
    update: int = 0
    member: int | None = None
    times: Mapping[str, float] = field(default_factory=dict)

    @property
    def policy(self) -> ActorCritic:
        """The trained network."""
        return self.agent.policy


def run(
    config: RunConfig,
    trainer: Trainer[Any],
    folder: RunFolder,
    *,
    resume: epath.Path | None = None,
    displays: Sequence[Sink] = (),
    hooks: Sequence[Hook] = (),
    trust_code: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Trains, and writes metrics, log, checkpoints and learning curve into the run's folder.

    On Ctrl-C, it finishes the current dispatch, saves, and returns. The trainer is that of
    `compose`, started or not; `resume` is the checkpoint to resume from. `displays` are further
    sinks, closed at the end. `hooks` are further hooks; a run that one of them stops is saved. With
    `trust_code`, code that a later stage names, such as a teacher's, may be imported.

    Raises:
        ConfigError: Weights & Biases was requested and fails, or the checkpoint does not fit.
    """
    key = training_keys(config)
    notes = list(folder.notes)
    times = WallTime(clock)
    if folder.process == 0:
        update = 0 if resume is None else int(resume.name)
        if resume is not None and folder.metrics.exists():
            times.recall_file(folder.metrics, update)
        notes += forget_rows_after(folder.metrics, update)
    sink = open_sinks(config, folder, displays)
    complaints = Complaints()
    try:
        with (
            system.ending_with_the_others(sink.note),
            system.Interrupts() as interrupts,
            complaints,
            ExitStack() as leaving,
            RunMonitor(config, folder, sink, times, reports=reports_of(trainer.algorithm)) as watch,
        ):
            for note in notes:
                sink.note(note)
            with _starting(config, sink):
                _start(config, trainer, key, resume, sink)
            while True:
                then = NextStage(config, folder, trust_code=trust_code)
                leaving.callback(then.cancel)
                end, unsaved = _stage(
                    config, trainer, folder, watch, sink, interrupts, [*hooks, then], clock, times
                )
                whole = end is system.ExitCode.DONE and not _is_left(config, trainer)
                # The next stage starts from the last checkpoint of this one.
                if not whole or unsaved or config.then is None:
                    break
                config, trainer = _next_stage(then, trainer, folder, sink, trust_code)
                watch.begin(config, reports_of(trainer.algorithm))
                sink.note(f"the next stage: {config.algorithm}, {config.words().learning}")
        removed = folder.removed()
        if end is not system.ExitCode.UNHEALTHY:
            how = "trained to the end" if whole and config.then is None else "stopped"
            gone = unsaved or removed is not None or end is system.ExitCode.UNSAVED
            saved = "NOT saved" if gone else "saved"
            why = "" if removed is None else f"{removed} was removed during the run; "
            # If the folder was removed, so was the log.
            audience = Fanout(displays) if removed == folder.path else sink
            if spent := str(times):
                audience.note(f"time {spent}")
            audience.note(f"{why}{how} at {_reached(config, trainer)}; {saved}")
        if config.members > 1 and end is system.ExitCode.DONE and not unsaved:
            newest = folder.checkpoints / str(int(trainer.state.update))
            trainer.member = playing_member(newest, config.members, sink.note)
        if folder.process == 0 and removed is None:
            try:
                draw_curve_of(folder, config)
                if isinstance(config, TrainConfig) and config.pbt_interval is not None:
                    keep_lineage(config, folder)
            except OSError as error:  # such as a full disk; the run itself has succeeded
                sink.note(f"could not draw the learning curve: {error}")
    finally:
        for text in complaints.take():
            sink.detail(text)
        sink.close()
    lost = unsaved or sink.failing or removed is not None
    if system.any_process(lost) and end is not system.ExitCode.UNHEALTHY:
        end = system.ExitCode.UNSAVED
    return RunResult(
        agent=trainer.agent,
        environment=trainer.environment,
        env_steps=int(trainer.state.env_steps),
        exit_code=end,
        config=config,
        update=int(trainer.state.update),
        member=trainer.member if config.members > 1 else None,
        times=times.results(),
    )


def _stage(
    config: RunConfig,
    trainer: Trainer[Any],
    folder: RunFolder,
    watch: RunMonitor,
    sink: Sink,
    interrupts: system.Interrupts,
    hooks: Sequence[Hook],
    clock: Callable[[], float],
    times: WallTime,
) -> tuple[system.ExitCode, bool]:
    """Trains one stage and saves; returns how it ended, and whether its last save failed."""
    with CheckpointWriter(
        folder.checkpoints,
        keep=config.keep,
        keep_best=isinstance(config, TrainConfig) and config.keep_best,
        keep_every=config.keep_every,
        config=config,
        run=folder.identity,
    ) as checkpoints:
        update = int(trainer.state.update)
        saving = CheckpointScheduler(
            config,
            checkpoints,
            update,
            note=sink.note,
            saved=lambda update: sink.keep(Path(folder.checkpoints / str(update))),
            clock=clock,
        )
        if update == 0:
            with system.ticking(partial(sink.working, "saving")), times.spending("save"):
                saving.begin(trainer)
        elif config.members > 1 and folder.metrics.exists():  # other processes may not see it
            saving.recall(read_json_lines(folder.metrics))
        loop = _RunLoop(
            config.goal, config.algorithm, folder, saving, watch, sink, interrupts, clock, times
        )
        trainer.fit(config.goal, hooks=[*hooks_of(config, folder, trainer, sink), *hooks, loop])
        end = loop.end
        if end is system.ExitCode.UNHEALTHY or not watch.sound:
            saving.settle()
            end = system.ExitCode.UNHEALTHY
        elif end is not system.ExitCode.UNSAVED and (
            end is not system.ExitCode.DONE or _is_left(config, trainer)
        ):  # at the goal, the loop has saved
            with times.spending("save"):
                saving.finish(trainer)
        return end, saving.unsaved


def _next_stage(
    stage: NextStage, before: Trainer[Any], folder: RunFolder, sink: Sink, trust_code: bool
) -> tuple[RunConfig, Trainer[Any]]:
    """The config and the trainer of the next stage, which continues the counters."""
    update, steps = int(before.state.update), int(before.state.env_steps)
    then = stage.config(update, steps)
    network, training = stage_keys(then, update)
    with _starting(then, sink):
        made = compose(then, key=network, read_init=True, trust_code=trust_code, report=sink.note)
        made.compile_ahead(stage.ahead(then))
        made.start(training)
    counters = jnp.asarray(update, jnp.int32), Counter.from_int(steps)
    made.state = eqx.tree_at(lambda state: (state.update, state.env_steps), made.state, counters)
    if folder.process == 0:
        try:
            system.write_json(folder.config, then.as_dict())
        except OSError as error:  # the checkpoints also have it
            sink.note(f"could not write {folder.config}: {error}")
    return then, made


@contextmanager
def _starting(config: RunConfig, sink: Sink) -> Iterator[None]:
    """Shows that the first state of a stage is made or restored, which compiles a program."""
    tick = partial(sink.working, f"starting {config.algorithm}")
    with system.ticking(tick):
        yield


def _start(
    config: RunConfig,
    trainer: Trainer[Any],
    key: Key[Array, "*members"],
    resume: epath.Path | None,
    sink: Sink,
) -> None:
    if resume is None:
        trainer.compile_ahead()
        trainer.start(key)
        return
    other_rewards = False
    if isinstance(config, TrainConfig):
        before = read_metadata(resume)["config"].get("reward")
        if other_rewards := before != config.reward:
            was, is_now = (text or "the game's own" for text in (before, config.reward))
            sink.note(f"--reward changed: it was {was}, and is {is_now} from here on")
    for note in restore_training(trainer, resume, key=key, other_rewards=other_rewards):
        sink.note(note)
    state = trainer.state
    sink.note(f"resumed at update {int(state.update):,}, {_reached(config, trainer)}")
    if config.then is None and not _is_left(config, trainer):
        asked = as_given(config.goal_by, config.goal - config.begun_at)
        sink.note(f"{asked} is reached: nothing is left to train; a larger one continues it")


def _is_left(config: RunConfig, trainer: Trainer[Any]) -> bool:
    """Whether the stage has updates left before its goal."""
    return updates_until(trainer.algorithm, trainer.state, config.goal) > 0


def _reached(config: RunConfig, trainer: Trainer[Any]) -> str:
    """The progress of the run: `12,800 steps`."""
    done = trainer.algorithm.progress(trainer.state)
    return Length(config.goal, config.counts).reached({config.counts: done})


@dataclass(eq=False)
class _RunLoop(Hook):
    """The last hook of a run: it saves, monitors, and ends the training if it must."""

    _goal: int
    _algorithm: str
    _folder: RunFolder
    _saving: CheckpointScheduler
    _watch: RunMonitor
    _sink: Sink
    _interrupts: system.Interrupts
    _clock: Callable[[], float]
    _times: WallTime
    _dispatched: float = 0.0
    _unhealthy: bool = False
    _removed: bool = False
    end: system.ExitCode = system.ExitCode.DONE

    def before_dispatch(self, trainer: Trainer[Any]) -> None:
        """Ends or saves if any process has a reason; compiles before the first dispatch.

        It also selects the training that plays, of several.
        """
        if system.is_single_process():  # of several, only the first has read what a run logged
            trainer.member = self._watch.plays
        self._agree(trainer)
        if not trainer.compiled and updates_until(trainer.algorithm, trainer.state, self._goal) > 0:
            what = f"the update of {self._algorithm}"
            tick = partial(self._sink.working, f"compiling {what}")
            with (
                system.compiling(self._sink.note, what=what, tick=tick, clock=self._clock),
                self._times.spending("compile"),
            ):
                trainer.compile()
            self._agree(trainer)  # a signal may have arrived during the compilation
            if unknown := trainer.utilization().unknown:
                self._sink.note(f"mfu is left out: {unknown}")
        self._dispatched = self._clock()

    def updates_until_due(self, trainer: Trainer[Any]) -> int | None:
        """The updates until the next save."""
        return self._saving.updates_until_due(int(trainer.state.update))

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        """Logs and checks the metrics of a dispatch."""
        share = self._times.train(trainer, metrics)
        # This hook is the last one.
        self._times.spend("evaluate", self._clock() - self._dispatched - metrics.seconds)
        self._removed = self._folder.removed() is not None
        if not self._removed:
            logged = replace(metrics, extra={**metrics.extra, **share})
            self._unhealthy = self._watch.look(logged)
            self._saving.watch(without_members(metrics, self._watch.left_out))

    def on_end(self, trainer: Trainer[Any]) -> None:
        """Saves the last state before other hooks, which may fail."""
        if self._watch.sound:
            with self._times.spending("save"):
                self._saving.finish(trainer)

    def _agree(self, trainer: Trainer[Any]) -> None:
        due = self._watch.sound and self._saving.due(int(trainer.state.update))
        asked = system.Requests(self._interrupts.received, due, self._unhealthy, self._removed)
        agreed = system.agree(asked)
        if agreed.removed:
            self.end = system.ExitCode.UNSAVED
        elif agreed.unhealthy:
            self.end = system.ExitCode.UNHEALTHY
        elif agreed.stop:
            self.end = system.ExitCode(128 + agreed.stop)
        if self.end is not system.ExitCode.DONE:
            raise StopTraining
        if agreed.save:
            with self._times.spending("save"):
                self._saving.save(trainer)
