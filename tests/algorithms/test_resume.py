"""A training that is saved and loaded goes on in the same bits, whatever the algorithm.

PPO: training/test_save_and_load.py; in real processes: runs/test_every_algorithm.py.
"""

import jax
import pytest
from agent import probes
from training.states import assert_all_changed, assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.agent import Linear
from hackmatrix_rl.algorithms.r2d2 import Prioritized
from hackmatrix_rl.algorithms.supervised import Curriculum

from .imitation.imitating import UPDATE, imitation
from .pqn.test_pqn import pqn
from .r2d2.building import trainer as r2d2
from .self_play.test_self_play import trainer as self_play
from .supervised.building import trainer as supervised

TRUNCATES = probes.truncation()
# How to make a trainer, and how many updates are before the file and after it. Of Q-learning they
# go past the first time round the ring, and past a new target network.
TRAININGS = {
    "imitation": (
        lambda seed: imitation(memory=True, beta=Linear(1.0, 0.0, over=3 * UPDATE), seed=seed),
        *(2, 2),
    ),
    "pqn": (lambda seed: hm.Trainer(pqn(seed=seed)), 3, 3),
    "r2d2, gru": (lambda seed: r2d2(TRUNCATES, seed=seed), 8, 4),
    "r2d2, lstm": (
        lambda seed: r2d2(TRUNCATES, kind="lstm", sampling=Prioritized(), seed=seed),
        *(8, 4),
    ),
    "self-play": (lambda seed: self_play(seed=seed), 3, 3),
    # Before the file: in the middle of a curriculum, and of the work on the examples.
    "supervised": (
        lambda seed: supervised(seed=seed, ema=0.9, curriculum=Curriculum(2, 2, over=3)),
        *(2, 2),
    ),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_training_resumes_in_the_same_bits(tmp_path, name):
    make, before, after = TRAININGS[name]
    straight, resumed = make(seed=0), make(seed=5)
    straight.start(jax.random.key(1))
    straight.dispatch(before)
    straight.save(tmp_path / "state")
    resumed.load(tmp_path / "state")
    assert int(resumed.state.update) == before
    for trainer in (straight, resumed):
        trainer.dispatch(after)
    assert_same(resumed.state, straight.state)
    # PQN uses no value head, and a recursion has a start that is not trained.
    if name not in ("pqn", "supervised"):
        assert_all_changed(straight.policy, straight.algorithm.initial_policy)
