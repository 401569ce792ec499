"""Forged demonstrations: refused in one line, or actions are legal and numbers finite."""

import json
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st

from fuzz.archives import NO_CHANGES, Changes, change, changes
from fuzz.commands import room
from fuzz.worker import Fuzzer
from hackmatrix_rl.algorithms.imitation import (
    Demonstrations,
    DemonstrationsHeader,
    DemonstrationsWriter,
    read_demonstrations,
)
from hackmatrix_rl.env import HackMatrix, game_identity
from hackmatrix_rl.games.hackmatrix import GameConfig
from hackmatrix_rl.system.errors import ConfigError

POSITIONS = 20
SHARD = "00000.npz"


@cache
def environment() -> HackMatrix:
    return HackMatrix(GameConfig(max_enemies=2, max_transmissions=2, history=1))


@cache
def written() -> Path:
    """Demonstrations as they should be."""
    folder = Path(room()).with_name("demonstrations")
    spec = environment().spec
    some = Demonstrations(
        observation=jax.tree.map(
            lambda leaf: np.zeros((POSITIONS, *leaf.shape), leaf.dtype), spec.observation
        ),
        mask=np.ones((POSITIONS, spec.num_actions), bool),
        action=np.zeros(POSITIONS, np.int32),
        played=np.zeros(POSITIONS, np.int32),
        reward=np.zeros(POSITIONS, np.float32),
        done=np.zeros(POSITIONS, bool),
        game=np.zeros(POSITIONS, np.int32),
    )
    header = DemonstrationsHeader(game_identity(), "original", "nobody", 0, 1, 0.0)
    with DemonstrationsWriter(folder, header) as writer:
        writer.add(some)
    return folder


@dataclass(frozen=True)
class Forgery:
    """Changes of `header.json`, and of the archive."""

    header: dict[str, Any]
    archive: Changes = NO_CHANGES


texts = st.text(max_size=12)
numbers = st.one_of(
    st.integers(-3, 40), st.integers(-(2**70), 2**70), st.just(10**400), st.floats(width=32)
)
odd = st.one_of(
    *(st.none(), st.booleans(), numbers, texts),
    st.lists(st.one_of(numbers, texts), max_size=3),
    st.dictionaries(st.sampled_from(["rules", "observation", "actions", "x"]), texts, max_size=3),
)
fields = st.sampled_from(["format", "game", "league", "teacher", "seed", "games", "random_share"])
names = st.sampled_from(
    ["mask", "action", "played", "reward", "done", "game", "observation.numbers"]
)
forgeries = st.builds(
    Forgery,
    st.dictionaries(st.one_of(fields, st.just("shards")), odd, max_size=2),
    changes(names, POSITIONS),
)


def forge(each: Forgery) -> Path:
    folder = Path(room()).with_name("forged_demonstrations")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(written(), folder)
    file, shard = folder / "header.json", folder / SHARD
    file.write_text(json.dumps({**json.loads(file.read_text()), **each.header}))
    change(shard, each.archive)
    return folder


def check(each: Forgery) -> None:
    folder = forge(each)
    try:
        stored = read_demonstrations(folder, environment())
        some = [stored.shard(number) for number in range(len(stored.header.shards))]
    except ConfigError as error:
        said = str(error)
        assert said.startswith(str(folder)), said
        assert said.isprintable(), ascii(said)
        return
    for shard in some:
        places = np.arange(len(shard))
        assert shard.mask[places, shard.action].all()
        assert shard.mask[places, shard.played].all()
        assert (shard.action >= 0).all()
        assert np.isfinite(shard.reward).all()


FUZZER = Fuzzer(
    forgeries,
    check,
    examples=200,
    found=(
        Forgery({"random_share": 10**400}),
        Forgery({"games": 10**30}),
        Forgery({"game": ["actions", "observation", "rules"]}),
        Forgery({}, Changes((("reward", "(" * 500, bytes(80)),))),
        Forgery({}, Changes((("action", "{'descr': '<i4', 'shape': (10**12,), }", bytes(80)),))),
    ),
)
