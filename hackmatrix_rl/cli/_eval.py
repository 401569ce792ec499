"""`hackmatrix-rl eval`."""

import json
from pathlib import Path
from typing import Any

import click
import jax
from rich.console import Console

from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import tell
from hackmatrix_rl.cli._player import chosen_player, named, player_options
from hackmatrix_rl.cli._settings import AGENT
from hackmatrix_rl.cli._summary import summary_table
from hackmatrix_rl.cli._working import Working, evaluating
from hackmatrix_rl.config import COUNTED, MOST_EPISODES
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.evaluation import Evaluation, evaluate
from hackmatrix_rl.game import FIRST_PROGRAM, Program
from hackmatrix_rl.runs import check_played, find_player
from hackmatrix_rl.system import enable_compilation_cache
from hackmatrix_rl.view.replays import choose_games, parse_choice, replays_of

UNDO = int(FIRST_PROGRAM + Program.UNDO)

REPLAYS = Path("replays")


@click.command("eval", cls=Command)
@click.argument("target", metavar=AGENT)
@click.option(
    "--episodes",
    type=click.IntRange(1, MOST_EPISODES),
    metavar="NUMBER",
    default=1000,
    show_default=True,
    help="Games to play.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    metavar="NUMBER",
    default=0,
    show_default=True,
    help="Seed of the games and of the policy's draws.",
)
@click.option("--greedy", is_flag=True, help="Take the most likely action instead of drawing one.")
@click.option(
    "--without-undo",
    is_flag=True,
    help="Play UNDO only where nothing else is legal: how much of the skill is without it.",
)
@click.option(
    "--num-envs",
    type=click.IntRange(1, COUNTED),
    metavar="NUMBER",
    default=1024,
    show_default=True,
    help="Games played in parallel; fewer need less memory. The result does not depend on it.",
)
@player_options
@click.option(
    "--save-replays",
    metavar="KIND:N,...",
    help="Write replays of some games: best, worst, median, random, won or lost, and how many: "
    "best:5,worst:5.",
)
@click.option(
    "--replay-dir",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help=f"Folder for them.  [default: {REPLAYS}]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
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
    """Measure how well a policy plays: return, stage reached, win rate, score, length.

    The policy is a run (its folder, or its name under runs/; its newest checkpoint plays), one
    checkpoint, pretrained (the package's agent), or a script: random draws among the legal
    actions, runner fights what stands next to it and walks to the exit, expert tries each move
    out and takes the best by a table of weights. Two searches: with --search 32, a network tries
    32 actions out before each move, in trees; "search(pretrained, 30)" instead plays 30 games on
    in its head, each to the end of the stage.

    Each environment plays one game to its end, so that short games do not count more.
    Intervals are 95%: normal approximation for means, Wilson's for the win rate.

    \b
    hackmatrix-rl eval runs/... --save-replays best:5,worst:5    and hackmatrix-rl replay FILE
    """
    folder = replay_folder(save_replays, replay_dir)
    with Working(f"loading {target}", lines=False) as work:
        player, environment = chosen_player(work, target, find=find_player, **chosen)
        check_played(environment, min(num_envs, episodes))
        game = environment if isinstance(environment, HackMatrix) else None
        if game is None and (without_undo or save_replays is not None):
            given = "--without-undo" if without_undo else f"--save-replays {save_replays}"
            raise ConfigError(
                f"{given}: of HackMatrix, and {target} plays another game. Leave it out."
            )
    name = named(target, chosen["search"])
    enable_compilation_cache()
    record = save_replays is not None
    with evaluating() as on_progress:
        found = evaluate(
            player,
            environment,
            episodes=episodes,
            key=jax.random.key(seed),
            num_envs=num_envs,
            greedy=greedy,
            record=record,
            avoid=(UNDO,) if without_undo else (),
            on_progress=on_progress,
        )
    if found.unfinished:
        click.echo(f"{found.unfinished} games were cut off unfinished.", err=True)
    if as_json:
        told = found.as_dict() | ({} if game is None else {"league": game.config.league})
        click.echo(json.dumps(told, allow_nan=False))
    else:
        league = "" if game is None else f"league {game.config.league}, "
        title = f"{episodes:,} games, {league}95% intervals"
        table = summary_table({name: found}, title=title)
        Console().print(table)
    if save_replays is not None and game is not None:
        write_replays(found, game, folder, save_replays, seed=seed, player=name)


def replay_folder(choice: str | None, folder: Path | None) -> Path:
    """The folder for replays, made if it is missing.

    Args:
        choice: `--save-replays`.
        folder: `--replay-dir`.

    Raises:
        ConfigError: a flag cannot work.
    """
    if choice is None:
        if folder is not None:
            raise ConfigError(
                f"--replay-dir {folder} needs --save-replays, such as --save-replays best:5"
            )
        return REPLAYS
    try:
        parse_choice(choice)
    except ConfigError as error:
        raise ConfigError(f"--save-replays {choice}: {error}.") from error
    place = REPLAYS if folder is None else folder
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--replay-dir {place}: cannot be made: {error.strerror or error}. Name another folder."
        ) from error
    return place


def write_replays(
    found: Evaluation, environment: HackMatrix, folder: Path, choice: str, *, seed: int, player: str
) -> None:
    """Plays the chosen games again, and writes them down.

    Args:
        found: the evaluation, with its actions.
        environment: of the evaluation.
        folder: for the files.
        choice: `--save-replays`.
        seed: of the evaluation.
        player: its name.

    Raises:
        ConfigError: a game ends otherwise than in the evaluation, or a file cannot be written.
    """
    total = len(choose_games(found, choice))
    with Working("playing the chosen games again") as work:
        replays = replays_of(
            found, environment, key=jax.random.key(seed), choice=choice, player=player
        )
        for number, (name, _, replay) in enumerate(replays):
            try:
                replay.save(folder / f"{name}.json")
            except OSError as error:
                raise ConfigError(
                    f"--replay-dir {folder}: cannot be written: {error.strerror or error}."
                ) from error
            work.progress(number + 1, total)
    tell(f"{total} replays in {folder}")
