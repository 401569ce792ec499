import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent import IdentityScale, RunningScale

VALUES = jnp.array([-10.0, -0.3, 0.0, 0.01, 1.0, 40.0, 650.0], jnp.float32)


def test_the_first_targets_set_the_statistics_and_before_them_nothing_changes():
    np.testing.assert_array_equal(RunningScale().normalize(VALUES), VALUES)
    scale = RunningScale().update(VALUES)
    assert scale.mean == pytest.approx(float(jnp.mean(VALUES)), rel=1e-5)
    assert scale.std == pytest.approx(float(jnp.std(VALUES)), rel=1e-5)


def test_later_targets_move_them_as_a_weighted_average():
    draw = np.random.default_rng(0)
    batches = [draw.normal(3.0 * i, 1.0 + i, 1000).astype(np.float32) for i in range(5)]
    scale = RunningScale(decay=0.8)
    for batch in batches:
        scale = scale.update(jnp.asarray(batch))
    weights = 0.8 ** np.arange(4, -1, -1)
    weights /= weights.sum()
    mean = sum(w * b.mean(dtype=float) for w, b in zip(weights, batches, strict=True))
    square = sum(w * (b.astype(float) ** 2).mean() for w, b in zip(weights, batches, strict=True))
    assert scale.mean == pytest.approx(mean, rel=1e-4)
    assert scale.std == pytest.approx(np.sqrt(square - mean**2), rel=1e-4)


@pytest.mark.parametrize(
    "scale", [IdentityScale(), RunningScale(), RunningScale(compress=True)], ids=repr
)
def test_normalising_is_undone_by_denormalising(scale):
    scale = scale.update(VALUES).update(VALUES * 0.5)
    there_and_back = scale.denormalize(scale.normalize(VALUES))
    np.testing.assert_allclose(there_and_back, VALUES, rtol=1e-4, atol=2e-4)


def test_a_victory_is_some_twenty_units_when_compressed_and_equal_targets_are_finite():
    scale = RunningScale(compress=True)
    assert 20 < scale.normalize(jnp.float32(500.0)) < 25
    assert scale.normalize(jnp.float32(-0.01)) == pytest.approx(-0.005, rel=0.01)
    scale = RunningScale().update(jnp.full((8,), 3.0, jnp.float32))
    assert scale.normalize(jnp.float32(3.0)) == 0.0
    assert np.isfinite(scale.normalize(VALUES)).all()


@pytest.mark.parametrize("odd", [np.nan, np.inf, 3e38])
def test_targets_that_are_not_finite_or_too_large_change_nothing(odd):
    scale = RunningScale().update(VALUES)
    for before in (RunningScale(), scale):
        after = before.update(VALUES.at[2].set(odd))
        assert [after.mean, after.variance, after.weight] == [
            before.mean,
            before.variance,
            before.weight,
        ]
    assert after.update(VALUES * 2).mean == scale.update(VALUES * 2).mean


@pytest.mark.parametrize("wrong", [{"decay": 1.0}, {"min_std": 0.0}])
def test_an_argument_out_of_range_is_an_error(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RunningScale(**wrong)
