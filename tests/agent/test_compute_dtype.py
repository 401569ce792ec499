"""Networks of Equinox layers compute in the dtype of the precision policy: the trace is read."""

import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import hackmatrix_rl as hm
from agent import probes
from agent.builders import ON_ANY_BOARD
from hackmatrix_rl.agent import check_policy_shapes
from hackmatrix_rl.agent.networks import build_network
from hackmatrix_rl.agent.precision import products
from hackmatrix_rl.env import CartPole

ROOT = Path(__file__).parents[2]
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}
KEY = jax.random.key(0)
BOARD = probes.Probe({}, board=True).spec


@pytest.fixture(autouse=True)
def promotion_of_users():
    """Mixed dtypes promote silently for users; the other tests forbid it."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def shown(place: str, name: str) -> type[hm.ActorCritic]:
    """A network's class, as a page or a script shows it."""
    text = (ROOT / place).read_text()
    code = text if place.endswith(".py") else re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (block,) = [each for each in ([code] if isinstance(code, str) else code) if name in each]
    before = block.partition("\nenv = ")[0]
    scope = {"__name__": "shown"}
    exec(compile(before, place, "exec"), scope)
    return scope[name]


SHOWN = (
    ("README.md", "TwoTowers"),
    ("examples/own_network.py", "Residual"),
    ("examples/own_memory.py", "Remembers"),
)


def test_every_network_that_pages_and_scripts_show_is_tested():
    places = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")]
    places += ROOT.glob("notebooks/*.ipynb")
    found = {
        (str(place.relative_to(ROOT)), name)
        for place in places
        for name in re.findall(r"class (\w+)\([\w.]*ActorCritic\)", place.read_text())
    }
    # The page shows two lines of it.
    assert found == {*SHOWN, ("docs/precision.md", "Standardising")}


def operands(network, spec, precision):
    """The dtypes of the products of one call."""

    def call(network, observation, carry):
        return hm.precision(precision).cast_to_compute(network)(observation, carry)

    inputs = spec.observation, network.initial_carry()
    program, made, _ = eqx.filter_make_jaxpr(call)(network, *inputs)
    assert {leaf.dtype for leaf in jax.tree.leaves(made)} == {jnp.dtype("float32")}
    return products(program)


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize(("place", "name"), SHOWN)
def test_a_network_as_shown_computes_each_product_in_the_dtype_asked_for(place, name, precision):
    for environment in (hm.HackMatrix(), CartPole()):
        network = shown(place, name)(environment.spec, width=8, key=KEY)
        check_policy_shapes(network, environment.spec, precision=hm.precision(precision))
        found = operands(network, environment.spec, precision)
        assert found
        assert {dtype for each in found for dtype in each} == {jnp.dtype(DTYPES[precision])}


@pytest.mark.parametrize("name", ON_ANY_BOARD)
def test_a_network_of_the_package_computes_each_product_in_bfloat16(name):
    found = operands(build_network(name, BOARD, width=8, key=KEY), BOARD, "bf16")
    assert {dtype for each in found for dtype in each} == {jnp.dtype(jnp.bfloat16)}


class Reads(hm.ActorCritic):
    """Reads the observation, or features; from a spec, or by a function that nobody can see."""

    layer: eqx.nn.Linear
    spec: object = eqx.field(static=True, default=None)
    within: object = None
    hidden: object = eqx.field(static=True, default=None)

    def __call__(self, observation, carry):
        if self.spec is not None:
            observation = self.spec.encode(observation).ravel()
        if self.within is not None:
            observation = self.within["encode"](observation).ravel()
        if self.hidden is not None:
            observation = self.hidden(observation)
        found = self.layer(observation)
        return found[:2], found[2], carry


LAYER = eqx.nn.Linear(4, 3, key=KEY)
SPEC = CartPole().spec


@pytest.mark.parametrize(
    "network", [Reads(LAYER), Reads(LAYER, spec=SPEC), Reads(LAYER, within={"encode": SPEC.encode})]
)
def test_what_a_network_reads_follows_its_parameters(network):
    assert operands(network, SPEC, "bf16") == [(jnp.bfloat16, jnp.bfloat16)]
    assert operands(network, SPEC, "f32") == [(jnp.float32, jnp.float32)]
    # As it is, and in numbers: bfloat16 has 8 bits.
    observation = jnp.asarray([1 + 2**-10, 0.0, 0.0, 0.0])
    cast = hm.precision("bf16").cast_to_compute(network)
    rounded, _, _ = cast(observation, ())
    exact, _, _ = cast(jnp.asarray([1.0, 0.0, 0.0, 0.0]), ())
    assert jnp.array_equal(rounded, exact)


def test_a_precision_without_effect_is_refused_with_what_to_change():
    network = Reads(LAYER, hidden=lambda seen: SPEC.encode(seen).ravel())
    hm.check_policy(network, SPEC)
    said = (
        r"Reads.__call__ \(.*test_compute_dtype.py:\d+\) .* bfloat16.*self\.encode = spec\.encode"
    )
    with pytest.raises(ValueError, match=said):
        hm.check_policy(network, SPEC, precision="bf16")
