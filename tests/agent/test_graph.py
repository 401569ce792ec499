"""The network over vertices and edges: boards of every size, and vertices without an order."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training.narrow import narrow_arithmetic, narrow_products
from training.states import assert_close

import hackmatrix_rl as hm
from hackmatrix_rl.agent.networks import build_network, evaluator_of, rematerialized
from hackmatrix_rl.agent.networks._graph import AttentionPool, MessageBlock, state_features
from hackmatrix_rl.agent.precision import precision, products
from hackmatrix_rl.env import CliqueObservation, VertexPermutations
from hackmatrix_rl.games.clique import edges

KEY = jax.random.key(0)


def spec_of(vertices):
    return hm.Batched(hm.CliqueGame(hm.CliqueConfig(vertices, 3))).spec


def loud(network):
    """The network with large weights in its heads, and biases that are not 0."""

    def louder(path, leaf):
        if not eqx.is_inexact_array(leaf):
            return leaf
        name = jax.tree_util.keystr(path)
        noise = 0.3 * jax.random.normal(jax.random.key(len(name)), leaf.shape, jnp.float32)
        gain = 30.0 if ".heads.policy" in name or ".pool.score" in name else 1.0
        return gain * leaf + noise

    return jax.tree_util.tree_map_with_path(louder, network)


def network_of(vertices=6, **sizes):
    return loud(hm.GraphActorCritic(spec_of(vertices), **{"width": 16, "key": KEY, **sizes}))


def positions(vertices, count, seed=0):
    """Boards with edges of both colours, at random."""
    draw = np.random.default_rng(seed)
    colour = draw.integers(0, 3, (count, vertices * (vertices - 1) // 2))
    first = jnp.asarray(draw.random(count) < 0.5)
    return CliqueObservation(jnp.asarray(colour == 0), jnp.asarray(colour == 1), first)


@eqx.filter_jit
def evaluate(network, observations):
    return jax.vmap(lambda seen: network(seen, ())[:2])(observations)


def assert_blind_to_numbers(network, vertices):
    """Renumbered vertices renumber the logits, and change no value."""
    seen = positions(vertices, 16)
    keys = jax.random.split(jax.random.key(vertices), 16)
    changed = jax.vmap(lambda one, key: VertexPermutations(vertices)(one, key=key))(seen, keys)
    logits, value = evaluate(network, seen)
    other_logits, other_value = evaluate(network, changed.observation)
    expected = jax.vmap(lambda change, each: change.of_each(each))(changed, logits)
    np.testing.assert_allclose(other_logits, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(other_value, value, rtol=1e-4, atol=1e-4)
    # The test would notice: the outputs differ between edges and between positions.
    assert np.std(logits, axis=1).min() > 0.1
    assert np.abs(np.asarray(other_logits - logits)).max() > 0.1
    assert np.std(value) > 0.01


@pytest.mark.parametrize("vertices", [5, 7])
def test_numbers_of_vertices_mean_nothing(vertices):
    assert_blind_to_numbers(network_of(), vertices)


def one_sided(self, states):
    """A state reads the mean message of its first end only."""
    return states + self.ends.full(jnp.mean(states, axis=1))[:, None]


def one_edge(self, states):
    """Every state reads that of the edge between the vertices 0 and 1."""
    return states + self.own.full(states[0, 1])[None, None]


@pytest.mark.nightly
@pytest.mark.parametrize("mutant", [one_sided, one_edge])
def test_an_update_that_prefers_an_end_or_an_edge_is_noticed(monkeypatch, mutant):
    monkeypatch.setattr(MessageBlock, "__call__", mutant)
    jax.clear_caches()
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_blind_to_numbers(network_of(), 5)


def test_a_position_of_three_vertices_becomes_the_features_of_its_vertices_and_edges():
    one, two = np.array([True, False, False]), np.array([False, False, True])
    seen = CliqueObservation(jnp.asarray(one), jnp.asarray(two), jnp.bool_(True))
    own, other, free, vertex = np.float32(np.eye(4))
    by_hand = np.array([[vertex, own, free], [own, vertex, other], [free, other, vertex]])
    features = np.asarray(state_features(seen))
    np.testing.assert_array_equal(features[..., :4], by_hand)
    assert features[..., 4].all()


def test_a_block_of_width_one_is_that_of_the_equations():
    block = MessageBlock(1, gain=1.0, key=KEY)
    block = jax.tree.map(lambda leaf: jnp.ones_like(leaf), block)
    states = np.float32([[1, 2, -3], [2, -1, 4], [-3, 4, 2]])
    # The norm of one number is its sign; message and own add a bias of 1.
    sign = np.sign(states)
    message = np.maximum(sign + 1, 0)
    ends = message.mean(axis=1) + 1
    read = (sign + 1) + (message @ message + 1) + ends[:, None] + ends[None, :]
    expected = states + np.maximum(read, 0) + 1
    np.testing.assert_allclose(block(jnp.asarray(states)[..., None])[..., 0], expected, rtol=1e-4)


def test_the_pool_is_a_mean_by_the_softmax_of_the_scores():
    pool = AttentionPool(4, 2, key=KEY)
    states = jax.random.normal(KEY, (3, 4), jnp.float32)
    scores = np.asarray(states) @ np.asarray(pool.score.weight)
    weights = np.exp(scores) / np.exp(scores).sum(axis=0)
    values = np.maximum(np.asarray(states) @ np.asarray(pool.value.weight), 0)
    expected = [weights[:, 0] @ values[:, :2], weights[:, 1] @ values[:, 2:]]
    np.testing.assert_allclose(pool(states), np.concatenate(expected), rtol=1e-4)


def test_an_edge_sees_whether_it_closes_a_triangle():
    # Edge 0-1, and two own edges: with a vertex in common, or without.
    where = {tuple(map(int, ends)): number for number, ends in enumerate(edges(5))}

    def with_own(*pairs):
        own = jnp.zeros(10, bool).at[jnp.array([where[pair] for pair in pairs])].set(True)
        return CliqueObservation(own, jnp.zeros(10, bool), jnp.bool_(True))

    closes, open_ = with_own((0, 2), (1, 2)), with_own((0, 2), (1, 3))
    network = network_of(5, depth=1)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), closes, open_)
    there = evaluate(network, both)[0][:, where[0, 1]]
    assert abs(float(there[0] - there[1])) > 0.01


def test_one_set_of_weights_plays_boards_of_every_size():
    network = network_of(6)
    for vertices in (6, 8, 10):
        logits, value = evaluate(network, positions(vertices, 3))
        assert logits.shape == (3, vertices * (vertices - 1) // 2)
        assert np.isfinite(logits).all()
        assert np.isfinite(value).all()
        hm.check_policy(network, spec_of(vertices))
        other = hm.GraphActorCritic(spec_of(vertices), width=16, key=KEY)
        assert_close(other, hm.GraphActorCritic(spec_of(6), width=16, key=KEY), rtol=0, atol=0)


def slopes(policy, observations, make=evaluator_of):
    @eqx.filter_jit
    @eqx.filter_grad
    def of(policy, observations):
        steps = jax.tree.map(lambda leaf: leaf[None], observations)
        done = jnp.zeros((1, observations.first.size), bool)
        logits, value = make(policy).unroll(steps, (), done)
        return jnp.mean(jnp.sin(logits)) + jnp.mean(value**2)

    return of(policy, observations)


def test_every_weight_has_a_finite_gradient_and_blocks_can_be_recomputed():
    network, seen = network_of(), positions(6, 8)
    plain = slopes(network, seen)
    for leaf in jax.tree.leaves(plain):
        assert np.isfinite(leaf).all()
        assert np.abs(leaf).max() > 0
    again = slopes(network, seen, lambda policy: rematerialized(policy, "blocks"))
    assert_close(again, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "dtype"), [("bf16", jnp.bfloat16), ("f16", jnp.float16)])
def test_each_product_is_computed_in_the_dtype_of_the_weights(name, dtype):
    network, spec = network_of(), spec_of(6)

    def call(network, observation):
        return precision(name).cast_to_compute(network)(observation, ())[:2]

    program, made, _ = eqx.filter_make_jaxpr(call)(network, spec.observation)
    assert {leaf.dtype for leaf in jax.tree.leaves(made)} == {jnp.dtype("float32")}
    assert {each for pair in products(program) for each in pair} == {jnp.dtype(dtype)}
    seen = positions(6, 8)
    logits, value = evaluate(network, seen)
    near_logits, near_value = evaluate(precision(name).cast_to_compute(network), seen)
    np.testing.assert_allclose(near_logits, logits, atol=0.1 * float(np.abs(logits).max()))
    np.testing.assert_allclose(near_value, value, atol=0.1 * float(np.abs(value).max()))


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_all_but_its_layers_is_float32(name):
    seen = jax.tree.map(lambda leaf: leaf[None], positions(4, 2))

    def loss(network):
        logits, value = evaluator_of(network).unroll(seen, (), jnp.zeros((1, 2), bool))
        return jnp.mean(logits**2) + jnp.mean(value**2), ()

    program, _, _ = eqx.filter_make_jaxpr(precision(name).grad(loss))(network_of(4))
    assert narrow_arithmetic(program) == set()
    assert narrow_products(program) >= 10  # the layers, one block and the heads


def test_the_first_policy_is_nearly_uniform():
    network = hm.GraphActorCritic(spec_of(6), key=KEY)
    logits, value = evaluate(network, positions(6, 8))
    assert np.abs(logits).max() < 0.1
    assert np.abs(value).max() < 3


def test_what_it_cannot_read_is_refused_by_name():
    for environment in (hm.CartPole(), hm.HackMatrix()):
        with pytest.raises(ValueError, match=r"only the clique game \(hm.CliqueGame\)") as error:
            build_network("graph", environment.spec, key=KEY)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="width 6 is not a multiple of heads, 4"):
        hm.GraphActorCritic(spec_of(6), width=6, key=KEY)
