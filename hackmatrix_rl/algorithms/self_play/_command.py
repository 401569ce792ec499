"""`hackmatrix-rl selfplay`: a run with a league at its end, or one printed game."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import jax
import numpy as np
from jaxtyping import Array, Key
from rich.console import Console
from rich.table import Table

from hackmatrix_rl import cli, runs
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._config import SelfPlayConfig
from hackmatrix_rl.algorithms.self_play._counterexamples import Counterexamples, colourings_of
from hackmatrix_rl.algorithms.self_play._league import (
    JudgedMatch,
    LeagueFolder,
    Standings,
    judged_match,
    league,
)
from hackmatrix_rl.algorithms.self_play._load import load_self_play
from hackmatrix_rl.algorithms.self_play._match import (
    BoardPlayer,
    PerfectPlayer,
    RandomPlayer,
    Record,
    SearchPlayer,
    opening_of,
)
from hackmatrix_rl.algorithms.self_play._search import Search
from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.games.clique import edges, solve
from hackmatrix_rl.runs.config import code_of, config_class
from hackmatrix_rl.system import ExitCode, Target, describe_device, write_json
from hackmatrix_rl.system.errors import ConfigError, in_shell

RANDOM = "random"
MOST_SOLVED = 6
"""Vertices of the largest board that `solve` solves in seconds."""
_LEAGUE_KEY, _PERFECT_KEY = 1, 2
_SHOWN = 3
"""Number of moves of the search that `show_game` prints."""


def play_league(
    config: SelfPlayConfig,
    folder: runs.RunFolder,
    policy: ActorCritic,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_games: Callable[[Record], object] = lambda record: None,
) -> Standings:
    """Plays a league of the snapshots of a run, its last network and a random player.

    Each network uses the search of the training, without root noise. Games start with two random
    moves, to make them differ.
    """
    kept = LeagueFolder.from_run(folder.path, size=config.league_size, goal=config.num_games).read(
        policy
    )
    newest = f"{config.num_games:,} games"
    players: dict[str, BoardPlayer] = {
        name: SearchPlayer(each, config.search()) for name, each in {**kept, newest: policy}.items()
    }
    players[RANDOM] = RandomPlayer()
    game = CliqueGame(config.game())
    return league(
        players,
        game,
        games=config.league_games,
        key=_key(config, _LEAGUE_KEY),
        opening=opening_of(game),
        on_progress=on_progress,
        on_games=on_games,
    )


def play_perfect(config: SelfPlayConfig, policy: ActorCritic) -> JudgedMatch | None:
    """A match against the perfect player; `None` on a board that is too large to solve."""
    if config.vertices > MOST_SOLVED:
        return None
    solution, game = solve(config.game()), CliqueGame(config.game())
    return judged_match(
        SearchPlayer(policy, config.search()),
        PerfectPlayer(solution),
        solution,
        games=config.league_games,
        key=_key(config, _PERFECT_KEY),
        opening=opening_of(game),
    )


def standings_as_dict(standings: Standings, games: int) -> dict[str, Any]:
    """The ratings by player, in the format of a run's summary."""
    episodes = games * (len(standings.ratings) - 1)
    return {
        name: {"episodes": episodes, "elo": {"mean": found.mean, "ci95": [found.low, found.high]}}
        for name, found in standings.ratings.items()
    }


def _key(config: SelfPlayConfig, number: int) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.key(config.seed), 2**31 + number)


def chosen_settings(
    context: click.Context, file: Path | None, target: Target | None = None
) -> SelfPlayConfig:
    settings = cli.given_settings(context, file, SelfPlayConfig.command)
    config_class(
        settings.pop("algorithm", SelfPlayConfig.algorithm), command=SelfPlayConfig.command
    )
    config = SelfPlayConfig(**settings)
    if target is None:
        runs.use_devices(config)
    return config


def play_shown_game(
    context: click.Context,
    *,
    config: Path | None,
    resume_run: str | None,
    trust_code: bool,
    dry_run: bool,
    **_: Any,
) -> None:
    if dry_run:
        raise ConfigError("--show-game: does not train. Leave --dry-run out.")
    if resume_run is None:
        chosen = chosen_settings(context, config)
        policy = runs.compose(chosen).policy
    else:
        loaded = load_self_play(resume_run, trust_code=trust_code)
        changes = cli.given_settings(context, config, SelfPlayConfig.command)
        kept = {name: value for name, value in changes.items() if name != "vertices"}
        runs.check_unchanged(resume_run, loaded.config, kept)
        chosen = replace(loaded.config, **changes)
        policy = loaded.on(chosen.game()).policy
    plan = chosen.words().plan
    click.echo(f"{plan['board']}; {plan['search']}")
    game = CliqueGame(chosen.game())
    show_game(chosen.search(), game, policy, key=jax.random.key(chosen.seed), show=click.echo)


def show_game(
    search: Search,
    game: CliqueGame,
    policy: ActorCritic,
    *,
    key: Key[Array, ""],
    show: Callable[[str], object] = print,
) -> float:
    """Plays a clique game of a network against itself, and shows each move.

    Nothing is compiled, so breakpoints and `print` work in game, network and search. Returns the
    result for the player who began: 1 for a win, 0 for a draw, -1 for a loss.
    """
    names = [f"{a}-{b}" for a, b in edges(game.config.vertices)]
    board = [["." for _ in range(game.config.vertices)] for _ in range(game.config.vertices)]
    with jax.disable_jit():
        state = game.start(key=key)
        for number in range(game.num_actions):
            begins = number % 2 == 0
            # mctx takes a batch.
            batch = jax.tree.map(lambda leaf: leaf[None], state)
            seat = search if begins else search.for_second
            found = seat(game, policy, batch, jax.random.fold_in(key, number)[None])
            action = int(found.action[0])
            a, b = (int(each) for each in edges(game.config.vertices)[action])
            board[a][b] = board[b][a] = "1" if begins else "2"
            show(
                f"\nmove {number + 1}: player {'1' if begins else '2'} colours {names[action]}; "
                f"value {float(found.value[0]):+.2f}; the search: {_best(found.weights[0], names)}"
            )
            show(_drawn(board))
            played = game.play(state, found.action[0], key=key)
            state = played.state
            if bool(played.terminated):
                result = float(played.reward) * (1 if begins else -1)
                winner = f"Player {'1' if result > 0 else '2'} wins" if result else "A draw"
                show(f"\n{winner} after {number + 1} moves.")
                return result
    raise AssertionError("a game ends when the board is full")


def _best(weights: Any, names: list[str]) -> str:
    """The moves with the largest weights: `0-1 62%, 2-3 20%`."""
    order = np.argsort(-np.asarray(weights), kind="stable")[:_SHOWN]
    return ", ".join(f"{names[each]} {float(weights[each]):.0%}" for each in order)


def _drawn(board: list[list[str]]) -> str:
    """The adjacency matrix of the vertices, with the colours of the edges."""
    head = "    " + " ".join(f"{vertex:>2}" for vertex in range(len(board)))
    rows = [
        f"{vertex:>3} " + " ".join(f"{cell:>2}" for cell in row) for vertex, row in enumerate(board)
    ]
    return "\n".join([head, *rows])


def describe(config: SelfPlayConfig, folder: runs.RunFolder) -> list[str]:
    """The plan of a run, in lines."""
    plan = config.words().plan
    return [
        *cli.machine(config),
        f"Self-play on {describe_device()}: {plan['board']}; {config.num_games:,} games, "
        f"{config.game_batch_size:,} at once, {plan['search']}",
        runs.update_in_words(config),
        f"Run folder: {folder.path}    Ctrl-C saves and ends.",
    ]


def advice(config: SelfPlayConfig, folder: runs.RunFolder, result: runs.RunResult) -> list[str]:
    """Next steps after a run, in lines."""
    code = [each for each in code_of(config).values() if each.look() != "known"]
    own = [word for each in code for word in (f"--{each.setting}", each.text)]
    again = in_shell("hackmatrix-rl", "selfplay", "--resume-run", folder.path, *own)
    if result.exit_code is not ExitCode.DONE:
        return [f"Resume:  {again}"]
    trusted = ["--trust-code"] if own else []
    return [
        f"Play against it:  {in_shell('hackmatrix-rl', 'ui', folder.path, *trusted)}",
        f"See a game:  {again} --show-game",
        f"Resume:  {again} --num-games {2 * config.num_games}",
    ]


def summarize(
    config: SelfPlayConfig, folder: runs.RunFolder, result: runs.RunResult, console: Console
) -> ExitCode:
    """Plays the league of the run, prints and writes it, and prints the colourings found."""

    def show(text: str) -> None:
        console.print(text, soft_wrap=True)

    board = config.game()
    found = Counterexamples(folder.path, board, note=show)
    code = result.exit_code
    if config.league_games:
        code = _summarize_league(
            config, folder, result, console, lambda record: found.add(colourings_of(board, record))
        )
    line = found.line()
    if line is not None:
        show(line)
    return code


def _summarize_league(
    config: SelfPlayConfig,
    folder: runs.RunFolder,
    result: runs.RunResult,
    console: Console,
    on_games: Callable[[Record], object],
) -> ExitCode:
    """Plays the league of the run, prints and writes it; `UNSAVED` if writing fails."""
    with cli.Working("playing the league") as work:
        standings = play_league(
            config,
            folder,
            result.policy,
            on_progress=lambda done, total: work.doing(
                f"playing the league: match {done + 1} of {total}"
            ),
            on_games=on_games,
        )
        work.doing("playing against the perfect player")
        perfect = play_perfect(config, result.policy)
    console.print(league_table(config, standings))
    if perfect is not None:
        console.print(
            f"Against the perfect player: {perfect.result}; {perfect.judged.won:,} moves in won "
            f"positions, {perfect.judged.thrown_away:,} of them gave the win away.",
            soft_wrap=True,
        )
    try:
        write_json(folder.summary, standings_as_dict(standings, config.league_games))
        runs.draw_curve_of(folder, config)
    except OSError as error:
        console.print(f"COULD NOT WRITE {folder.summary}: {error}", soft_wrap=True)
        return ExitCode.UNSAVED
    return result.exit_code


def league_table(config: SelfPlayConfig, standings: Standings) -> Table:
    """The players of a league with their Elo ratings, best first."""
    table = Table(title=f"League, {config.league_games} games a match", title_justify="left")
    table.add_column("network after")
    table.add_column("Elo", justify="right")
    table.add_column("95% interval", justify="right")
    for name, rating in standings.ratings.items():
        table.add_row(name, f"{rating.mean:+.0f}", f"{rating.low:+.0f} to {rating.high:+.0f}")
    return table
