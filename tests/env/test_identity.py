"""Which game something was made for."""

import dataclasses
import hashlib
from enum import IntEnum
from pathlib import Path

import pytest

from hackmatrix_rl.env import CELL, SCREEN_CHANNELS, Channel, Features, GameIdentity, game_identity
from hackmatrix_rl.env import _identity as identity
from hackmatrix_rl.games.hackmatrix import RULES_VERSION
from hackmatrix_rl.system.batching import fields


@pytest.fixture(autouse=True)
def fresh():
    game_identity.cache_clear()
    yield
    game_identity.cache_clear()


def test_the_game_is_what_it_was():
    # What lies in checkpoints. Where this fails, one of the three has changed: if rules or
    # meaning changed too, raise their version; then write down here what it is now, and say in
    # CHANGELOG.md that older checkpoints are refused.
    assert str(game_identity()) == "rules=1, observation=compact-f257f0a3, actions=28-a94b6149"
    assert game_identity("classic").observation == "classic-2a441143"


RECORDINGS = Path(__file__).parents[1] / "data" / "conformance"


def test_the_rules_are_those_of_the_recordings():
    # Every rule is held to them. Other recordings are other rules: raise RULES_VERSION, and
    # write both down here.
    digest = hashlib.sha256()
    for path in sorted(RECORDINGS.glob("*.npz")):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    assert (RULES_VERSION, digest.hexdigest()[:16]) == (1, "6673eaa6470d1714")


def swapped(enum):
    """An enum whose first two members have changed places."""
    first, second, *rest = enum
    members = [(second.name, first.value), (first.name, second.value)]
    return IntEnum(enum.__name__, members + [(e.name, e.value) for e in rest])


CHANGES = {
    "rules": ("rules", "RULES_VERSION", 2),
    "meaning": ("observation", "OBSERVATION_VERSION", 2),
    "order of numbers": ("observation", "Number", swapped(identity.Number)),
    "what cells hold": ("observation", "Sight", swapped(identity.Sight)),
    "layout of cells": (
        "observation",
        "CELL",
        fields(**{name: CELL[name].width for name in reversed(CELL)}),
    ),
    "scale of a channel": ("observation", "SCREEN_CHANNELS", (Channel("last_known", scale=2),)),
    "order of channels": ("observation", "SCREEN_CHANNELS", SCREEN_CHANNELS[::-1]),
    "directions": ("actions", "Direction", swapped(identity.Direction)),
    "number of actions": ("actions", "NUM_ACTIONS", 29),
    "order of programs": ("observation actions", "Program", swapped(identity.Program)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_told_by_name(monkeypatch, change):
    before = game_identity()
    parts, name, value = CHANGES[change]
    game_identity.cache_clear()
    monkeypatch.setattr(identity, name, value)
    assert before.differences(game_identity()).keys() == set(parts.split())


def test_shapes_belong_to_it(monkeypatch):
    before = game_identity()
    game_identity.cache_clear()
    spec = identity.HackMatrix.spec.fget

    def wider(environment):
        found = spec(environment)
        return dataclasses.replace(
            found, encode=lambda seen: Features(found.encode(seen).ravel()), split=None
        )

    monkeypatch.setattr(identity.HackMatrix, "spec", property(wider))
    assert before.differences(game_identity()).keys() == {"observation"}


def test_it_is_read_as_it_was_told():
    here = game_identity()
    assert GameIdentity.from_texts(here.as_dict()) == here
    other = dataclasses.replace(here, rules="2")
    assert here.differences(other) == {"rules": ("1", "2")}


@pytest.mark.parametrize(
    "told", [{}, {"rules": "1"}, {"rules": 1, "observation": "", "actions": ""}]
)
def test_what_is_no_identity_is_an_error(told):
    with pytest.raises(ValueError, match="must be rules, observation, actions"):
        GameIdentity.from_texts(told)
