"""`hackmatrix-rl train`."""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hackmatrix_rl import env as envs
from hackmatrix_rl import evaluation, runs, system, training
from hackmatrix_rl import view as views
from hackmatrix_rl.agent import networks
from hackmatrix_rl.cli._eval import summary_table
from hackmatrix_rl.cli._grouped import TrainOptions
from hackmatrix_rl.cli._options import modules_option, run_options
from hackmatrix_rl.cli._settings import chosen_config, config_options, recipe_option, typed_settings
from hackmatrix_rl.cli._task import Task, machine, run_task
from hackmatrix_rl.cli._working import Working, evaluating
from hackmatrix_rl.runs import checkpoints, sinks
from hackmatrix_rl.runs import config as configs
from hackmatrix_rl.runs.config import algorithms_of, baseline_algorithm
from hackmatrix_rl.system.errors import ConfigError, in_shell

_BY = baseline_algorithm()
EXAMPLES = f"""\b
Examples:
  hackmatrix-rl train --total-timesteps 200_000            a first try, in a minute or two
  hackmatrix-rl train --algorithm {_BY} --init runs/MINE     start from the weights of a run
  hackmatrix-rl train --resume-run runs/MINE --num-envs 64 resume a run, on a small machine
"""


@click.command(cls=TrainOptions, epilog=EXAMPLES)
@config_options(algorithms_of("train"))
@recipe_option
@run_options
@modules_option
@click.pass_context
def train(context: click.Context, /, **given: Any) -> int:
    """Train an agent with one of several algorithms.

    Without options, the preset for this machine's device sets everything; on two CPU cores, a
    training takes some minutes. --algorithm NAME --help lists the flags that only this algorithm
    has. Ctrl-C (or SIGTERM) saves the run and ends it; a second one ends it immediately.

    Exit status: 0 trained to the end; 2 a setting that cannot work; 3 stopped because training
    became unhealthy; 4 the end of the run could not be saved; 5 (or 134) another process of the run
    was lost; 130 or 143 saved and ended by Ctrl-C or SIGTERM.
    """
    modules, resumed = given.pop("modules"), given["resume_run"]
    if resumed is not None and (saved := checkpoints.saved_run(resumed)) is not None:
        return _resume_saved(context, saved, modules, given)
    if modules is not None:
        raise ConfigError(f"--agent {modules}: goes with --resume-run of a run of hm.SaveRun.")
    return train_a_run(context, **given)


def _resume_saved(
    context: click.Context, folder: Path, modules: str | None, given: Mapping[str, Any]
) -> int:
    """Resumes a run of `hm.SaveRun` with the function that makes its trainer."""
    import jax  # slow to import; `--help` does not need it

    said, goal = f"--resume-run {folder}", given["total_timesteps"]
    own = typed_settings(context).keys() - {"total_timesteps"}
    if own or given["config"] is not None or given["dry_run"]:
        raise ConfigError(
            f"{said}: was trained in Python, so its settings are in the function that makes its "
            "trainer. Leave all but --total-timesteps and --agent out."
        )
    agent = checkpoints.saved_agent(folder, modules, trust_code=given["trust_code"])
    made = None if agent is None else checkpoints.made_by(agent)
    algorithm = made.algorithm if isinstance(made, training.Trainer) else None
    if agent is not None and algorithm is None:
        algorithm = checkpoints.modules_of(agent)[2]
    if algorithm is None or goal is None:
        words = ("hackmatrix-rl", "train", "--resume-run", folder)
        more = ("--agent", modules or "my_module:make", "--total-timesteps", goal or 1_000_000)
        raise ConfigError(
            f"{said}: was trained in Python. Name the function that makes its trainer, and how far "
            f"to train: {in_shell(*words, *more)}"
        )
    trainer = made if isinstance(made, training.Trainer) else training.Trainer(algorithm)
    trainer.hooks = tuple(each for each in trainer.hooks if not isinstance(each, runs.SaveRun))
    console = views.plain_console(quiet=not system.is_process_zero())
    display = sinks.terminal(console, length=sinks.Length(goal))

    def show(trainer: "training.Trainer[Any]", metrics: "training.Metrics") -> None:
        if trainer.algorithm.progress(trainer.state) == metrics.env_steps:  # the goal counts steps
            display.write(metrics.as_dict())
        if interrupts.received:
            raise training.StopTraining

    with system.Interrupts() as interrupts, closing(display):
        named = agent if isinstance(agent, str) else None
        save = runs.SaveRun(folder, note=display.note, agent=named)
        trainer.fit(goal, key=jax.random.key(0), hooks=[save, show])
    return 128 + interrupts.received if interrupts.received else int(system.ExitCode.DONE)


def train_a_run(
    context: click.Context,
    /,
    *,
    preset: str | None,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    check: "Callable[[configs.RunConfig], None]" = lambda _: None,
    **options: Any,
) -> int:
    """Trains a single player with the options of `config_options` and `run_options`.

    `defaults` are the command's settings of a new run; `check` raises a ConfigError if the command
    does not support the settings. Returns the exit status.
    """
    resumes = options["resume_run"] is not None
    if preset is not None and resumes:
        raise ConfigError(
            "--preset cannot be given with --resume-run: the run keeps its settings. Give the "
            "options to change instead."
        )
    reasons = ["as the run began" if resumes else "as asked for"]
    task = Task(
        command="train",
        choose=lambda file, target: chosen_config(
            context, preset, file, defaults, note=reasons.append, target=target
        ),
        check=check,
        explain=lambda config: [f"Algorithm: {config.algorithm}, {reasons[-1]}"],
        describe=describe,
        summarize=summarize,
        advice=advice,
    )
    return run_task(context, task, **options)


def advice(
    config: "configs.RunConfig", folder: "runs.RunFolder", result: "runs.RunResult"
) -> list[str]:
    return next_steps(config, folder.path, done=result.exit_code is system.ExitCode.DONE)


def next_steps(config: "configs.RunConfig", run: Path, *, done: bool) -> list[str]:
    """Commands for a run, in lines; they name the code that is not trusted yet."""
    code = {name: each for name, each in configs.code_of(config).items() if each.look() != "known"}
    named = {name: [f"--{name}", each.text] for name, each in code.items()}
    resume = in_shell("hackmatrix-rl", "train", "--resume-run", run, *chain(*named.values()))
    again = f"Resume:  {resume}"
    if not isinstance(config, configs.TrainConfig):
        return [again]
    # `watch` plays in the environment of the run, and needs no teacher.
    plays = ["--trust-code"] if "env" in code else named.get("network", [])
    see = f"See it play:  {in_shell('hackmatrix-rl', 'watch', run, *plays)}"
    if not done:
        return [again, see]
    trains = [in_shell(word) for name in named if name != "teacher" for word in named[name]]
    return [see, *(" ".join([line, in_shell(run), *trains]) for line in config.words().advice)]


def describe(config: "configs.RunConfig", folder: "runs.RunFolder") -> list[str]:
    """The plan of a run, in lines."""
    later = [
        f"{each.algorithm} for {each.total_timesteps:,} steps"
        for each in config.stages[1:]
        if isinstance(each, configs.TrainConfig)
    ]
    return [
        *machine(config),
        f"Training on {system.describe_device()}: {runs.length_in_words(config)}",
        runs.update_in_words(config, "the training"),
        *runs.details(config),
        *([f"Then, from these weights: {', then '.join(later)}"] if later else []),
        f"Run folder: {folder.path}    Ctrl-C saves and ends.",
    ]


def summarize(
    config: "configs.RunConfig",
    folder: "runs.RunFolder",
    result: "runs.RunResult",
    console: Console,
) -> "system.ExitCode":
    """Evaluates the policy, random and, on HackMatrix, runner; prints and stores the results.

    For several trainings in one program, it first prints the result of each setting; the policy is
    from the best training. Returns `UNSAVED` if the results could not be written.
    """
    import jax  # slow to import; `--help` does not need it

    if result.member is not None:
        show_trainings(config, folder, result.member, console)
    if not isinstance(config, configs.TrainConfig):
        with Working("evaluating"):
            judged = config.judge(result.policy)
        if judged is None:
            return result.exit_code
        line, numbers = judged
        console.print(f"The trained network: {line}", soft_wrap=True)
        return _stored(folder, {"trained": dict(numbers)}, result, console)
    if not config.eval_episodes:
        return result.exit_code
    console.print(f"Playing {config.eval_episodes:,} games with each policy ...")
    players: dict[str, networks.ActorCritic | evaluation.Agent] = {
        "trained": result.agent,
        "random": evaluation.RandomAgent(result.environment.spec.actions),
    }
    if isinstance(result.environment, envs.HackMatrix):
        players["runner"] = evaluation.Runner()
    key = jax.random.key(config.seed)
    note = partial(console.print, soft_wrap=True)
    replays = runs.ReplayWriter.of(folder, result.environment, most=config.replays, note=note)
    with evaluating() as on_progress:
        evaluations = evaluation.evaluate_all(
            players,
            result.environment,
            episodes=config.eval_episodes,
            key=key,
            record=replays is not None and isinstance(result.environment, envs.HackMatrix),
            on_progress=on_progress,
        )
    if replays is not None:
        with Working("playing a game for the run's folder"):
            replays.keep(evaluations["trained"], key, update=result.update, agent=result.agent)
    title = f"{runs.environment_in_words(config)}, means with 95% intervals"
    console.print(summary_table(evaluations, title=title))
    found = {name: each.as_dict() for name, each in evaluations.items()}
    if _stored(folder, found, result, console) is system.ExitCode.UNSAVED:
        return system.ExitCode.UNSAVED
    if config.trackers:
        with Working("sending the evaluation to the trackers"):
            runs.send_summary(config, folder, evaluations, note=note)
    return result.exit_code


def show_trainings(
    config: "configs.RunConfig", folder: "runs.RunFolder", member: int, console: Console
) -> None:
    """Prints the results of each setting, and which training is evaluated."""
    found = runs.Trainings.from_rows(config.as_dict(), sinks.read_json_lines(folder.metrics))
    if found is not None:
        console.print(found.caption, soft_wrap=True)
        table = Table()
        for place, head in enumerate(found.heads):
            table.add_column(head, justify="right" if place else "left", overflow="fold")
        for row in found.rows():
            table.add_row(*map(escape, row))
        console.print(table)
    said = f"The trained player: {config.member_names[member]}"
    if config.best_by is not None:
        said += f", which has the highest {config.best_by}"
    if isinstance(config, configs.TrainConfig) and config.eval_episodes:
        said += "; the choice did not use the games of its evaluation"
    console.print(f"{said}.", soft_wrap=True)


def _stored(
    folder: "runs.RunFolder",
    found: dict[str, dict[str, Any]],
    result: "runs.RunResult",
    console: Console,
) -> "system.ExitCode":
    """Writes results by player to the run's folder; returns `UNSAVED` if that fails."""
    found["trained"] |= {"env_steps": result.env_steps, **result.times}
    if result.member is not None:
        found["trained"]["member"] = result.member
    try:
        system.write_json(folder.summary, found)
        runs.draw_curve_of(folder, result.config)  # again, with the results
    except OSError as error:
        console.print(f"COULD NOT WRITE {folder.summary}: {error}", soft_wrap=True)
        return system.ExitCode.UNSAVED
    return result.exit_code
