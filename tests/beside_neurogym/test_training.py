"""NeuroGym's own tasks in this package."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from neurogym.envs.delaymatchsample import DelayMatchSample

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.r2d2 import play_ahead
from hackmatrix_rl.env import env_keys

TIMING = {"fixation": 100, "sample": 100, "delay": 100, "test": 100, "decision": 200}


def task():
    return DelayMatchSample(sigma=0.0, timing=TIMING)


@pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium has much to say of NeuroGym
def test_a_task_by_its_name_keeps_the_contract():
    environment = hm.from_neurogym("PerceptualDecisionMaking-v0", sigma=0.0)
    assert environment.spec.num_actions == 3
    hm.check_environment(environment, steps=60, num_envs=3)


def test_each_trial_is_an_episode_that_ends_by_the_rules():
    environment = hm.from_neurogym(task)
    keys = env_keys(jax.random.key(0), 2)
    state, timestep = environment.reset(keys)
    assert timestep.observation.shape == (2, 3)
    ends, returns = [], []
    for step in range(15):
        before = np.asarray(timestep.observation)
        decides = before[:, 0] == 0  # whether to fixate ends with the decision
        actions = jnp.where(decides, jnp.asarray([1, 0]), 0).astype(jnp.int32)
        state, timestep = environment.step(state, actions, keys)
        assert not timestep.truncated.any()
        ends.append(np.asarray(timestep.terminated))
        returns.append(np.asarray(timestep.episode.total_reward))
        # One game chooses at once, the other waits for the end of the decision.
        assert not ends[-1][0] or decides[0], step
        if ends[-1].any():
            assert (timestep.observation[ends[-1]][:, 0] == 1).all(), "the next trial is shown"
    ends = np.asarray(ends)
    assert ends[:, 0].sum() == 3
    assert ends[:, 1].sum() == 2
    assert set(np.asarray(returns)[:, 0][ends[:, 0]]) <= {0.0, 1.0}


def test_q_learning_trains_on_it_while_it_plays():
    environment = hm.from_neurogym(task)
    policy = hm.GRUActorCritic(environment.spec, width=8, key=jax.random.key(0))
    learns = hm.R2D2(
        environment,
        policy,
        num_envs=4,
        train_freq=6,
        buffer_size=4 * 60,
        sequence_length=6,
        sequence_batch_size=8,
        n_step=1,
        learning_rate=1e-3,
    )
    rows = [
        metrics
        for _, metrics in play_ahead(learns, learns.init(jax.random.key(1), policy), updates=8)
    ]
    assert rows[-1].env_steps == 8 * 24
    assert sum(row.episodes for row in rows) >= 4 * 7
    assert all(np.isfinite(row.learning["q_loss"]) for row in rows[2:])


def test_the_page_about_it_runs_as_printed(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "adapters.md"
    block = re.search(r"```python\n(import neurogym.*?)```", page.read_text(), re.DOTALL)
    script = tmp_path / "block.py"
    script.write_text(block[1].replace("updates=100", "updates=12"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 12


def test_a_task_without_trials_is_refused():
    class Plain:
        unwrapped = property(lambda self: self)

    with pytest.raises(ValueError, match=r"has no trials; expected a neurogym\.TrialEnv"):
        hm.from_neurogym(Plain)
