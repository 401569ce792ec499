import re
import sys
import types
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training.states import assert_close

from agent import probes
from agent.builders import ON_ANY_BOARD
from hackmatrix_rl.agent import MaskedCategorical, RolloutCollector, start_collector
from hackmatrix_rl.agent.networks import (
    ActorCritic,
    ConvActorCritic,
    DenseInputActorCritic,
    GraphActorCritic,
    GRUActorCritic,
    LSTMActorCritic,
    MLPActorCritic,
    MPNActorCritic,
    RecurrentActorCritic,
    RecursiveNetwork,
    ResidualActorCritic,
    ResNetActorCritic,
    TransformerActorCritic,
    TrunkActorCritic,
    WithAuxiliaryHead,
    _conv,
    build_network,
    evaluator_of,
    plain_evaluator,
)
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.env import (
    CartPole,
    Environment,
    EpisodeStatistics,
    HackMatrix,
    Timestep,
    env_keys,
)

BOARD = probes.Probe({}, board=True).spec
KEY = jax.random.key(0)
FINAL = (
    MLPActorCritic,
    ConvActorCritic,
    GRUActorCritic,
    LSTMActorCritic,
    MPNActorCritic,
    ResidualActorCritic,
    ResNetActorCritic,
    TransformerActorCritic,
    RecursiveNetwork,
    GraphActorCritic,
)


@cache
def network_of(name):
    return build_network(name, BOARD, width=8, key=KEY)


@pytest.mark.parametrize("name", ON_ANY_BOARD)
def test_the_first_policy_is_nearly_uniform(name):
    network = network_of(name)
    logits, _, _ = eqx.filter_jit(network)(jnp.ones(4, jnp.float32), network.initial_carry())
    chances = MaskedCategorical(logits, jnp.ones(3, bool))
    assert chances.entropy() > 0.999 * np.log(3)


@pytest.mark.parametrize("name", ON_ANY_BOARD)
@pytest.mark.parametrize("precise", ["f32", "bf16"])
def test_unrolling_is_calling_step_by_step(name, precise):
    network = precision(precise).cast_to_compute(network_of(name))
    draw = np.random.default_rng(0)
    seen = jnp.asarray(draw.normal(size=(7, 5, 4)), jnp.float32)
    done = jnp.asarray(draw.random((7, 5)) < 0.3)
    first = jax.tree.map(lambda x: jnp.broadcast_to(x, (5, *x.shape)), network.initial_carry())
    call = eqx.filter_jit(network)
    logits, value = eqx.filter_jit(evaluator_of(network).unroll)(seen, first, done)
    plain_logits, plain_value = eqx.filter_jit(plain_evaluator(network).unroll)(seen, first, done)
    # A block that repeats amplifies rounding, by as much as its CPU's sums give it.
    f32 = 5e-4 if name == "recursive" else 1e-5
    close = {"rtol": 1e-5, "atol": {"f32": f32, "bf16": 0.03}[precise]}
    np.testing.assert_allclose(logits, plain_logits, **close)
    np.testing.assert_allclose(value, plain_value, **close)
    for env in range(5):
        carry = network.initial_carry()
        for step in range(7):
            here, worth, carry = call(seen[step, env], carry)
            np.testing.assert_allclose(logits[step, env], here, **close)
            np.testing.assert_allclose(value[step, env], worth, **close)
            carry = network.initial_carry() if done[step, env] else carry


# Attention multiplies tokens of one observation by each other.
@pytest.mark.parametrize("name", sorted({*ON_ANY_BOARD} - {"transformer", "recursive"}))
def test_under_vmap_each_layer_is_one_plain_matrix_product(name):
    network = network_of(name)
    carry = jax.tree.map(lambda x: jnp.broadcast_to(x, (16, *x.shape)), network.initial_carry())
    lowered = jax.jit(jax.vmap(network)).lower(jnp.ones((16, 4), jnp.float32), carry)
    products = re.findall(r"stablehlo\.dot_general.*", lowered.as_text())
    assert products
    assert not [line for line in products if "batching_dims = [0]" in line]


def test_depth_is_the_number_of_blocks_and_a_network_without_it_says_so():
    network = build_network("residual", BOARD, width=4, depth=7, key=KEY)
    assert network.blocks.norm.scale.shape == (7, 4)
    with pytest.raises(ValueError, match="'gru' has no depth"):
        build_network("gru", BOARD, depth=2, key=KEY)


def test_a_convolution_needs_a_board_and_sees_the_neighbours_of_a_cell_and_no_others():
    network = ConvActorCritic(BOARD, channels=8, layers=1, width=4, key=KEY)
    blank = jnp.zeros((3, 3, 8), jnp.float32)
    response = network.convolutions[0](blank.at[0, 0].set(1.0))
    assert (np.asarray(response[1, 1]) != 0).any()
    assert (np.asarray(response[2, 2]) == 0).all()
    with pytest.raises(ValueError, match="grid"):
        ConvActorCritic(CartPole().spec, key=KEY)


def slopes(convolve):
    """The gradients of a sum over boards, for the boards and the weights."""

    def total(boards, weight):
        return jnp.sin(jax.vmap(convolve, (0, None))(boards, weight)).sum()

    return jax.jit(jax.grad(total, (0, 1)))


def test_a_convolution_has_the_gradient_of_xlas_convolution_without_one_on_a_cpu():
    boards = jax.random.normal(jax.random.key(1), (5, 6, 4, 7), jnp.float32)
    weight = jax.random.normal(jax.random.key(2), (3, 3, 7, 2), jnp.float32)
    ours, theirs = slopes(_conv._convolve), slopes(_conv._convolution)
    close = {"rtol": 1e-4, "atol": 1e-4}
    assert_close(ours(boards, weight), theirs(boards, weight), **close)
    # One is left: that of the forward pass.
    assert ours.lower(boards, weight).as_text().count("stablehlo.convolution") == 1


@pytest.mark.parametrize("network", FINAL)
def test_a_width_of_nothing_is_an_error(network):
    with pytest.raises(ValueError, match="width must be at least 1, not 0"):
        network(BOARD, width=0, key=KEY)


def twice(self, observation, carry):
    hidden, carry = self.network.trunk(observation, carry)
    return 2 * hidden, carry


@pytest.mark.parametrize("network", [*FINAL, WithAuxiliaryHead])
@pytest.mark.parametrize("method", ["trunk", "__call__"])
def test_a_network_of_the_package_cannot_act_by_one_function_and_learn_by_another(network, method):
    said = rf"Doubled: {network.__name__} is final.* Wrap it .*or subclass ActorCritic or Trunk"
    with pytest.raises(TypeError, match=said):
        type("Doubled", (network,), {method: twice})


@pytest.mark.parametrize(
    ("base", "method"),
    [
        (TrunkActorCritic, "__call__"),
        (RecurrentActorCritic, "__call__"),
        (RecurrentActorCritic, "trunk"),
        (DenseInputActorCritic, "trunk"),
    ],
)
def test_a_method_that_an_evaluator_would_not_call_cannot_be_overridden(base, method):
    with pytest.raises(TypeError, match=rf"Doubled\.{method}: .*\.{method} is final"):
        type("Doubled", (base,), {method: twice})
    mixin = type("Mixin", (), {method: twice})
    with pytest.raises(TypeError, match=rf"Doubled\.{method}: .*\.{method} is final"):
        type("Doubled", (mixin, base), {})


class Doubled(ActorCritic):
    """Acts by a function of its own around a network of the package."""

    network: MLPActorCritic

    def __call__(self, observation, carry):
        logits, value, carry = self.network(observation, carry)
        return 2.0 * logits, 3.0 * value, carry


class DoubledAgain(Doubled):
    """A user's own class may be subclassed: its evaluator knows nothing but the call."""

    def __call__(self, observation, carry):
        logits, value, carry = super().__call__(observation, carry)
        return 2.0 * logits, value, carry


class DoubledTrunk(TrunkActorCritic):
    network: MLPActorCritic
    heads: eqx.Module
    trunk = twice


class Still(Environment):
    """Shows made-up observations of HackMatrix, for it takes long to compile itself."""

    spec = HackMatrix().spec
    truncates = False

    def reset(self, keys):
        def draw(leaf):
            shape, bits = (len(keys), *leaf.shape), leaf.dtype == jnp.uint32
            return jax.random.randint(keys[0], shape, 0, 2**20 if bits else 5).astype(leaf.dtype)

        seen = jax.tree.map(draw, self.spec.observation)
        number, flag = jnp.zeros(len(keys), jnp.float32), jnp.zeros(len(keys), bool)
        mask = jnp.ones((len(keys), self.spec.num_actions), bool)
        ended = EpisodeStatistics(number, number.astype(jnp.int32))
        terms = dict.fromkeys(self.spec.terms, number)
        return flag, Timestep(seen, mask, number, flag, flag, seen, mask, terms, ended)

    def step(self, state, actions, keys):
        return self.reset(keys)


def test_what_acts_is_what_learns():
    environment = Still()  # of whose observations the package's MLP has a fast evaluator
    network = MLPActorCritic(environment.spec, width=8, key=KEY)
    policies = Doubled(network), DoubledAgain(network), DoubledTrunk(network, network.heads)

    def play_and_look(policy):
        collector_state = start_collector(environment, policy, env_keys(KEY, 3))
        rollout, _ = RolloutCollector(5)(policy, environment, collector_state)
        learned = evaluator_of(policy).unroll(rollout.observation, (), rollout.done)
        called = jax.vmap(jax.vmap(lambda one: policy(one, ())[:2]))(rollout.observation)
        return rollout, learned, called

    @eqx.filter_jit
    def look_at_all(network, policies):
        found = [play_and_look(policy) for policy in policies]
        rollout = found[0][0]
        return found, evaluator_of(network).unroll(rollout.observation, (), rollout.done)

    found, (inner, _) = look_at_all(network, policies)
    for rollout, learned, called in found:
        assert_close(learned, called, rtol=1e-5, atol=1e-6)
        logits, value = learned
        np.testing.assert_allclose(value, rollout.value, rtol=1e-5, atol=1e-6)
        log_probs = jax.nn.log_softmax(logits)  # as every action is legal
        taken = np.take_along_axis(np.asarray(log_probs), rollout.action[..., None], -1)[..., 0]
        np.testing.assert_allclose(taken, rollout.log_prob, atol=1e-5)
        # And it is not what the network inside would do.
        assert np.abs(inner - logits).max() > 1e-3


def test_the_face_of_a_network_is_its_carry_and_its_call():
    own = {name for name in vars(ActorCritic) if not name.startswith("_")}
    assert own == {"initial_carry", "distribution"}
    assert Doubled(None).initial_carry() == ()


@pytest.fixture
def own_module(monkeypatch):
    module = types.ModuleType("own_networks")
    module.make = lambda spec, *, width=3, key: MLPActorCritic(spec, width=width, key=key)
    module.wrong = lambda spec, *, key: "a network"
    module.number = 3
    monkeypatch.setitem(sys.modules, "own_networks", module)


@pytest.mark.usefixtures("own_module")
def test_a_network_of_ones_own_is_named_by_module_and_factory():
    network = build_network("own_networks:make", BOARD, key=KEY)
    assert network.layers[0].bias.shape == (3,)


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("perceptron", "choose one of mlp"),
        ("own_networks:", "module:factory"),
        (":make", "module:factory"),
        ("..own_networks:make", "module:factory"),
        ("own networks:make", "module:factory"),
        ("own_networks:make.__class__", "module:factory"),
        ("own_networks:make:make", "module:factory"),
        ("no_such_module_anywhere:make", "no module"),
        ("own_networks:nothing", "has no 'nothing'"),
        ("own_networks:maek", "the nearest name is own_networks:make"),
        ("own_networks:number", "cannot be called"),
        ("own_networks:wrong", "built a str"),
    ],
)
def test_an_unknown_network_is_a_clear_error(name, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        build_network(name, BOARD, key=KEY)


NETWORK_IN_A_FILE = """
import helper_of_{name}
def make(spec, *, key):
    import later_of_{name}
    return helper_of_{name}.build_network("mlp", spec, key=key)
"""


def test_a_network_is_looked_for_where_the_user_stands_and_nothing_else_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    monkeypatch.setattr(sys, "path", list(before))
    (tmp_path / "net_here.py").write_text(NETWORK_IN_A_FILE.format(name="here"))
    (tmp_path / "later_of_here.py").write_text("")
    (tmp_path / "helper_of_here.py").write_text(
        "from hackmatrix_rl.agent.networks import build_network"
    )
    build_network("mlp", BOARD, key=KEY)
    assert sys.path == before
    build_network("net_here:make", BOARD, key=KEY)
    # Behind all that is installed: a folder that someone sent may hold a matplotlib.py.
    assert sys.path == [*before, str(tmp_path)]
    for name in ("net_here", "later_of_here", "helper_of_here"):
        assert sys.modules.pop(name)
