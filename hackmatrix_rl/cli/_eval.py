"""`hackmatrix-rl eval`."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from hackmatrix_rl import env as envs
from hackmatrix_rl import evaluation as evaluations
from hackmatrix_rl import runs, system
from hackmatrix_rl import view as views
from hackmatrix_rl.cli import _options as shared
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify, writing
from hackmatrix_rl.cli._games import chosen_player, named
from hackmatrix_rl.cli._settings import AGENT
from hackmatrix_rl.cli._working import Working, evaluating
from hackmatrix_rl.runs.config import MOST_EPISODES
from hackmatrix_rl.system.errors import ConfigError, refusing
from hackmatrix_rl.view import replays as recorded

REPLAYS = Path("replays")


@click.command("eval", cls=Command)
@click.argument("target", metavar=AGENT)
@shared.whole_number("--episodes", 1, MOST_EPISODES, "Games to play.", default=1000)
@shared.seed_option("Seed of the games and of the policy's samples.", default=0)
@shared.greedy_option
@click.option(
    "--without-undo",
    is_flag=True,
    help="Play games in which UNDO is never legal, to measure the skill without it.",
)
@shared.num_envs_option(1024)
@shared.player_options
@shared.modules_option
@click.option(
    "--save-replays",
    metavar="KIND:N,...",
    help="Write replays of some games, as best:5,worst:5; kinds are best, worst, median, random, "
    "won and lost.",
)
@shared.file_option(
    "--replay-dir", metavar="FOLDER", help=f"Folder of the replays.  [default: {REPLAYS}]"
)
@shared.json_option
def evaluate_command(
    target: str,
    episodes: int,
    seed: int,
    greedy: bool,
    without_undo: bool,
    num_envs: int,
    save_replays: str | None,
    replay_dir: Path | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Measure how well a policy plays: return, score, win rate, stage reached, length.

    The policy is a run (its folder, or its name under runs/; its latest checkpoint plays), a
    checkpoint, pretrained (the package's agent), or a script: random samples legal actions,
    runner fights adjacent enemies and walks to the exit, expert tries each move and takes the best
    by a table of weights. Two searches: --search 32 runs 32 simulations of a tree search before
    each move of a network; "search(pretrained, 30)" instead plays 30 rollouts, each to the end of
    the stage.

    Each environment plays one game to its end, so short games do not count more.
    Intervals are 95%: normal approximation for means, Wilson's for the win rate.

    \b
    hackmatrix-rl eval runs/... --save-replays best:5,worst:5    and hackmatrix-rl replay FILE
    """
    import jax  # slow to import; `--help` does not need it

    folder = replay_folder(save_replays, replay_dir)
    with Working(f"loading {target}", lines=False) as work:
        player, environment = chosen_player(work, target, find=runs.find_player, **chosen)
        runs.check_played(environment, min(num_envs, episodes))
        game = environment if isinstance(environment, envs.HackMatrix) else None
        if game is None and (without_undo or save_replays is not None):
            given = "--without-undo" if without_undo else f"--save-replays {save_replays}"
            raise ConfigError(
                f"{given}: only for HackMatrix, and {target} plays another game. Leave it out."
            )
    if game is not None and without_undo:
        environment = replace(game, without_undo_share=1.0)
    name = named(target, chosen["search"], chosen["cycles"])
    system.enable_compilation_cache()
    with evaluating() as on_progress:
        found = evaluations.evaluate(
            player,
            environment,
            episodes=episodes,
            key=jax.random.key(seed),
            num_envs=num_envs,
            greedy=greedy,
            record=save_replays is not None,
            on_progress=on_progress,
        )
    if found.unfinished:
        cut = f"{found.unfinished:,} of {episodes:,} games reached the step limit"
        click.echo(f"{cut}; their values are those at the limit.", err=True)
    if as_json:
        answer = found.as_dict() | ({} if game is None else {"league": game.config.league})
        click.echo(json.dumps(answer, allow_nan=False))
    else:
        league = "" if game is None else f"league {game.config.league}, "
        title = f"{episodes:,} games, {league}95% intervals"
        views.plain_console().print(summary_table({name: found}, title=title))
    if save_replays is not None and game is not None:
        write_replays(found, game, folder, save_replays, seed=seed, player=name)


def replay_folder(choice: str | None, folder: Path | None) -> Path:
    """The folder for replays, which is created if `choice` is given."""
    place = folder or REPLAYS
    if choice is None:
        if folder is not None:
            raise ConfigError(
                f"--replay-dir {folder} needs --save-replays, such as --save-replays best:5"
            )
        return place
    with refusing(f"--save-replays {choice}: ", of=ConfigError):
        recorded.parse_choice(choice)
    unmade = f"--replay-dir {place}: cannot be made: "
    with refusing(unmade, ". Name another folder.", of=OSError):
        place.mkdir(parents=True, exist_ok=True)
    return place


def write_replays(
    found: "evaluations.Evaluation",
    environment: "envs.HackMatrix",
    folder: Path,
    choice: str,
    *,
    seed: int,
    player: str,
) -> None:
    """Replays the chosen games of an evaluation, and writes the replays."""
    import jax  # slow to import; `--help` does not need it

    total = len(recorded.choose_games(found, choice))
    with Working("playing the chosen games again") as work:
        replays = recorded.replays_of(
            found, environment, key=jax.random.key(seed), choice=choice, player=player
        )
        for number, (name, _, replay) in enumerate(replays):
            with writing(f"--replay-dir {folder}"):
                replay.save(folder / f"{name}.json")
            work.progress(number + 1, total)
    notify(f"{total} replays in {folder}")


# Names in the evaluation and in the table.
ROWS = (
    ("return", "return"),
    ("score", "score"),
    ("won", "win rate"),
    ("stage", "stage reached"),
    ("learned_return", "learned return"),
    ("length", "length"),
    ("siphons", "siphons"),
    ("programs", "programs used"),
    ("undos", "of them UNDO"),
    ("owns_undo", "own UNDO at the end"),
)


def summary_table(evaluations: "Mapping[str, evaluations.Evaluation]", *, title: str) -> Table:
    """Means with 95% intervals, one column per policy."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in evaluations:
        table.add_column(name, justify="right")
    for key, label in ROWS:
        if all(key in evaluation.values for evaluation in evaluations.values()):
            write = _rate if key in ("won", "owns_undo") else _mean
            texts = [write(evaluation.estimate(key)) for evaluation in evaluations.values()]
            table.add_row(label, *texts)
    staged = [each for each in evaluations.values() if "stage" in each.values]
    for stage in sorted({stage for each in staged for stage in each.histogram("stage")}):
        counts = [evaluation.histogram("stage") for evaluation in evaluations.values()]
        table.add_row(f"ended in stage {stage}", *(f"{count.get(stage, 0):,}" for count in counts))
    return table


def _mean(estimate: "evaluations.Estimate") -> str:
    return f"{estimate.mean:.3f} ± {estimate.high - estimate.mean:.3f}"


def _rate(estimate: "evaluations.Estimate") -> str:
    return f"{estimate.mean:.1%} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
