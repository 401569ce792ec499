"""Arguments of the wrong type, in a process that checks no types, as users have it."""

import json
import subprocess
import sys

import pytest

CODE = """
import json
import jax
import numpy as np
import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.r2d2 import EpsilonGreedy, Prioritized, SquareRootScale

game = hm.Batched(hm.DelayedMatch())
policy = hm.GRUActorCritic(game.spec, width=4, key=jax.random.key(0))

def r2d2(**given):
    return hm.R2D2(game, policy, num_envs=8, sequence_batch_size=8, buffer_size=1024, **given)

def said(make):
    try:
        make()
    except TypeError as error:
        return str(error)
    return "accepted"

print(json.dumps({
    "gamma text": said(lambda: r2d2(gamma="0.9")),
    "gamma none": said(lambda: r2d2(gamma=None)),
    "dueling": said(lambda: r2d2(dueling="no")),
    "keep_buffer": said(lambda: r2d2(keep_buffer="no")),
    "epsilon": said(lambda: EpsilonGreedy("a")),
    "spread": said(lambda: EpsilonGreedy(0.4, None)),
    "largest": said(lambda: Prioritized(largest="a")),
    "scale": said(lambda: SquareRootScale("a")),
    "whole": said(lambda: r2d2(gamma=1, dueling=np.True_, keep_buffer=False)),
    "numpy": said(lambda: r2d2(gamma=np.float32(0.9))),
}))
"""
SAYS = {
    "gamma text": "gamma is '0.9' (str); expected a number",
    "gamma none": "gamma is None; expected a number",
    "dueling": "dueling is 'no' (str); expected True or False",
    "keep_buffer": "keep_buffer is 'no' (str); expected True or False",
    "epsilon": "epsilon is 'a' (str); expected a number",
    "spread": "spread is None; expected a number",
    "largest": "largest is 'a' (str); expected a number",
    "scale": "epsilon is 'a' (str); expected a number",
    "whole": "accepted",
    "numpy": "accepted",
}


@pytest.fixture(scope="module")
def said():
    """What each wrong argument led to."""
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", SAYS)
def test_the_argument_is_named(said, case):
    assert said[case] == SAYS[case]
