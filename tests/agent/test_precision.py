import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agent import probes
from agent.builders import ON_ANY_BOARD
from hackmatrix_rl.agent.networks import build_network, evaluator_of
from hackmatrix_rl.agent.precision import (
    LossScale,
    NonTrainable,
    PrecisionPolicy,
    parameter_paths,
    parse_parts,
    precision,
)

pytestmark = pytest.mark.smoke

F32, BF16, F16 = (jnp.dtype(name) for name in ("float32", "bfloat16", "float16"))
BOARD = probes.Probe({}, board=True).spec
MLP = build_network("mlp", BOARD, width=8, key=jax.random.key(0))


class Module(eqx.Module):
    weight: jax.Array
    steps: jax.Array
    key: jax.Array
    table: NonTrainable
    seen: NonTrainable
    name: str


def module() -> Module:
    weight = jnp.array([1.0, 2.0, 1.001], jnp.float32)
    statistic = NonTrainable(jnp.full((3,), 1.001, jnp.float32))
    table = NonTrainable(np.ones(3, np.float32))
    return Module(weight, jnp.int32(3), jax.random.key(0), table, statistic, "mine")


def test_only_parameters_are_cast():
    cast = precision("bf16").cast_to_compute(module())
    assert cast.weight.dtype == BF16
    assert cast.steps.dtype == jnp.int32
    assert cast.key.dtype == module().key.dtype
    assert cast.table.value.dtype == F32
    assert cast.seen.value.dtype == F32
    assert cast.name == "mine"


@pytest.mark.parametrize(("name", "compute"), [("f32", F32), ("bf16", BF16), ("f16", F16)])
def test_gradients_come_in_the_dtype_of_the_parameters(name, compute):
    seen = []

    def loss(m, scale):
        seen.append(m.weight.dtype)
        return scale * jnp.sum(m.weight.astype(jnp.float32) ** 2), {"dtype": m.weight}

    policy = precision(name)
    gradient, aux = policy.grad(loss, policy.initial_scaling())(module(), jnp.float32(0.25))
    assert set(seen) == {compute}
    assert gradient.weight.dtype == F32
    assert aux["dtype"].dtype == compute
    np.testing.assert_allclose(gradient.weight, 0.5 * module().weight, rtol=0.01)


@pytest.mark.parametrize("policy", [precision("f16"), precision("bf16", {".weight": "f16"})])
def test_float16_anywhere_brings_a_loss_scale(policy):
    scaling = policy.initial_scaling()
    assert isinstance(scaling, LossScale)
    assert policy.report(scaling) == {"loss_scale": 2.0**15}
    assert policy.adjust(scaling, jnp.array(False)).scale == 2.0**14


@pytest.mark.parametrize(
    "name",
    [
        "params=float32,compute=bfloat16,output=float32",
        "p=f32,c=bf16,o=f32",
        "compute=bfloat16,output=float32",
        " compute = bf16, output = full ",
    ],
)
def test_a_policy_of_jmp_with_float32_parameters_will_do(name):
    assert precision(name) == precision("bf16")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("f8", "unknown; use f32, bf16, f16, or a policy of jmp"),
        ("bfloat16", r"unknown.*Did you mean bf16\?"),
        ("float16", r"unknown.*Did you mean f16\?"),
        ("full", r"unknown.*Did you mean f32\?"),
        ("half", "'half' is float16 on a CPU or GPU and bfloat16 on a TPU"),
        ("params=bfloat16,compute=bfloat16,output=float32", "parameters must be float32"),
        # jmp reads the output of this as bfloat16.
        ("params=float32,compute=bfloat16", "use output=float32"),
        ("params=float32,compute=bfloat16,output=bfloat16", "use output=float32"),
        ("params=float32", "does not set compute"),
        ("params=float32,compute=half,output=float32", "'half' cannot be used for compute"),
        ("params=float32,compute=float64,output=float32", "'float64' cannot be used"),
        ("compute=bf16,compute=f32,output=f32", "names compute twice"),
        ("input=f32,compute=f32", "'input' is none of"),
        ("compute", "unknown"),
        ("compute=bf16=f32,output=f32", "'bf16=f32' cannot be used"),
    ],
)
def test_what_is_no_precision_is_a_clear_error(name, says):
    with pytest.raises(ValueError, match=says):
        precision(name)


def test_a_part_is_computed_in_a_dtype_of_its_own_and_of_several_patterns_the_last_counts():
    policy = precision("bf16", {".heads.value*": "f32", ".layers[0]*": "f16"})
    policy.check(MLP)
    cast = policy.cast_to_compute(MLP)
    assert cast.heads.value.weight.dtype == cast.heads.value.bias.dtype == F32
    assert cast.heads.policy.weight.dtype == BF16
    assert cast.layers[0].weight.dtype == F16
    assert cast.layers[1].weight.dtype == BF16

    for table, expected in (
        ({".heads*": "f32", "*.weight": "f16"}, F16),
        ({"*.weight": "f16", ".heads*": "f32"}, F32),
    ):
        cast = precision("bf16", table).cast_to_compute(MLP)
        assert cast.heads.value.weight.dtype == expected


@pytest.mark.parametrize("name", ON_ANY_BOARD)
def test_where_dtypes_change_between_layers_activations_are_cast(name):
    network = build_network(name, BOARD, width=8, key=jax.random.key(0))
    # Every layer in turn in another dtype than its neighbours.
    layers = dict.fromkeys(path.rpartition(".")[0] for path in parameter_paths(network))
    for layer in filter(None, layers):
        policy = precision("bf16", {f"{layer}.*": "f32"})
        policy.check(network)

        def loss(network):
            seen = jnp.ones((5, 2, 4), jnp.float32)
            carry = jax.vmap(lambda _: network.initial_carry())(jnp.arange(2))
            logits, value = evaluator_of(network).unroll(seen, carry, jnp.zeros((5, 2), bool))
            assert logits.dtype == value.dtype == F32
            return jnp.mean(logits**2) + jnp.mean(value**2), ()

        gradient, _ = eqx.filter_eval_shape(policy.grad(loss), network)
        assert {leaf.dtype for leaf in jax.tree.leaves(gradient)} == {F32}


@pytest.mark.parametrize("pattern", [".head.value*", ".layers[9]*", ".heads.value", "heads*"])
def test_a_pattern_that_matches_nothing_is_named_with_what_there_is(pattern):
    with pytest.raises(ValueError, match=r"matches no parameter.*\.layers\[0\]\.weight") as error:
        precision("bf16", {pattern: "f32"}).check(MLP)
    assert repr(pattern) in str(error.value)


def test_parameters_must_be_float32_and_a_table_of_parts_is_read_from_text():
    narrow = eqx.tree_at(lambda m: m.weight, module(), jnp.ones(3, jnp.bfloat16))
    with pytest.raises(ValueError, match=r"\.weight is bfloat16"):
        precision("f32").check(narrow)
    precision("f32").check(module())
    jmp_policy = "params=float32,compute=bfloat16,output=float32"
    text = f".heads.value*=f32, .layers[0]*={jmp_policy},*.bias = f16"
    assert parse_parts(text) == {".heads.value*": "f32", ".layers[0]*": jmp_policy, "*.bias": "f16"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (".heads.value*", "not pattern=policy"),
        ("=f32", "not pattern=policy"),
        ("", "not pattern=policy"),
        (".heads*=f32,", "not pattern=policy"),
        (".heads*=f32,.heads*=bf16", "is given twice"),
        (".heads*=f8", "unknown"),
    ],
)
def test_a_table_of_parts_that_cannot_be_meant_is_an_error(text, says):
    with pytest.raises(ValueError, match=says):
        parse_parts(text)


def test_a_policy_of_ones_own_says_how_to_cast_and_no_more():
    class Fixed(PrecisionPolicy):
        def cast_to_compute(self, module):
            return eqx.tree_at(lambda m: m.weight, module, module.weight.astype(jnp.bfloat16))

    policy = Fixed()
    policy.check(module())
    assert policy.initial_scaling() == ()

    def loss(m):
        return jnp.sum(m.weight.astype(jnp.float32)), m.weight.dtype

    gradient, dtype = policy.grad(loss)(module())
    assert dtype == BF16
    np.testing.assert_array_equal(gradient.weight, 1.0)


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
