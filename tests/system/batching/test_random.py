"""The words of a source of chance are as good as independent."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import hackmatrix_rl
from hackmatrix_rl.games.hackmatrix import _streams as game_streams
from hackmatrix_rl.games.hackmatrix._enemy_turn import random_lots
from hackmatrix_rl.search import _streams as search_streams
from hackmatrix_rl.system.batching import Chance, Stream, below
from hackmatrix_rl.system.batching._hashed_random import mix

pytestmark = pytest.mark.smoke

GAMES = 20_000
LEAST = 1e-4
"""p-values below this are no chance; seeds are fixed, so that they never change."""


@pytest.fixture(scope="module")
def sources():
    return jax.vmap(Chance.from_key)(jax.random.split(jax.random.key(1), GAMES))


def uniform(counts):
    return stats.chisquare(np.asarray(counts).ravel()).pvalue > LEAST


@pytest.mark.parametrize(
    "draw",
    [
        lambda c: c.words(8),
        lambda c: jnp.stack([c.fold_in(i).bits() for i in range(8)]),
        lambda c: jnp.stack([c.fold_in(i).fold_in(3).bits(5) for i in range(8)]),
    ],
    ids=["words", "children", "grandchildren"],
)
def test_bits_are_fair_and_pairs_of_draws_independent(sources, draw):
    words = np.asarray(jax.vmap(draw)(sources))
    for shift in (0, 9, 28):
        values = words >> shift & 15
        assert uniform(np.bincount(values.ravel(), minlength=16))
        for one in range(8):
            for other in range(one):
                pairs = np.bincount(values[:, one] * 16 + values[:, other], minlength=256)
                assert uniform(pairs)


def test_neighbouring_keys_and_words_share_nothing_and_mixing_loses_nothing():
    chance = jax.vmap(lambda i: Chance(jnp.uint32(0), i))(jnp.arange(GAMES, dtype=jnp.uint32))
    words = np.asarray(jax.vmap(lambda c: c.words(4))(chance))
    assert len(np.unique(words)) > words.size * 0.999
    flips = np.bitwise_count(words[1:] ^ words[:-1])
    assert abs(flips.mean() - 16) < 0.05
    assert len(np.unique(mix(jnp.arange(1 << 16, dtype=jnp.uint32)))) == 1 << 16


def test_integers_and_orders_are_uniform(sources):
    words = jax.vmap(lambda c: c.bits())(sources)
    for bound in (2, 3, 20, 23, 64):
        assert uniform(np.bincount(below(words, bound), minlength=bound))
    lots = np.asarray(jax.vmap(lambda c: random_lots(4, chance=c))(sources))
    orders = np.argsort(lots, axis=1) @ (4 ** np.arange(4))
    found, counts = np.unique(orders, return_counts=True)
    assert len(found) == 24
    assert uniform(counts)


def test_every_stream_has_a_name_and_no_two_of_one_purpose_are_the_same():
    kinds = [
        each
        for module in (game_streams, search_streams)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Stream) and each is not Stream
    ]
    assert kinds
    for kind in kinds:
        assert sorted(kind.__members__.values()) == [*range(len(kind.__members__))]
    package = Path(hackmatrix_rl.__file__).parent
    bare = [
        str(file) for file in package.rglob("*.py") if re.search(r"fold_in\(\d", file.read_text())
    ]
    assert bare == []
