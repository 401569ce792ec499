"""The axis of environments that each field names is the one that it has."""

import jax
import pytest

from agent import probes
from agent.builders import random_batch, random_rollout
from hackmatrix_rl.agent import start_collector
from hackmatrix_rl.agent.networks import GRUActorCritic
from hackmatrix_rl.env import env_keys

PROBE = probes.observation_matters()
POLICY = GRUActorCritic(PROBE.spec, width=4, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("made", "num_envs"),
    [
        (random_rollout(0, num_steps=7, num_envs=5), 5),
        (random_batch(POLICY, PROBE.spec, num_steps=7, num_envs=5), 5),
        (start_collector(PROBE, POLICY, env_keys(jax.random.key(0), 5)), 5),
    ],
    ids=["rollout", "batch", "collector"],
)
def test_the_axis_of_environments_is_where_a_field_says(made, num_envs):
    axes = made.environment_axes()
    assert axes.keys() == vars(made).keys()
    for name, axis in axes.items():
        for leaf in jax.tree.leaves(getattr(made, name)):
            if axis is None:
                assert num_envs not in leaf.shape
            else:
                assert leaf.shape[axis] == num_envs, name
                assert axis == 0 or leaf.shape[0] == 7
