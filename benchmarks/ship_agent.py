"""Ships a trained agent: its last checkpoint without what only a resume needs, and its card.

    python benchmarks/ship_agent.py RUN [RUN ...] [--episodes 10000] [--failings TEXT]

The runs are the stages of one training, in order (imitation, then PPO from there); the last one is
shipped, into hackmatrix_rl/pretrained/ under its league. RUN@STEPS is a stage that the next one
left after so many steps, though the run went on; `pretrained` (or `pretrained/no-rewind`) stands
for all stages of the agent that is shipped now. The card tells how each stage was trained and what
the agent reaches in games that no training and no choice has seen.
"""

import argparse
import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import jax

import hackmatrix_rl
from hackmatrix_rl.checkpoints import PRETRAINED, find_checkpoint, read_metadata, trim_checkpoint
from hackmatrix_rl.config import TrainConfig, config_from_dict
from hackmatrix_rl.evaluation import evaluate
from hackmatrix_rl.runs import find_player
from hackmatrix_rl.system import enable_compilation_cache, write_json

SEED = 20_261_122
"""Of the games of the card; no other seed of the repository is near it."""
SHOWN = ("won", "return", "stage", "score", "length", "siphons", "programs", "undos")
CARD = "card.json"
FOLDER = Path(hackmatrix_rl.__file__).parent / "pretrained"
_OWN = ("run_dir", "checkpoint_dir", "init", "eval_episodes", "save_interval_minutes")


def stages_of(stage: str) -> list[dict[str, Any]]:
    """How one stage was trained, or all those of a shipped agent."""
    if stage.partition("/")[0] != PRETRAINED:
        return [stage_of(stage)]
    card = json.loads((Path(find_checkpoint(stage)) / CARD).read_text())
    stages: list[dict[str, Any]] = card["stages"]
    return stages


def stage_of(stage: str) -> dict[str, Any]:
    """How one stage was trained."""
    run, _, left = stage.partition("@")
    metadata = read_metadata(find_checkpoint(run))
    config = config_from_dict(metadata["config"])
    steps = int(left) if left else metadata["counters"]["env_steps"]
    rows = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    defaults = {each.name: each.default for each in dataclasses.fields(TrainConfig)}
    settings = {
        name: value
        for name, value in config.as_dict().items()
        if value != defaults[name] and name not in _OWN
    }
    return {
        "settings": settings,
        "starts_from": "random weights" if config.init is None else "the stage before",
        "steps": steps,
        "hours": round(sum(row["seconds"] for row in rows if row["env_steps"] <= steps) / 3600, 2),
        "device": metadata["device"],
        "seed": config.seed,
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


def main() -> None:
    """Ships the agent that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--failings", default="", help="known failings, in words")
    given = parser.parse_args()
    enable_compilation_cache()
    last = given.runs[-1]
    checkpoint = find_checkpoint(last)
    config = config_from_dict(read_metadata(checkpoint)["config"])
    card = {
        "league": config.league,
        "observation": config.observation,
        "network": config.network,
        "stages": [each for run in given.runs for each in stages_of(run)],
        "evaluation": evaluation_of(last, given.episodes),
        "failings": given.failings,
    }
    target = FOLDER / config.league
    shutil.rmtree(target, ignore_errors=True)
    size = trim_checkpoint(checkpoint, target)
    write_json(target / CARD, card, indent=1)
    print(f"{target}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
