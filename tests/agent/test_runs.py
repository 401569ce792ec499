"""Linear maps of rows that repeat, and the network that uses them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent import Batch, MLPActorCritic, PPOLoss
from hackmatrix_rl.agent.lasting import split_features
from hackmatrix_rl.agent.runs import product_of_runs, starts_of_runs
from hackmatrix_rl.env import CartPole, CompactObservation, HackMatrix
from hackmatrix_rl.training.debug import CheckedLoss, Reports

# Of 37 rows, how many begin a run: the only one, some, more than fit into one chunk, all.
STARTS = {"one": [0], "some": [0, 3, 20, 21], "many": range(0, 37, 2), "all": range(37)}


def rows_with(starts):
    number = jnp.cumsum(jnp.zeros(37, jnp.int32).at[np.array(starts)].set(1), dtype=jnp.int32)
    return {"digits": jnp.stack([number // place % 4 for place in (16, 4, 1)], axis=1)}


def encode(row):
    hot = jax.nn.one_hot(row["digits"], 4, dtype=jnp.float32)
    return jnp.concatenate([hot.ravel(), row["digits"].astype(jnp.float32)])


@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_product_and_its_gradient_are_those_of_every_row_alone(starts, dtype):
    rows = rows_with(starts)
    weight = jax.random.normal(jax.random.key(0), (15, 5), jnp.float32).astype(dtype)
    change = jax.random.normal(jax.random.key(1), (37, 5), jnp.float32)
    found = starts_of_runs(rows)
    np.testing.assert_array_equal(np.flatnonzero(found), list(starts))

    def of_runs(weight):
        return product_of_runs(encode, rows, found, weight)

    def of_rows(weight):
        return jax.vmap(encode)(rows).astype(dtype) @ weight

    def total(product):
        return lambda weight: jnp.sum(product(weight).astype(jnp.float32) * change)

    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == jnp.float32 else {"rtol": 2e-2, "atol": 0.1}
    assert of_runs(weight).dtype == dtype
    for one, other in (
        (of_runs(weight), of_rows(weight)),
        (jax.grad(total(of_runs))(weight), jax.grad(total(of_rows))(weight)),
    ):
        np.testing.assert_allclose(one.astype(np.float32), other.astype(np.float32), **close)


def test_of_a_run_the_first_row_alone_is_encoded():
    rows = jnp.arange(6, dtype=jnp.int32)
    starts = jnp.array([True, False, False, True, True, False])
    product = product_of_runs(
        lambda row: row[None].astype(jnp.float32), rows, starts, jnp.ones((1, 1), jnp.float32)
    )
    assert product[:, 0].tolist() == [0, 0, 0, 3, 4, 4]


@pytest.fixture(scope="module")
def spec():
    return HackMatrix().spec


def observations(steps, games):
    """Of boards that stay for some steps, with all else drawn anew at each."""
    draw = np.random.default_rng(0)
    shape = (steps, games)
    board = draw.integers(0, 2**18, (*shape, 36)) * draw.integers(0, 2, (*shape, 36))
    stays = draw.integers(0, 4, shape) > 0
    for step in range(1, steps):
        board[step] = np.where(stays[step][:, None], board[step - 1], board[step])
    rest = draw.integers(0, 2**14, (*shape, 36)) << 18
    return CompactObservation(
        numbers=jnp.asarray(draw.integers(0, 6, (*shape, 12)), jnp.int32),
        programs=jnp.asarray(draw.integers(0, 2**23, shape), jnp.uint32),
        grid=jnp.asarray(board | rest, jnp.uint32),
    )


def test_the_two_parts_of_the_features_are_all_of_them(spec):
    split = split_features(spec.encode)
    one = jax.tree.map(lambda leaf: leaf[0, 0], observations(1, 1))
    every = np.asarray(spec.encode(one).ravel())
    lasting, others = split.columns(one)
    np.testing.assert_array_equal(split.lasting(one), every[lasting])
    np.testing.assert_array_equal(split.others(one), every[others])
    assert lasting.size > 2 * others.size
    # What lasts is decided by what is said to decide it.
    bare = eqx.tree_at(lambda seen: seen.grid, one, split.seen(one))
    np.testing.assert_array_equal(split.lasting(bare), every[lasting])


def test_the_network_gives_and_learns_the_same_as_step_by_step(spec):
    policy = MLPActorCritic(spec, width=32, key=jax.random.key(0))
    seen, done = observations(20, 3), jnp.zeros((20, 3), bool)
    boards = jnp.swapaxes(split_features(spec.encode).seen(seen), 0, 1)
    assert 10 < starts_of_runs(boards.reshape(60, 36)).sum() < 40

    def unrolled(policy):
        return policy.unroll(seen, (), done)

    def one_by_one(policy):
        return jax.vmap(jax.vmap(lambda one: policy(one, ())[:2]))(seen)

    def gradient(evaluate):
        def total(policy):
            logits, value = evaluate(policy)
            return jnp.mean(logits**2) + jnp.mean(value**2)

        return eqx.filter_jit(eqx.filter_grad(total))(policy)

    def check(one, other):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)

    jax.tree.map(check, unrolled(policy), one_by_one(policy))
    jax.tree.map(check, gradient(unrolled), gradient(one_by_one))


def test_under_debug_checks_the_gradient_is_the_same(spec):
    policy = MLPActorCritic(spec, width=8, key=jax.random.key(0))
    number = jnp.ones((5, 2), jnp.float32)
    batch = Batch(
        observation=observations(5, 2),
        mask=jnp.ones((5, 2, spec.num_actions), bool),
        action=jnp.zeros((5, 2), jnp.int32),
        log_prob=-3 * number,
        value=number,
        done=number > 1,
        initial_carry=(),
        advantage=number,
        value_target=number,
    )

    def gradient(loss):
        return eqx.filter_jit(eqx.filter_grad(loss, has_aux=True))(policy, batch)[0]

    def check(one, other):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)

    loss = PPOLoss(normalize_advantage=False)
    jax.tree.map(check, gradient(loss), gradient(CheckedLoss(loss, "checks", Reports())))


def test_of_other_environments_nothing_is_known_to_last(spec):
    assert split_features(spec.encode) is not None
    for other in (CartPole(), HackMatrix(observation="classic")):
        assert split_features(other.spec.encode) is None
