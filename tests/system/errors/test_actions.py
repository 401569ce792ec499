"""An action of one game."""

import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.system.errors import as_action


@pytest.mark.parametrize(
    ("given", "number"), [(7, 7), (2**31, -1), (-(2**40), -1), (10**400, -1), (np.int64(2**40), -1)]
)
def test_a_number_beyond_int32_is_no_action(given, number):
    action = as_action(given, "an edge")
    assert action.dtype == jnp.int32
    assert int(action) == number


@pytest.mark.parametrize("given", [1.0, True, jnp.zeros(2, jnp.int32)])
def test_it_is_one_whole_number(given):
    with pytest.raises(TypeError, match="expected the number of an edge"):
        as_action(given, "the number of an edge")
