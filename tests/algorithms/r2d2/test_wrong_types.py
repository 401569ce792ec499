"""Arguments of the wrong type are named, where no check of types at run time does it before."""

import os

import jax
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.r2d2 import EpsilonGreedy, Prioritized, SquareRootScale

GAME = hm.Batched(hm.DelayedMatch())
POLICY = hm.GRUActorCritic(GAME.spec, width=4, key=jax.random.key(0))


def r2d2(**given):
    return hm.R2D2(GAME, POLICY, num_envs=8, sequence_batch_size=8, buffer_size=1024, **given)


@pytest.mark.skipif(
    os.environ.get("HACKMATRIX_RL_CHECK_TYPES") == "1", reason="the check of types comes first"
)
@pytest.mark.parametrize(
    ("make", "wrong", "says"),
    [
        (r2d2, {"gamma": "0.9"}, "gamma is '0.9' (str); expected a number"),
        (r2d2, {"gamma": None}, "gamma is None; expected a number"),
        (r2d2, {"dueling": "no"}, "dueling is 'no' (str); expected True or False"),
        (r2d2, {"keep_buffer": "no"}, "keep_buffer is 'no' (str); expected True or False"),
        (EpsilonGreedy, {"epsilon": "a"}, "epsilon is 'a' (str); expected a number"),
        (EpsilonGreedy, {"epsilon": 0.4, "spread": None}, "spread is None; expected a number"),
        (Prioritized, {"largest": "a"}, "largest is 'a' (str); expected a number"),
        (SquareRootScale, {"epsilon": "a"}, "epsilon is 'a' (str); expected a number"),
    ],
)
def test_the_argument_is_named(make, wrong, says):
    with pytest.raises(TypeError) as refused:
        make(**wrong)
    assert str(refused.value) == says


def test_numbers_and_switches_of_numpy_are_accepted():
    r2d2(gamma=1, dueling=np.True_, keep_buffer=False)
    r2d2(gamma=np.float32(0.9))
