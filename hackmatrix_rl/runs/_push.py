"""Publishes an agent on the Hugging Face Hub, with a card."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.evaluation import Evaluation, PolicyAgent
from hackmatrix_rl.runs._verify_resume import toml_of
from hackmatrix_rl.runs.checkpoints import (
    DESCRIPTION,
    HUB,
    HubName,
    Report,
    answering,
    hold_checkpoint,
    hub_files,
    in_league,
    library,
    saved_run,
    split_member,
)
from hackmatrix_rl.runs.config import config_from_dict
from hackmatrix_rl.runs.export import contract
from hackmatrix_rl.system.errors import ConfigError

CARD, PICTURE, CONTRACT = "README.md", "game.png", "contract.json"
_SHOWN = ("return", "length", "score", "stage", "won")
"""Results on the card, as `hackmatrix-rl eval` shows them."""
_FROM_THE_HUB = {CARD, ".gitattributes", "LICENSE"}
"""Files that a repository may have before an agent is pushed."""


class HubRepository:
    """A repository that an agent can be pushed to.

    The constructor asks the hub, so that a wrong name or a missing token is found before games
    are played.

    Args:
        name: `hf://USER/NAME`.
        private: whether a new repository is private.

    Raises:
        ConfigError: there is no token; the name is not one, or is taken by something else; the hub
            refuses it or does not answer; or the extra `hub` is not installed.
    """

    def __init__(self, name: str, *, private: bool = False) -> None:
        named = HubName.of(name)
        if named.revision is not None:
            raise ConfigError(f"{name}: push makes a new revision; leave @{named.revision} out.")
        hub = library(f"push {name}")
        if hub.get_token() is None:
            raise ConfigError(
                f"{name}: the hub needs a token. Log in: hf auth login, or set HF_TOKEN."
            )
        self._name, self._repository, self._api = name, named.repository, hub.HfApi()
        self._added = hub.CommitOperationAdd
        with answering(name):
            who = self._api.whoami()
            spaces = [who["name"], *(each["name"] for each in who.get("orgs", []))]
            if named.repository.partition("/")[0] not in spaces:
                mine = ", ".join(f"{HUB}{each}/NAME" for each in spaces)
                raise ConfigError(f"{name}: the name is taken by another user. Yours are {mine}.")
            self._api.create_repo(named.repository, private=private, exist_ok=True)
            there = set(self._api.list_repo_files(named.repository))
        if DESCRIPTION not in there and (other := sorted(there - _FROM_THE_HUB)):
            raise ConfigError(
                f"{name}: the name is taken: the repository has {other[0]} and no {DESCRIPTION}. "
                "Use another name."
            )

    def push(self, files: Mapping[str, bytes], message: str) -> str:
        """Adds files in one commit, and returns its address.

        Raises:
            ConfigError: the hub refuses them or does not answer.
        """
        added = [self._added(path, content) for path, content in files.items()]
        with answering(self._name):
            done = self._api.create_commit(
                self._repository, added, commit_message=message, repo_type="model"
            )
        return str(done.commit_url)


@dataclass(frozen=True)
class Games:
    """Games of an agent that its card shows.

    Attributes:
        results: their results.
        seed: the seed of `hackmatrix-rl eval`.
        picture: the last position of one of them as PNG; `None` if it cannot be drawn.
    """

    results: Evaluation
    seed: int
    picture: bytes | None


def files_to_push(
    run: str,
    name: str,
    agent: PolicyAgent,
    environment: Environment,
    games: Games | None,
    *,
    licence: str,
    best: bool = False,
    report: Report = warnings.warn,
) -> dict[str, bytes]:
    """The files of an agent on the hub: weights, description, contract, card and picture.

    Args:
        run: a run, a checkpoint or `pretrained`.
        name: the agent's name on the hub, `hf://USER/NAME`.
        agent: the agent, of this run.
        environment: the environment that it plays in.
        games: the games on the card; `None` if it played none.
        licence: the licence, by its name on the hub, such as `apache-2.0`.
        best: takes the checkpoint with the highest mean return.
        report: takes a message about each skipped checkpoint.

    Raises:
        ConfigError: the run is none of `hackmatrix-rl train`, or its checkpoint cannot be read.
    """
    if saved_run(run) is not None:
        raise ConfigError(
            f"{run}: is a run of hm.SaveRun, whose modules only its script can make. push takes "
            "runs of hackmatrix-rl train."
        )
    if split_member(run)[1] is not None:
        raise ConfigError(
            f"{run}: push takes all trainings of a run, and {name}#0 is one of them. Leave the # "
            "out."
        )
    folder, _hold = hold_checkpoint(in_league(run, None), best=best, report=report)
    files = hub_files(folder)
    metadata = json.loads(files[DESCRIPTION])["metadata"]
    about = contract(agent, environment)
    files[CONTRACT] = (json.dumps(about, indent=1, allow_nan=False) + "\n").encode()
    files[CARD] = _card(name, metadata, environment, games, licence).encode()
    if games is not None and games.picture is not None:
        files[PICTURE] = games.picture
    return files


def _card(
    name: str,
    metadata: Mapping[str, Any],
    environment: Environment,
    games: Games | None,
    licence: str,
) -> str:
    """The card: Markdown, under the hub's metadata as JSON, which is YAML."""
    config = config_from_dict(metadata["config"])
    title = name.rpartition("/")[2]
    front: dict[str, Any] = {
        "library_name": "hackmatrix-rl",
        "license": licence,
        "tags": ["reinforcement-learning", "jax", "equinox", config.algorithm],
    }
    shown: list[str] = []
    if games is not None:
        results = games.results
        values = [each for each in _SHOWN if each in results.values]
        mean = results.estimate("return").mean
        front["model-index"] = [_index(title, environment.title, mean)]
        if games.picture is not None:
            shown += [f"![The last position of a game]({PICTURE})", ""]
        shown += ["| | mean | 95% interval |", "|---|---|---|"]
        for each in values:
            found = results.estimate(each)
            shown.append(f"| {each} | {found.mean:.4g} | {found.low:.4g} to {found.high:.4g} |")
        again = f"hackmatrix-rl eval {name} --episodes {results.episodes} --seed {games.seed}"
        shown += ["", f"{results.episodes:,} games, apart from the training: `{again}`", ""]
    commands = [f"hackmatrix-rl {each} {name}" for each in ("eval", "watch")]
    if isinstance(environment, HackMatrix):
        commands.append(f"hackmatrix-rl play-app {name} --app PATH")
    steps = metadata["counters"].get("env_steps", 0)
    versions = ", ".join(f"{each} {number}" for each, number in metadata["versions"].items())
    lines = [
        *("---", json.dumps(front, indent=1), "---", "", f"# {title}", ""),
        *(f"An agent for {environment.title}, trained with `hackmatrix-rl`.", "", *shown),
        *("## Use", "", "```bash", "pip install 'hackmatrix-rl[hub]'", *commands, "```", ""),
        *("```python", "import hackmatrix_rl as hm", "", f'agent = hm.load("{name}").agent()'),
        *("```", "", f"`{CONTRACT}` says what the network takes and returns.", ""),
        *("## Training", "", f"{steps:,} steps on {metadata['device']}, with {versions}:", ""),
        *("```bash", "hackmatrix-rl train --config train.toml", "```", ""),
        *("`train.toml`:", "", "```toml", toml_of(config).rstrip(), "```", ""),
    ]
    return "\n".join(lines)


def _index(title: str, environment: str, mean: float) -> dict[str, Any]:
    """The result as the hub's leaderboards read it."""
    result = {
        "task": {"type": "reinforcement-learning"},
        "dataset": {"name": environment, "type": environment},
        "metrics": [{"type": "mean_return", "value": round(mean, 4)}],
    }
    return {"name": title, "results": [result]}
