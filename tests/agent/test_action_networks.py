"""Networks with an embedding of each action, on HackMatrix's observations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent.test_networks import Still
from hackmatrix_rl.agent.networks import build_network
from hackmatrix_rl.agent.precision import parameters_of, precision
from hackmatrix_rl.env import HackMatrix, Number, env_keys
from hackmatrix_rl.games.hackmatrix import FIRST_PROGRAM, SIPHON, Program

KEY = jax.random.key(0)
NAMES = ("resnet", "transformer", "recursive")
SPEC = HackMatrix(observation="tactical").spec


class StillTactical(Still):
    """The same with the tactical observation."""

    spec = SPEC


@eqx.filter_jit
def sizes_of_gradient(network, observations):
    """The largest entry of each parameter's gradient, and the logits."""

    def loss(network):
        logits, value, _ = jax.vmap(network, in_axes=(0, None))(observations, ())
        spread = jnp.mean(jax.nn.log_softmax(logits)[:, 0]) + jnp.mean(value**2)
        return spread, logits

    gradient, logits = eqx.filter_grad(loss, has_aux=True)(network)
    return jax.tree.map(lambda leaf: jnp.max(jnp.abs(leaf)), gradient), logits


@pytest.fixture(scope="module")
def observations():
    return jax.jit(StillTactical().reset)(env_keys(KEY, 8))[1].observation


@pytest.fixture(scope="module", params=NAMES)
def network(request):
    return build_network(request.param, SPEC, width=8, depth=2, key=KEY)


def test_every_parameter_learns_and_every_gradient_is_finite(network, observations):
    cast = precision("bf16").cast_to_compute(network)
    sizes, logits = sizes_of_gradient(cast, observations)
    assert logits.shape == (8, SPEC.num_actions)
    assert logits.dtype == jnp.float32
    for path, size in jax.tree.leaves_with_path(parameters_of(sizes)):
        assert np.isfinite(size), jax.tree_util.keystr(path)
        assert size > 0, jax.tree_util.keystr(path)


@eqx.filter_jit
def embeddings(network, observation, **numbers):
    """The embedding of each action after some numbers of the player change."""
    seen = observation.numbers
    for name, number in numbers.items():
        seen = seen.at[Number[name]].set(number)
    changed = eqx.tree_at(lambda observation: observation.numbers, observation, seen)
    width = network.heads.query.weight.shape[0]
    return network.trunk(changed, ())[0][width:].reshape(SPEC.num_actions, -1)


def test_a_direction_is_the_cell_beside_the_player(network, observations):
    one = jax.tree.map(lambda leaf: leaf[0], observations)
    embedded = np.asarray(embeddings(network, one, ROW=0, COL=0))
    down, left = embedded[1], embedded[2]
    np.testing.assert_array_equal(down, left)  # both off the board: no cell, only the bias
    np.testing.assert_array_equal(down, network.embeddings.of_cell.bias)
    for other in (0, 3, SIPHON):
        assert np.abs(embedded[other] - down).max() > 1e-3


def test_the_embedding_of_a_program_reads_whether_it_is_affordable():
    resnet = build_network("resnet", SPEC, width=8, depth=2, key=KEY)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), SPEC.observation)
    change = embeddings(resnet, nothing, CREDITS=3) - embeddings(resnet, nothing)
    moved = np.abs(np.asarray(change)).max(axis=1)[FIRST_PROGRAM:] > 1e-6
    # Three credits pay for these; the others also need energy, or more.
    names = {program.name for program in Program if moved[program]}
    assert names == {"DEBUG", "UNDO", "SHOW", "D_BOM", "ANTI_V"}


def test_without_its_places_attention_does_not_know_the_order_of_cells():
    transformer = build_network("transformer", SPEC, width=8, depth=1, key=KEY)
    block = jax.tree.map(lambda leaf: leaf[0], transformer.blocks)
    tokens = jax.random.normal(KEY, (5, 8), jnp.float32)
    order = np.array([3, 1, 4, 0, 2])
    np.testing.assert_allclose(block(tokens)[order], block(tokens[order]), rtol=1e-4, atol=1e-5)
    assert np.abs(np.asarray(block(tokens)[0] - block(tokens[:2])[0])).max() > 1e-4


def test_a_width_that_is_no_multiple_of_the_heads_is_an_error():
    with pytest.raises(ValueError, match="width 6 is not a multiple of heads, 4"):
        build_network("transformer", SPEC, width=6, key=KEY)
