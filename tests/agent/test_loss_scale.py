import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent.precision import LossScale

FINITE, OVERFLOW = jnp.array(True), jnp.array(False)


def after(scale: LossScale, *finite: bool) -> LossScale:
    for each in finite:
        scale = scale.adjust(jnp.array(each))
    return scale


def test_it_doubles_after_so_many_finite_steps_in_a_row():
    scale = LossScale(8.0, interval=3)
    assert after(scale, True, True).scale == 8
    grown = after(scale, True, True, True)
    assert grown.scale == 16
    assert grown.streak == 0
    assert after(grown, True, True).scale == 16
    assert after(grown, True, True, True).scale == 32


def test_it_halves_at_an_overflow_counts_anew_and_stays_between_floor_and_ceiling():
    scale = after(LossScale(8.0, interval=3), True, True, False)
    assert scale.scale == 4
    assert scale.streak == 0
    assert after(scale, True, True).scale == 4
    assert after(scale, True, True, True).scale == 8
    assert after(LossScale(8.0, interval=4), True, False, True, True, True).scale == 4
    scale = LossScale(4.0, interval=1, floor=2.0, ceiling=8.0)
    assert after(scale, *[False] * 5).scale == 2
    assert after(scale, *[True] * 5).scale == 8


def test_a_round_trip_as_a_pytree_loses_nothing():
    scale = LossScale(8.0, interval=7, factor=4.0, floor=2.0, ceiling=64.0)
    scale = after(scale, True, True)
    leaves, structure = jax.tree.flatten(scale)
    back = jax.tree.unflatten(structure, [np.asarray(leaf) for leaf in leaves])
    assert vars(back) == vars(scale)
    assert after(back, *[False] * 5).scale == 2.0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"interval": 0}, "interval"),
        ({"factor": 1.0}, "factor"),
        ({"floor": 0.0}, "floor"),
        ({"initial": 0.5}, "floor"),
        ({"ceiling": 8.0}, "ceiling"),
    ],
)
def test_what_cannot_work_is_an_error(wrong, says):
    with pytest.raises(ValueError, match=says):
        LossScale(**wrong)
