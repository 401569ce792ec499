"""`hackmatrix-rl analyze`."""

import json
from pathlib import Path
from typing import Any

import click

from hackmatrix_rl import evaluation, runs, system
from hackmatrix_rl import search as searches
from hackmatrix_rl import view as views
from hackmatrix_rl.cli import _options as shared
from hackmatrix_rl.cli._command import Command, NumberRange
from hackmatrix_rl.cli._failures import say, writing
from hackmatrix_rl.cli._games import chosen_player, named
from hackmatrix_rl.cli._working import Working


@click.command("analyze", cls=Command)
@click.argument("agent", metavar="AGENT")
@shared.whole_number("--episodes", 1, 100_000, "Games to play.", default=1000)
@shared.seed_option("Seed of the games and of the policy's samples, as for eval.", default=0)
@shared.greedy_option
@shared.num_envs_option(256)
@click.option(
    "--gamma",
    type=NumberRange(0, 1),
    metavar="NUMBER",
    help="Discount of the return that the value predicts.  [default: the training's last]",
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
    """Analyse how an agent plays: where and why its games end, and how it uses its tools.

    AGENT is a run (its folder, or its name under runs/), a checkpoint, or a script (random,
    runner). The page shows the survival of each stage, points gained and left behind, causes of
    death, the yield of siphons, the use of programs and what followed it, UNDO, and the calibration
    of value and win probability.

    \b
    hackmatrix-rl analyze runs/...
    hackmatrix-rl analyze runner --episodes 200 --json
    """
    import jax  # slow to import; `--help` does not need it

    if not as_json:
        system.check_output_file(output, "--output")
    name = named(agent, chosen["search"], chosen["cycles"])
    with Working(f"loading {agent}") as work:
        player, environment = chosen_player(
            work, agent, greedy=greedy, find=runs.find_hackmatrix_player, **chosen
        )
        system.enable_compilation_cache()
        work.doing(f"playing {episodes:,} games")
        journal = evaluation.keep_journal(
            player,
            environment,
            games=episodes,
            key=jax.random.key(seed),
            num_envs=num_envs,
            on_progress=work.progress,
        )
        if gamma is None:
            trained = (
                player.gamma
                if isinstance(player, evaluation.PolicyAgent | searches.Searcher)
                else None
            )
            gamma = 1.0 if trained is None else trained
        findings = evaluation.find(journal, gamma=gamma)
    if as_json:
        answer = findings.as_dict() | {
            "league": environment.config.league,
            "seed": seed,
            "greedy": player.greedy if isinstance(player, evaluation.PolicyAgent) else None,
        }
        click.echo(json.dumps(answer, allow_nan=False))
        return
    play = "by its own rule"
    if isinstance(player, evaluation.PolicyAgent):
        drawn = "drawn from its probabilities"
        play = "greedy: the likeliest actions" if player.greedy else drawn
    about = {
        "league": environment.config.league,
        "moves": f"{len(journal.game):,}",
        "play": play,
        "seed": str(seed),
    }
    with writing(f"--output {output}"):
        system.write_whole(output, views.analysis_page(findings, player=name, about=about))
    won = findings.won
    say(
        f"{episodes:,} games: return {findings.total_reward.mean:.1f}, score "
        f"{findings.score.mean:.1f}, {won.mean:.1%} won [{100 * won.low:.1f}, "
        f"{100 * won.high:.1f}]; {play}, seed {seed}. Open in a browser: {output}"
    )
