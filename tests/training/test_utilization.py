"""The operations of a training's products, and the share of the devices' peak that they use."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.self_play import Gate, PlayoutCap, Search, SelfPlay
from hackmatrix_rl.algorithms.supervised import AnswerNetwork, Puzzle, Supervised
from hackmatrix_rl.env import Batched
from hackmatrix_rl.games.clique import CliqueConfig
from hackmatrix_rl.games.puzzles import sudokus
from hackmatrix_rl.system import ACCELERATORS, GPUS, peak_flops
from hackmatrix_rl.system._targets import _GENERATIONS
from hackmatrix_rl.system.batching import taken
from hackmatrix_rl.training import Utilization
from hackmatrix_rl.training.compiled import operations, operations_of_update

ENV = hm.CartPole()
F32, BF16 = jnp.dtype("float32"), jnp.dtype("bfloat16")
SQUARE = jax.ShapeDtypeStruct((4, 4), jnp.float32)
ONE = 2 * 4**3
"""Operations of the product of two such matrices."""


def count(function, *shapes):
    return operations(jax.jit(function).trace(*(shapes or [SQUARE])).jaxpr)


def devices(kind, number=1, platform="gpu"):
    one = SimpleNamespace(device_kind=kind, platform=platform, process_index=0)
    return [one] * number


def scanned(a):
    return jax.lax.scan(lambda carry, _: (carry @ a, None), a, length=5)[0]


def either(a):
    return jax.lax.cond(a.sum() > 0, lambda: a @ a @ a, lambda: a @ a)


def seldom(a):
    with taken(0.25):
        return either(a)


def never(a):
    with taken(0):
        return jax.lax.while_loop(lambda x: x.sum() > 0, lambda x: x @ a, a)


def by_platform(a):
    def some(a):
        return jax.lax.while_loop(lambda x: x.sum() > 0, lambda x: x @ a, a)

    return jax.lax.platform_dependent(a, cpu=some, default=lambda a: a @ a)


def on_two_devices(a):
    cut = PartitionSpec("data")
    return jax.shard_map(lambda a: a @ a.T, mesh=hm.mesh("data=2"), in_specs=cut, out_specs=cut)(a)


def counted_whiles(a):
    return jax.lax.fori_loop(0, a[0, 0].astype(jnp.int32), lambda _, x: x @ a, a)


def of_integers(a):
    return a.astype(jnp.int32) @ a.astype(jnp.int32)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda a: a @ a, ONE),
        (jax.value_and_grad(lambda a: (a @ a).sum()), 3 * ONE),
        (jax.vmap(lambda row: row @ row), 4 * 2 * 4),
        (scanned, 5 * ONE),
        (either, 2 * ONE),
        (seldom, (0.25 * 2 + 0.75) * ONE),
        (never, 0),
        (lambda a: jax.vmap(never)(a[None]), 0),
        (by_platform, ONE),
        (on_two_devices, 2 * 2 * 2 * 2 * 4),
        (counted_whiles, None),
        (lambda a: a + 1.0, 0),
        (of_integers, 0),
    ],
)
def test_operations_are_those_of_the_products(function, found):
    assert count(function) == (None if found is None else {F32: found} if found else {})


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_counts_what_is_no_padding_and_its_gradient_as_much(stride):
    def convolve(image, kernel):
        return jax.lax.conv_general_dilated(image, kernel, (stride, stride), "SAME")

    image = jax.ShapeDtypeStruct((5, 3, 6, 6), jnp.float32)
    kernel = jax.ShapeDtypeStruct((7, 3, 3, 3), jnp.float32)
    # Along an axis of 6, the places of the kernel that lie within: 3 each, less what lies outside.
    places = {1: 6 * 3 - 2, 2: 3 * 3 - 1}[stride]
    forward = 2 * 5 * 7 * 3 * places**2
    assert count(convolve, image, kernel) == {F32: forward}
    both = jax.value_and_grad(lambda *given: convolve(*given).sum(), argnums=(0, 1))
    assert count(both, image, kernel) == {F32: 3 * forward}


def test_the_wider_of_two_formats_is_multiplied():
    narrow = jax.ShapeDtypeStruct((4, 4), BF16)
    assert count(lambda a: a @ a, narrow) == {BF16: ONE}
    mixed = count(partial(jax.lax.dot, preferred_element_type=F32), narrow, SQUARE)
    assert mixed == {F32: ONE}


NUM_ENVS, NUM_STEPS, EPOCHS = 4, 8, 4
LAYERS = ((4, 16), (16, 16), (16, 2), (16, 1))
"""The matrices of a network of CartPole: two hidden layers, the policy and the value."""


def ppo(**changes):
    policy = hm.MLPActorCritic(ENV.spec, width=16, depth=2, key=jax.random.key(0))
    sizes = {"num_envs": NUM_ENVS, "num_steps": NUM_STEPS, "num_minibatches": 2}
    return hm.PPO(ENV, policy, **sizes, update_epochs=EPOCHS, **changes)


def of_update(algorithm):
    return operations_of_update(hm.Trainer(algorithm).trace().jaxpr)


def by_hand():
    forward = sum(2 * rows * columns for rows, columns in LAYERS)
    first = 2 * 4 * 16
    # The gradient of a layer is two products: by its weight, and by its input, if that needs one.
    learning = 3 * forward - first
    # The value of the observation after the last step is one call more in each environment.
    return NUM_ENVS * ((NUM_STEPS + 1) * forward + EPOCHS * NUM_STEPS * learning)


@pytest.mark.parametrize(
    ("make", "times"),
    [
        (ppo, 1),
        (lambda: ppo(grad_accum=2), 1),
        (lambda: ppo(mesh=hm.mesh("data=2")), 1),
        (lambda: hm.Population(ppo(), 3), 3),
        (lambda: hm.Population(ppo(mesh=hm.mesh("population=2")), 4), 4),
    ],
)
def test_an_update_of_ppo_is_what_is_counted_by_hand(make, times):
    assert of_update(make()) == {F32: times * by_hand()}


def test_self_play_counts_its_simulations_and_no_match():
    game = hm.CliqueGame(CliqueConfig(3, 3))
    policy = hm.MLPActorCritic(Batched(game).spec, width=8, depth=1, key=jax.random.key(0))

    def count_of(simulations, **settings):
        return of_update(SelfPlay(game, policy, search=Search(simulations), **settings))[F32]

    few, many = count_of(2), count_of(4)
    assert many > few > 0
    both = {"gate": Gate(games=2), "playout_cap": PlayoutCap(0.25, 2)}
    learning = 2 * few - many  # without a simulation: each costs the same
    assert 0 < learning < few
    assert count_of(4, **both) == 0.25 * many + 0.75 * few


def test_a_loop_without_a_fixed_number_of_rounds_has_no_count():
    examples = sudokus(4, 4, seed=0)
    spec = Batched(Puzzle(examples)).spec
    network = AnswerNetwork(spec, width=8, heads=2, key=jax.random.key(0))
    assert of_update(Supervised(examples, network, global_batch_size=4)) is None


def test_a_training_that_runs_operation_by_operation_has_no_count():
    used = hm.Trainer(ppo(), eager=True).utilization()
    assert "eager" in used.unknown
    assert used.share(2.0) is None


def test_the_peak_of_a_mixture_is_that_of_its_time():
    mesh = SimpleNamespace(devices=SimpleNamespace(flat=devices("NVIDIA H100 80GB HBM3", 2)))
    used = Utilization.of({BF16: 989.4e12, F32: 494.7e12}, mesh)
    assert used.peak == pytest.approx(2 * (989.4e12 + 494.7e12) / 2)  # a second of each, on two
    assert used.share(0.5) == pytest.approx(0.5)
    mesh.devices.flat = devices("NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    unknown = Utilization.of({F32: 1.0}, mesh)
    assert unknown.unknown == "the peak of NVIDIA H100 80GB HBM3 MIG 1g.10gb is not known"
    assert unknown.share(1.0) is None
    assert Utilization.of({}, mesh).unknown == "it has no matrix product"


@pytest.mark.parametrize(
    ("kind", "f32", "bf16"),
    [
        ("NVIDIA H100 80GB HBM3", 494.7, 989.4),
        ("NVIDIA H200", 494.7, 989.4),
        ("NVIDIA A100-SXM4-80GB", 156.0, 312.0),
        ("NVIDIA L4", 60.0, 121.0),
        ("NVIDIA GeForce RTX 4090", 82.6, 165.2),
        ("TPU v4", 275.0, 275.0),
        ("TPU v5 lite", 197.0, 197.0),
        ("TPU v5", 459.0, 459.0),
        ("TPU v6 lite", 918.0, 918.0),
        ("TPU7x", 1153.5, 1153.5),
    ],
)
def test_a_known_device_has_its_peak(kind, f32, bf16):
    platform = "tpu" if kind.startswith("TPU") else "gpu"
    for dtype, peak in ((F32, f32), (BF16, bf16), (jnp.dtype("float16"), bf16)):
        assert peak_flops(devices(kind, 8, platform), dtype) == pytest.approx(8e12 * peak)


def test_every_target_of_a_plan_has_a_peak():
    kinds = {each.kind for each in (*_GENERATIONS.values(), *GPUS.values())}
    assert kinds <= ACCELERATORS.keys()


def test_the_peak_of_a_cpu_is_measured_once():
    two = jax.devices("cpu")[:2]
    assert peak_flops(two, F32) == peak_flops(two, BF16) > 1e8
