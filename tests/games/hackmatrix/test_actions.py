"""The names of the actions are those of the tables that the rules are made of."""

import jax
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, Direction, Program


def test_every_action_has_the_name_of_what_it_does():
    tables = [*(each.name for each in Direction), "SIPHON", *(each.name for each in Program)]
    assert [each.name for each in hm.Action] == tables
    assert [each.value for each in hm.Action] == list(range(NUM_ACTIONS))


def test_play_takes_an_action_by_name_or_number():
    config = hm.GameConfig(history=1)
    state = jax.eval_shape(lambda: hm.new_game(config, key=jax.random.key(0)))
    shapes = [
        jax.eval_shape(lambda s, a=action: hm.play(config, s, a, key=jax.random.key(0)), state)
        for action in (hm.Action.SIPHON, 4, jnp.int32(4))
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    after, outcome = shapes[0]
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert outcome.terms.victory.shape == outcome.died.shape == ()
