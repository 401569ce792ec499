"""Ships a trained agent: its last checkpoint, without state that only a resume needs, and a card.

    python benchmarks/ship_agent.py RUN [RUN ...] --command TEXT [--command TEXT ...]
        --hardware TEXT --recipe NAME --version N [--episodes 10000] [--failing TEXT ...]
        [--note TEXT ...]
    python benchmarks/ladder.py ...                      # which plays the shipped agent
    python benchmarks/ship_agent.py --version N --ladder original    # its figures, into the card

The runs are the stages of one training, in order (imitation, then PPO from there); the last one is
shipped, into hackmatrix_rl/pretrained/ under its version and league. RUN@STEPS is a stage from
which the next one started after that number of steps, although the run continued. A shipped agent
(`pretrained@2/no-rewind`) is all stages of its card, and needs no --command. A
run of the recipe itself (`train --recipe NAME`) must be the only one, and needs none either.

The card names the recipe (hackmatrix_rl/recipes/) that repeats the training. It reports how each
stage was trained (command, every setting, weights of the reward, steps, hours, hardware, seed), the
results of the agent in games that no training and no choice of settings has used (alone, with
searches and without UNDO), and its known failings. tests/test_pretrained.py checks that nothing is
missing.
"""

import argparse
import dataclasses
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ladder import return_of

import hackmatrix_rl
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import evaluate, rate_of
from hackmatrix_rl.games.hackmatrix import LEAGUES
from hackmatrix_rl.runs import find_player
from hackmatrix_rl.runs.checkpoints import (
    CARD,
    PRETRAINED,
    find_checkpoint,
    read_metadata,
    trim_checkpoint,
)
from hackmatrix_rl.runs.config import (
    TrainConfig,
    config_from_dict,
    make_stages,
    read_settings,
    recipe_file,
    recipe_names,
)
from hackmatrix_rl.system import enable_compilation_cache, write_json

SEED = 20_261_122
"""Of the games of the card; no other seed of the repository is near it."""
SHOWN = ("won", "return", "stage", "score", "length", "siphons", "programs", "undos")
FOLDER = Path(hackmatrix_rl.__file__).parent / PRETRAINED
LADDER = Path(__file__).parent / "learning" / "ladder.json"
OTHER_WAYS = {
    "search(pretrained, 30)": "search({}, 30)",
    "search(pretrained, 100)": "search({}, 100)",
    "pretrained --search 32": "{} --search 32",
    "without UNDO": "{}, without UNDO",
}
"""How else the agent plays, and the name of that in the ladder, with a place for the agent's."""
_OWN = ("run_dir", "checkpoint_dir", "init", "eval_episodes", "save_interval_minutes", "replays")


def is_shipped(run: str) -> bool:
    """Whether a run is an agent of the package, by its name."""
    return run.partition("/")[0].partition("@")[0] == PRETRAINED


def stages_of(
    runs: Sequence[str], commands: Sequence[str], hardware: str
) -> Iterator[dict[str, Any]]:
    """How each stage was trained.

    Args:
        runs: the stages.
        commands: the command of each stage that is not of a shipped agent.
        hardware: that trained them, in words.
    """
    left = list(commands)
    for run in runs:
        if is_shipped(run):
            yield from json.loads((Path(find_checkpoint(run)) / CARD).read_text())["stages"]
        else:
            yield stage_of(run, left.pop(0), hardware)


def stage_of(stage: str, command: str, hardware: str) -> dict[str, Any]:
    """How one stage was trained."""
    run, _, left = stage.partition("@")
    metadata = read_metadata(find_checkpoint(run))
    config = config_from_dict(metadata["config"])
    assert isinstance(config, TrainConfig)
    steps = int(left) if left else metadata["counters"]["env_steps"]
    rows = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    return {
        "command": " ".join(command.split()),
        **settings_of(config),
        "starts_from": "random weights" if config.init is None else "the stage before",
        "steps": steps,
        "hours": round(sum(row["seconds"] for row in rows if row["env_steps"] <= steps) / 3600, 2),
        "hardware": hardware,
        "device": metadata["device"],
        "seed": config.seed,
    }


def stages_of_recipe(run: str, recipe: str, hardware: str) -> Iterator[dict[str, Any]]:
    """How each stage of a run by a recipe was trained."""
    metadata = read_metadata(find_checkpoint(run))
    rows = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    settings = read_settings(recipe_file(recipe))
    stages = make_stages("cpu", settings, settings.pop("stages"), {}).stages
    begun, origin = 0, "random weights"
    for stage in stages:
        assert isinstance(stage, TrainConfig)
        ended = begun + stage.steps_taken
        seconds = sum(row["seconds"] for row in rows if begun < row["env_steps"] <= ended)
        yield {
            "command": f"hackmatrix-rl train --recipe {recipe}",
            **settings_of(dataclasses.replace(stage, then=None, begun_at=begun)),
            "starts_from": stage.init or origin,
            "steps": stage.steps_taken,
            "hours": round(seconds / 3600, 2),
            "hardware": hardware,
            "device": metadata["device"],
            "seed": stage.seed,
        }
        begun, origin = ended, "the stage before"
    if begun != metadata["counters"]["env_steps"]:
        raise SystemExit(f"{run}: did not end with {begun} steps, as the recipe does")


def settings_of(config: TrainConfig) -> dict[str, Any]:
    """All settings except folders and logging, and the weight of each reward term."""
    return {
        "config": {name: each for name, each in config.as_dict().items() if name not in _OWN},
        "reward_weights": dataclasses.asdict(config.reward_config),
    }


def evaluation_of(run: str, episodes: int) -> dict[str, Any]:
    """What the agent reaches, by its likeliest actions and by drawn ones: means and intervals."""
    found = {}
    for name, greedy in (("greedy", True), ("sampled", False)):
        player, environment = find_player(run)
        played = evaluate(
            player,
            environment,
            episodes=episodes,
            key=jax.random.key(SEED),
            greedy=greedy,
            num_envs=1024,
        )
        told = {each: played.estimate(each) for each in SHOWN}
        found[name] = {
            each: [round(float(number), 4) for number in (at.mean, at.low, at.high)]
            for each, at in told.items()
        }
        print(name, found[name], flush=True)
    return {"games": episodes, "seed": SEED, "interval": 0.95, **found}


def other_ways(agent: str, league: str) -> dict[str, Any]:
    """Return, points and wins of a shipped agent by its searches, and without UNDO."""
    measured = json.loads(LADDER.read_text())
    _, environment = find_player(f"{agent}/{league}")
    assert isinstance(environment, HackMatrix)
    found = {}
    for name, player in OTHER_WAYS.items():
        parts = measured.get(f"{player.format(agent)} | {league} | {environment.max_steps}", ())
        games = sum(part["games"] for part in parts)
        if games:
            won = round(sum(part["won"] * part["games"] for part in parts))
            told = {"return": return_of(parts), "won": rate_of(np.arange(games) < won)}
            points = sum(part["score"] * part["games"] for part in parts) / games
            found[name] = {"games": games, "score": round(points, 4)} | {
                each: [round(float(number), 4) for number in (at.mean, at.low, at.high)]
                for each, at in told.items()
                if not np.isnan(at.low)
            }
    return found


def add_ladder(agent: str, league: str) -> None:
    """Writes the figures of the ladder into the card of a shipped agent."""
    file = Path(find_checkpoint(f"{agent}/{league}")) / CARD
    card = json.loads(file.read_text())
    card["evaluation"]["other_ways"] = other_ways(agent, league)
    write_json(file, card, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument(
        "--command", action="append", default=[], help="command of each stage, in order"
    )
    parser.add_argument("--hardware", help="hardware of the training, as text")
    parser.add_argument("--recipe", choices=recipe_names(), help="recipe that repeats the training")
    parser.add_argument("--version", type=int, required=True, help="that the agent becomes")
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--failing", action="append", default=[], help="a known failing, as text")
    parser.add_argument(
        "--note", action="append", default=[], help="a note on the training, as text"
    )
    parser.add_argument("--ladder", choices=LEAGUES, help="only add the ladder's figures")
    given = parser.parse_args()
    if given.ladder is not None:
        add_ladder(f"{PRETRAINED}@{given.version}", given.ladder)
        return
    new = [run for run in given.runs if not is_shipped(run)]
    by_recipe = len(given.runs) == len(new) == 1 and not given.command
    told = by_recipe or len(new) == len(given.command)
    if not new or not told or not given.hardware or not given.recipe:
        parser.error(
            "each RUN that is not shipped yet needs a --command, and all a --hardware and --recipe"
        )
    enable_compilation_cache()
    last = given.runs[-1]
    checkpoint = find_checkpoint(last)
    metadata = read_metadata(checkpoint)
    config = config_from_dict(metadata["config"])
    # Before the target is removed, which may be the agent that the training started from.
    stages = list(
        stages_of_recipe(last, given.recipe, given.hardware)
        if by_recipe
        else stages_of(given.runs, given.command, given.hardware)
    )
    target = FOLDER / str(given.version) / config.league
    shutil.rmtree(target, ignore_errors=True)
    size = trim_checkpoint(checkpoint, target, rounded=True)
    card = {
        "league": config.league,
        "observation": config.observation,
        "network": config.network,
        "versions": metadata["versions"],
        "recipe": given.recipe,
        "stages": stages,
        "notes": given.note,
        "evaluation": evaluation_of(
            f"{PRETRAINED}@{given.version}/{config.league}", given.episodes
        ),
        "failings": given.failing,
    }
    write_json(target / CARD, card, indent=1)
    print(f"{target}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
