"""`hackmatrix-rl analyze`."""

import json
from pathlib import Path
from typing import Any

import click
import jax

from hackmatrix_rl.cli import _options as shared
from hackmatrix_rl.cli._command import Command, NumberRange
from hackmatrix_rl.cli._failures import say, writing
from hackmatrix_rl.cli._games import chosen_player, named
from hackmatrix_rl.cli._working import Working
from hackmatrix_rl.evaluation import PolicyAgent, find, keep_journal
from hackmatrix_rl.runs import find_hackmatrix_player
from hackmatrix_rl.search import Searcher
from hackmatrix_rl.system import check_output_file, enable_compilation_cache, write_whole
from hackmatrix_rl.view import analysis_page


@click.command("analyze", cls=Command)
@click.argument("agent", metavar="AGENT")
@shared.whole_number("--episodes", 1, 100_000, "Games to play.", default=1000)
@shared.seed_option("Seed of the games and of the policy's draws, as for eval.", default=0)
@shared.greedy_option
@shared.num_envs_option(256)
@click.option(
    "--gamma",
    type=NumberRange(0, 1),
    metavar="NUMBER",
    help="Discount of the return that the value is compared with.  [default: the training's last]",
)
@shared.player_options
@shared.modules_option
@shared.file_option(
    "--output",
    metavar="FILE.html",
    dir_okay=False,
    default=Path("analysis.html"),
    show_default=True,
    help="The page.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; write no page.")
def analyze_command(
    agent: str,
    episodes: int,
    seed: int,
    greedy: bool,
    num_envs: int,
    gamma: float | None,
    output: Path,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Find out how an agent plays: where its games end, by what, and what its tools bring.

    AGENT is a run (its folder, or its name under runs/), a checkpoint, or a script (random,
    runner). The page shows the survival of each stage, its points and those left behind, causes
    of death, what siphons take, the use of programs and what followed, UNDO, and whether value and
    win probability come true.

    \b
    hackmatrix-rl analyze runs/...
    hackmatrix-rl analyze runner --episodes 200 --json
    """
    if not as_json:
        check_output_file(output, "--output")
    name = named(agent, chosen["search"], chosen["cycles"])
    with Working(f"loading {agent}") as work:
        player, environment = chosen_player(
            work, agent, greedy=greedy, find=find_hackmatrix_player, **chosen
        )
        enable_compilation_cache()
        work.doing(f"playing {episodes:,} games")
        journal = keep_journal(
            player,
            environment,
            games=episodes,
            key=jax.random.key(seed),
            num_envs=num_envs,
            on_progress=work.progress,
        )
        if gamma is None:
            trained = player.gamma if isinstance(player, PolicyAgent | Searcher) else None
            gamma = 1.0 if trained is None else trained
        findings = find(journal, gamma=gamma)
    if as_json:
        told = findings.as_dict() | {
            "league": environment.config.league,
            "seed": seed,
            "greedy": player.greedy if isinstance(player, PolicyAgent) else None,
        }
        click.echo(json.dumps(told, allow_nan=False))
        return
    play = "by its own rule"
    if isinstance(player, PolicyAgent):
        drawn = "drawn from its probabilities"
        play = "greedy: the likeliest actions" if player.greedy else drawn
    about = {
        "league": environment.config.league,
        "moves": f"{len(journal.game):,}",
        "play": play,
        "seed": str(seed),
    }
    with writing(f"--output {output}"):
        write_whole(output, analysis_page(findings, player=name, about=about))
    won = findings.won
    say(
        f"{episodes:,} games: return {findings.total_reward.mean:.1f}, score "
        f"{findings.score.mean:.1f}, {won.mean:.1%} won [{100 * won.low:.1f}, "
        f"{100 * won.high:.1f}]; {play}, seed {seed}. Open in a browser: {output}"
    )
