"""However a device computes a batch, the results are the same."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, use_abstract_mesh

from hackmatrix_rl.system.batching import (
    avoids_rounds,
    computed_once,
    is_dense,
    nth_bit,
    one_round_loop,
    read_row,
    settled,
    size_of,
    sparse_cond,
    sparse_while_loop,
    write_row,
)
from hackmatrix_rl.system.batching._device import buffer_width
from system.batching.devices import traced_as_on

pytestmark = pytest.mark.smoke


def halve(loop, **how):
    return lambda number: loop(lambda n, _: n > 1, lambda n, _: n // 2, number, (), **how)


LOOPS = {
    "while": (halve(sparse_while_loop, shares=(1, 8)), lambda n: np.minimum(n, 1)),
    "one round": (halve(one_round_loop, share=8), lambda n: np.minimum(n, 1)),
    "cond": (
        lambda number: sparse_cond(number > 3, lambda n, _: n * 2, number, (), share=8),
        lambda n: np.where(n > 3, 2 * n, n),
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_over_all_games_gives_what_buffers_give(name):
    loop, expected = LOOPS[name]
    numbers = jnp.arange(64, dtype=jnp.int32)
    run, programs = jax.vmap(loop), {}
    for platform in ("cpu", "tpu", "gpu"):
        with traced_as_on(platform):
            programs[platform] = str(jax.make_jaxpr(run)(numbers))
            np.testing.assert_array_equal(jax.jit(run)(numbers), expected(np.arange(64)))
    assert re.search(r"\bgather\b", programs["cpu"])
    assert "scatter" in programs["cpu"]
    for platform in ("tpu", "gpu"):
        assert not re.search(r"\bgather\b|scatter", programs[platform])
    assert ("while[" in programs["gpu"]) == (name != "cond")


@pytest.mark.parametrize("platform", ["cpu", "tpu", "gpu"])
def test_a_gpu_asks_the_host_neither_for_searches_nor_for_barriers(platform):
    def search(start):
        more, step = (lambda n: n < 7), (lambda n: jnp.minimum(n + 2, 7))
        return settled(more, step, computed_once(lambda n: n - 1, start), rounds=4)

    numbers = jnp.arange(8, dtype=jnp.int32)
    with traced_as_on(platform):
        assert ("while[" in str(jax.make_jaxpr(jax.vmap(search))(numbers))) == (platform != "gpu")
        np.testing.assert_array_equal(jax.jit(jax.vmap(search))(numbers), np.full(8, 7))


@pytest.mark.parametrize(
    ("platform", "widths"), [("cpu", [64, 512, 8192]), ("tpu", [512, 4096, 65536]),
                             ("gpu", [512, 4096, 8192])],
)  # fmt: skip
def test_a_gpu_has_buffers_only_for_thousands_of_games(platform, widths):
    with traced_as_on(platform):
        assert [buffer_width(size, 8) for size in (512, 4096, 65536)] == widths


def test_a_gpu_gathers_where_a_buffer_is_wide_enough():
    numbers = jnp.arange(1 << 14, dtype=jnp.int32)
    for loop, expected in LOOPS.values():
        with traced_as_on("gpu"):
            assert "scatter" in str(jax.make_jaxpr(jax.vmap(loop))(numbers))
            np.testing.assert_array_equal(jax.jit(jax.vmap(loop))(numbers), expected(numbers))


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_a_set_bit_is_found_by_its_index_and_set_bits_are_counted(platform):
    words = np.random.default_rng(0).integers(1, 2**32, 64, dtype=np.uint32)
    words[:5] = 0, 1, 1 << 31, 0xFFFFFFFF, 0xA5000050
    places = [[n for n in range(32) if int(word) >> n & 1] for word in words]
    with traced_as_on(platform):
        found = jax.jit(jax.vmap(jax.vmap(nth_bit, (None, 0)), (0, None)))(words, jnp.arange(33))
    for row, each in zip(found, places, strict=True):
        np.testing.assert_array_equal(row, each + [32] * (33 - len(each)))
    assert size_of(jnp.asarray(words)).tolist() == [*map(len, places)]


def test_a_loop_can_ask_for_buffers_everywhere():
    def double(number):
        return sparse_cond(number > 3, lambda n, _: n * 2, number, (), share=8, gather=True)

    numbers = jnp.arange(64, dtype=jnp.int32)
    with traced_as_on("tpu"):
        assert "scatter" in str(jax.make_jaxpr(jax.vmap(double))(numbers))
        np.testing.assert_array_equal(
            jax.vmap(double)(numbers), np.where(numbers > 3, 2 * numbers, numbers)
        )


@pytest.mark.parametrize(
    ("kind", "dense", "few_rounds"),
    [("cpu", False, False), ("TPU v4", True, False), ("NVIDIA H100 80GB HBM3", True, True)],
)
def test_a_program_is_traced_for_the_devices_of_its_mesh_each_time(kind, dense, few_rounds):
    @jax.jit
    def zeros():
        return jnp.zeros((1 if is_dense() else 2, 1 if avoids_rounds() else 2))

    # JAX 0.8.1 has no third field, the platform: it is read from the kind.
    fields = len(dataclasses.fields(jax.sharding.AbstractDevice))
    device = jax.sharding.AbstractDevice(*(kind, None, "unread")[:fields])
    assert zeros().shape == (2, 2)
    with use_abstract_mesh(AbstractMesh((1,), ("data",), abstract_device=device)):
        assert jax.eval_shape(zeros).shape == (2 - dense, 2 - few_rounds)
    assert zeros().shape == (2, 2)


def test_rows_of_all_games_are_read_and_written_as_those_of_each():
    tables = jnp.arange(5 * 3 * 2, dtype=jnp.uint32).reshape(5, 3, 2)
    numbers = jnp.array([0, 2, 1, 3, 2], jnp.int32)  # 3 is one too many: nothing is written
    rows = jnp.arange(100, 110, dtype=jnp.uint32).reshape(5, 2)
    written = jax.vmap(write_row)(tables, numbers, rows)
    expected = np.array(tables)
    for game, number in enumerate(numbers):
        if number < 3:
            expected[game, number] = rows[game]
    np.testing.assert_array_equal(written, expected)
    np.testing.assert_array_equal(
        np.stack([write_row(*each) for each in zip(tables, numbers, rows, strict=True)]), expected
    )
    read = jax.vmap(read_row)(written, jnp.minimum(numbers, 2))
    np.testing.assert_array_equal(read, expected[np.arange(5), np.minimum(numbers, 2)])
