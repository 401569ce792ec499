"""The environment of gymnax that docs/checking.md makes into one of ours."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp

import hackmatrix_rl as hm

PAGE = Path(__file__).parents[2] / "docs" / "checking.md"


class Count:
    """A game as gymnax has them: count to 5 by ones (action 1) and nothings (0)."""

    num_actions = 2

    def reset_env(self, key, params):
        return jnp.zeros(1, jnp.int32), jnp.int32(0)

    def step_env(self, key, state, action, params):
        after = state + action
        return after[None], after, action, after >= 5, {}


def test_it_keeps_to_the_contract_and_can_be_trained_in():
    (code,) = re.findall(r"<!-- gymnax -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {"__name__": "page"}
    exec(code, names)
    environment = names["FromGymnax"](Count())
    hm.check_environment(environment, steps=40)
    policy = hm.MLPActorCritic(environment.spec, width=4, depth=1, key=jax.random.key(0))
    hm.Trainer(environment, policy)
