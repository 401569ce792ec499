"""`hackmatrix-rl push`."""

import io
from typing import Any

import click

from hackmatrix_rl import evaluation, runs, system
from hackmatrix_rl import view as views
from hackmatrix_rl.cli import _options as shared
from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.cli._failures import notify, say
from hackmatrix_rl.cli._working import Working, evaluating
from hackmatrix_rl.runs.config import MOST_EPISODES
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import replays


@click.command("push", cls=Command)
@click.argument("agent", metavar="AGENT")
@click.argument("name", metavar="hf://USER/NAME")
@shared.whole_number(
    "--episodes", 0, MOST_EPISODES, "Games that the card reports; 0: none.", default=100
)
@shared.seed_option("Seed of these games.", default=0)
@shared.num_envs_option(1024)
@click.option(
    "--license",
    "licence",
    metavar="NAME",
    default="apache-2.0",
    show_default=True,
    help="License on the card, by its name on the hub.",
)
@click.option("--private", is_flag=True, help="Make a new repository private.")
@shared.best_option
@shared.trust_option
def push_command(
    agent: str,
    name: str,
    episodes: int,
    seed: int,
    num_envs: int,
    licence: str,
    private: bool,
    best: bool,
    trust_code: bool,
) -> None:
    """Publish an agent on the Hugging Face Hub, with a card.

    AGENT is a run (its folder, or its name under runs/), a checkpoint or pretrained, of any
    environment. The repository gets the weights as safetensors, their description, the contract of
    `export`, and a card with the environment, returns with intervals, the settings of the training
    and a picture. Every command takes its name as an agent. It needs pip install '.[hub]' and a
    token: hf auth login.

    \b
    hackmatrix-rl push runs/... hf://USER/NAME
    hackmatrix-rl watch hf://USER/NAME
    """
    import jax  # slow to import; `--help` does not need it

    with Working(f"loading {agent}") as work:

        def report(message: str) -> None:
            work.say(message, notify)

        player, environment = runs.find_player(
            agent, best=best, trust_code=trust_code, report=report
        )
        if not isinstance(player, evaluation.PolicyAgent):
            raise ConfigError(f"{agent} is no network. Use a run, a checkpoint or pretrained.")
        # What cannot be pushed is refused before games are played.
        work.doing(f"asking the hub about {name}")
        repository = runs.HubRepository(name, private=private)
        how: dict[str, Any] = {"licence": licence, "best": best, "report": report}
        files = runs.files_to_push(agent, name, player, environment, None, **how)
    if episodes:
        system.enable_compilation_cache()
        runs.check_played(environment, min(num_envs, episodes))
        with evaluating() as on_progress:
            found = evaluation.evaluate(
                player,
                environment,
                episodes=episodes,
                key=jax.random.key(seed),
                num_envs=num_envs,
                on_progress=on_progress,
            )
        with Working("drawing a game") as work:
            game = replays.watch(player, seed=seed, environment=environment, max_moves=100)
            picture = io.BytesIO()
            last = replays.drawings_of(game.match)[-1]
            views.image_of(last).save(picture, format="PNG")
        games = runs.Games(found, seed, picture.getvalue())
        files = runs.files_to_push(agent, name, player, environment, games, **how)
    with Working(f"pushing {name}"):
        address = repository.push(files, f"{agent} by hackmatrix-rl")
    say(f"Pushed: {address}", f"See it play:  hackmatrix-rl watch {name}")
