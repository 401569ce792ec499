"""The identity of a game: short texts for its rules, observation and actions.

A checkpoint stores it. A later version of the package compares it with its own identity, and
refuses a checkpoint of another game with a message that names the difference.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any

import jax

from hackmatrix_rl.env._clique_game import CliqueObservation
from hackmatrix_rl.env._encoding import CLASSIC_CHANNELS, SCREEN_CHANNELS, Channel
from hackmatrix_rl.env._hackmatrix import HackMatrix
from hackmatrix_rl.env._kinds import Kind
from hackmatrix_rl.env._observation import CELL, Number, Sight
from hackmatrix_rl.env._tactical_encoding import TACTICAL_PLANES
from hackmatrix_rl.env._tactical_observation import Memory
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, RULES_VERSION, Direction, Program

OBSERVATION_VERSION = 1
"""Increase it when the meaning of an observation or of its encoding changes, and `_seen` does not
show the change."""

CLIQUE_VERSION = 1
"""Increase it when the rules or the observation of the clique game change."""

OTHER_VERSION = 1
"""Increase it when the rules or the observation of CartPole or of a memory task change."""


@dataclass(frozen=True)
class GameIdentity:
    """The version of the game that a policy was trained for."""

    rules: str  #: `RULES_VERSION`.
    observation: str  #: The kind of observation, and a hash of its arrays, layout and encoding.
    actions: str  #: The number of actions, and a hash of their names.

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.as_dict().items())

    def as_dict(self) -> dict[str, str]:
        """The three texts by name, for JSON."""
        return asdict(self)

    @classmethod
    def from_texts(cls, texts: Mapping[str, Any]) -> "GameIdentity":
        """The inverse of `as_dict`."""
        names = [each.name for each in fields(cls)]
        if sorted(texts) != sorted(names) or not all(type(each) is str for each in texts.values()):
            raise ValueError(f"must be {', '.join(names)}, a text each")
        return cls(**texts)

    def differences(self, other: "GameIdentity") -> dict[str, tuple[str, str]]:
        """The texts that differ, by name: of this identity and of the other."""
        here, there = self.as_dict(), other.as_dict()
        return {name: (here[name], there[name]) for name in here if here[name] != there[name]}


@lru_cache
def game_identity(observation: Kind = "compact") -> GameIdentity:
    """The identity of HackMatrix in this version of the package, for a kind of observation.

    It does not depend on the sizes in a config.
    """
    return GameIdentity(
        rules=str(RULES_VERSION),
        observation=f"{observation}-{_sum(_seen(HackMatrix(observation=observation)))}",
        actions=f"{NUM_ACTIONS}-{_sum(_actions())}",
    )


@lru_cache
def clique_identity() -> GameIdentity:
    """The identity of the clique game, for any sizes."""
    seen = [each.name for each in fields(CliqueObservation)]
    return GameIdentity(
        rules=f"clique-{CLIQUE_VERSION}",
        observation=f"clique-{_sum([f'version {CLIQUE_VERSION}', *seen])}",
        actions="edges",
    )


def other_identity(env: str) -> GameIdentity:
    """The identity of another environment, by its name for `--env`."""
    return GameIdentity(rules=f"{env}-{OTHER_VERSION}", observation=env, actions=env)


def _actions() -> list[str]:
    return [*(each.name for each in Direction), "SIPHON", *(each.name for each in Program)]


def _seen(environment: HackMatrix) -> list[str]:
    """The definition of an observation and its encoding, as lines of text."""
    spec = environment.spec
    fed = jax.eval_shape(spec.encode, spec.observation)
    tactical = [
        *(f"memory {each.name} {each.value}" for each in Memory),
        *(f"plane {name} {scale:g}" for name, scale in TACTICAL_PLANES.items()),
    ]
    return [
        f"version {OBSERVATION_VERSION}",
        *(f"{path} {text}" for path, text in _arrays(spec.observation)),
        *(f"number {each.name} {each.value}" for each in Number),
        *(f"sight {each.name} {each.value}" for each in Sight),
        *(f"program {each.name} {each.value}" for each in Program),
        *(f"cell {name} {field.shift} {field.width}" for name, field in CELL.items()),
        *(f"fed {path} {text}" for path, text in _arrays(fed)),
        *(_channel(each) for each in CLASSIC_CHANNELS + SCREEN_CHANNELS),
        *(tactical if environment.observation == "tactical" else ()),
    ]


def _arrays(tree: Any) -> list[tuple[str, str]]:
    leaves = jax.tree.leaves_with_path(tree)
    return [(jax.tree_util.keystr(path), f"{x.dtype}{list(x.shape)}") for path, x in leaves]


def _channel(channel: Channel) -> str:
    when = " ".join(f"{name}={int(number)}" for name, number in channel.when)
    return f"channel {channel.field} {channel.scale:g} {channel.cap:g} {when}"


def _sum(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]
