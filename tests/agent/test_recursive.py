"""The recursive network: its recursion, where its gradient ends, and its cycles as data."""

import inspect
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from agent import probes
from hackmatrix_rl.agent.networks import RecursiveNetwork, Thought, _recursive, _recursive_blocks
from hackmatrix_rl.agent.precision import parameters_of, precision
from hackmatrix_rl.env import Batched, Played, SingleGame, TokenFeatures

BOARD = probes.Probe({}, board=True).spec
KEY = jax.random.key(0)
SEEN = jnp.asarray([0.5, -1.0, 2.0, 0.25], jnp.float32)
POSITIONS = 5  # the flat features, and four cells


def network(high=2, low=2, *, kind=RecursiveNetwork, **sizes):
    return kind(BOARD, width=8, high_cycles=high, low_cycles=low, heads=2, key=KEY, **sizes)


# The reference: NumPy for the numbers, unrolled JAX with `stop_gradient` for the gradient.


def rms(x):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def swiglu(layers, x):
    gate, value = np.split(x @ np.asarray(layers.widen.weight), 2, axis=-1)
    return (gate / (1 + np.exp(-gate)) * value) @ np.asarray(layers.narrow.weight)


def turned(x):
    """Rotary positions, one number at a time."""
    found = np.zeros_like(x)
    half = x.shape[-1] // 2
    for position, head, pair in np.ndindex(x.shape[0], x.shape[1], half):
        angle = position * 10_000.0 ** (-pair / half)
        number = complex(x[position, head, pair], x[position, head, pair + half])
        number *= np.exp(1j * angle)
        found[position, head, [pair, pair + half]] = number.real, number.imag
    return found


def attention(mix, x):
    count, width = x.shape
    asked = (x @ np.asarray(mix.ask.weight)).reshape(count, 3, mix.heads, -1)
    query, key, value = turned(asked[:, 0]), turned(asked[:, 1]), asked[:, 2]
    found = np.zeros_like(value)
    for head in range(mix.heads):
        fits = query[:, head] @ key[:, head].T / np.sqrt(width / mix.heads)
        shares = np.exp(fits) / np.exp(fits).sum(axis=1, keepdims=True)
        found[:, head] = shares @ value[:, head]
    return found.reshape(count, width) @ np.asarray(mix.answer.weight)


def stack(net, x):
    """The blocks, in NumPy."""
    x = np.asarray(x, np.float64)
    for index in range(jax.tree.leaves(net.blocks)[0].shape[0]):
        block = jax.tree.map(lambda leaf, index=index: np.asarray(leaf)[index], net.blocks)
        mix = block.mix
        mixed = attention(mix, x) if hasattr(mix, "ask") else swiglu(mix.layers, x.T).T
        x = rms(x + mixed)
        x = rms(x + swiglu(block.work, x))
    return x


def expected_thought(net, high, low):
    """What the equations say, without a line of the network's recursion."""
    cells = np.asarray(BOARD.encode(SEEN).grid).reshape(4, -1) @ np.asarray(net.cell.weight)
    flat = np.asarray(BOARD.encode(SEEN).flat) @ np.asarray(net.flat.weight) + np.asarray(net.first)
    x = np.concatenate([flat[None], cells])
    z_high, z_low = (np.tile(np.asarray(z), (POSITIONS, 1)) for z in net.start.value)
    for _ in range(high):
        for _ in range(low):
            z_low = stack(net, z_low + z_high + x)
        z_high = stack(net, z_high + z_low)
    return z_high, z_low


def check_thoughts(kind=RecursiveNetwork, cycles=((1, 1), (3, 2), (2, 3))):
    # Not the numbers of cycles that it was built with: one program does them all.
    net = eqx.tree_at(lambda net: net.first, network(kind=kind), jnp.linspace(-1, 1, 8))

    @eqx.filter_jit
    def think(net):
        seen = net.embed(SEEN)
        return net.think(seen, net.begin(seen))

    for high, low in cycles:
        found = think(net.with_cycles(high, low))
        for one, expected in zip(found, expected_thought(net, high, low), strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-3, atol=1e-4)


def test_the_recursion_is_that_of_the_equations_in_numpy():
    check_thoughts()


def test_swiglu_over_positions_is_that_of_numpy():
    net = network(mixer="swiglu")
    blocks = eqx.filter_jit(lambda net, x: net.through_blocks(x))
    x = jax.random.normal(KEY, (POSITIONS, 8), jnp.float32)
    np.testing.assert_allclose(blocks(net, x), stack(net, x), rtol=1e-4, atol=1e-5)


def plain_gradient(net, high, low, kept):
    """The gradient of `sum(sin(z_H)) + sum(z_L ** 2)`, the recursion unrolled in Python."""

    @eqx.filter_jit
    @eqx.filter_grad
    def of(net):
        seen = net.embed(SEEN)
        z = Thought(*(jnp.tile(each, (POSITIONS, 1)) for each in net.start.value))
        for cycle in range(high):
            for step in range(low):
                last = cycle == high - 1 and step >= low - kept
                z = z if last else jax.lax.stop_gradient(z)
                x = net.through_blocks(z.low + z.high + seen)
                z = Thought(z.high, x if last else jax.lax.stop_gradient(x))
            z = Thought(net.through_blocks(z.high + z.low), z.low)
            z = z if cycle == high - 1 else jax.lax.stop_gradient(z)
        return jnp.sum(jnp.sin(z.high)) + jnp.sum(z.low**2)

    return of(net)


@eqx.filter_jit
@eqx.filter_grad
def gradient(net):
    seen = net.embed(SEEN)
    z = net.think(seen, net.begin(seen))
    return jnp.sum(jnp.sin(z.high)) + jnp.sum(z.low**2)


def check_gradients(kind=RecursiveNetwork, cycles=((2, 1), (1, 3))):
    net = network(kind=kind, depth=1)  # the gradient goes through at most two updates of z_L
    for high, low in cycles:
        found = gradient(net.with_cycles(high, low))
        expected = plain_gradient(net, high, low, kept=2)
        for (path, one), other in zip(
            jax.tree.leaves_with_path(found), jax.tree.leaves(expected), strict=True
        ):
            name = f"{high}x{low} {jax.tree_util.keystr(path)}"
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4, err_msg=name)


def test_only_the_last_cycle_has_a_gradient():
    check_gradients()


def test_the_check_of_the_gradient_knows_a_longer_one():
    net = network(1, 2, depth=1)
    whole = plain_gradient(net, 1, 2, kept=1)
    weight = gradient(net).cell.weight
    assert np.abs(np.asarray(whole.cell.weight - weight)).max() > 1e-2


def test_other_cycles_need_no_other_program():
    compiled = []

    @eqx.filter_jit
    def learn_and_act(net):
        compiled.append(net)

        def loss(net):
            logits, value, _ = net(SEEN, ())
            return jnp.sum(logits**2) + value**2, logits

        return eqx.filter_grad(loss, has_aux=True)(net)

    net = network(depth=1)
    found = [learn_and_act(net.with_cycles(*each))[1] for each in ((1, 1), (2, 2), (4, 1), (1, 7))]
    assert len(compiled) == 1
    assert len({tuple(np.asarray(logits).tolist()) for logits in found}) == 4


def test_the_cycles_and_the_start_are_data_but_no_parameters():
    net = network(3, 4)
    assert [int(net.cycles.high), int(net.cycles.low)] == [3, 4]
    named = {jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(net)}
    learned = {
        jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(parameters_of(net))
    }
    assert named - learned == {
        ".cycles.high",
        ".cycles.low",
        ".start.value.high",
        ".start.value.low",
    }
    cast = precision("bf16").cast_to_compute(net)
    assert cast.start.value.high.dtype == jnp.float32
    thought = jax.eval_shape(
        lambda net: net.think(net.embed(SEEN), net.begin(net.embed(SEEN))), cast
    )
    assert {leaf.dtype for leaf in thought} == {jnp.dtype(jnp.float32)}


def test_turning_a_pair_by_hand():
    x = jnp.asarray([[[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 2.0]]], jnp.float32)
    turned_by_hand = [[[1.0, 0.0]], [[0.5403023, 0.84147098]], [[-1.8185949, -0.8322937]]]
    np.testing.assert_allclose(_recursive_blocks.rotated(x), turned_by_hand, rtol=1e-6)
    by_hand = [0.8485278, 1.1313704]  # 3 and 4 over the root of 12.5
    np.testing.assert_allclose(
        _recursive_blocks.normalized(jnp.asarray([3.0, 4.0])), by_hand, rtol=1e-6
    )


def test_the_inner_width_is_that_of_the_paper():
    assert _recursive_blocks.SwiGLU(512, key=KEY).narrow.weight.shape == (1536, 512)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"width": 6}, "width 6 is not a multiple of 2"),
        ({"width": 12}, r"width 12 is not a multiple of 2 \* heads, 8"),
        ({"depth": 0}, "depth must be at least 1, not 0"),
        ({"heads": 0}, "heads must be at least 1, not 0"),
        ({"mixer": "convolution"}, "choose one of attention, swiglu"),
        ({"high_cycles": 0}, "high_cycles must be at least 1, not 0"),
        ({"low_cycles": -1}, "low_cycles must be at least 1, not -1"),
    ],
)
def test_bad_sizes_are_refused_by_name(sizes, says):
    with pytest.raises(ValueError, match=says):
        RecursiveNetwork(BOARD, **sizes, key=KEY)


def test_other_cycles_are_checked_too():
    with pytest.raises(ValueError, match="low_cycles must be at least 1, not 0"):
        network().with_cycles(1, 0)
    with pytest.raises(TypeError, match="high_cycles"):
        network().with_cycles(1.5, 1)
    with pytest.raises(ValueError, match="features have a grid"):
        RecursiveNetwork(hm.CartPole().spec, key=KEY)


class Repeat(SingleGame):
    """Three tokens; the action is the last of them."""

    @property
    def num_actions(self):
        return 5

    @property
    def encode(self):
        return TokenFeatures(5)

    def start(self, *, key):
        return jax.random.randint(key, (3,), 0, 5, jnp.int32)

    def observe(self, state):
        return state

    def play(self, state, action, *, key):
        return Played(state, (action == state[-1]).astype(jnp.float32), jnp.bool_(True))


def test_a_sequence_of_tokens_is_a_board_of_one_row():
    environment = Batched(Repeat())
    features = environment.spec.encode(jnp.asarray([4, 0, 9], jnp.int32))
    np.testing.assert_array_equal(
        features.grid, [[[0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]]
    )
    net = RecursiveNetwork(environment.spec, width=8, key=KEY)
    np.testing.assert_allclose(
        net.embed(jnp.asarray([4, 0, 1], jnp.int32))[1:], net.cell.weight[np.array([4, 0, 1])]
    )
    logits, value, _ = eqx.filter_jit(net)(jnp.asarray([4, 0, 1], jnp.int32), ())
    assert logits.shape == (5,)
    assert value.shape == ()


@pytest.mark.parametrize("observation", [jnp.zeros(3), jnp.zeros((2, 2), jnp.int32)])
def test_an_observation_without_tokens_is_refused(observation):
    with pytest.raises(ValueError, match="has no tokens; expected one vector of integers"):
        TokenFeatures(5)(observation)
    with pytest.raises(ValueError, match="vocabulary must be at least 1"):
        TokenFeatures(0)


# Each mutant is the module with one line of the recursion slightly wrong.
MUTANTS = {
    "z_L without itself": ("thought.low + thought.high + seen", "thought.high + seen"),
    "z_L without z_H": ("thought.low + thought.high + seen", "thought.low + seen"),
    "z_L without the position": ("thought.low + thought.high + seen", "thought.low + thought.high"),
    "z_H without itself": (
        "through_blocks(thought.high + thought.low)",
        "through_blocks(thought.low)",
    ),
    "z_H without z_L": (
        "through_blocks(thought.high + thought.low)",
        "through_blocks(thought.high)",
    ),
    "z_H also in z_L": ("thought.low), thought.low)", "thought.low), thought.high)"),
    "one cycle more": ("self.cycles.high - 1, whole", "self.cycles.high, whole"),
    "one update less": ("index < count", "index < count - 1"),
    "one update less before": ("thought, still.cycles.low)", "thought, still.cycles.low - 1)"),
    "no z_H before": ("still.rethink(still.work(", "(still.work("),
    "states exchanged": ("for each in self.start.value", "for each in self.start.value[::-1]"),
}
GRADIENT_MUTANTS = {
    "no gradient of the position": (
        "self.work_with_gradient(seen,",
        "self.work_with_gradient(seen_still,",
    ),
    "no gradient of z_H's update": ("return self.rethink(self", "return still.rethink(self"),
    "no gradient of z_L's updates": ("self.rethink(self.work_with", "self.rethink(still.work_with"),
    "too many updates without": ("self.cycles.low - self.gradient_cycles", "self.cycles.low - 1"),
    "a gradient of the start": ("jax.lax.stop_gradient(arrays)", "arrays"),
}


def mutated(old, new):
    """The network of a module in which one text is another."""
    source = inspect.getsource(_recursive)
    assert source.count(old) == 1, old
    module = types.ModuleType(_recursive.__name__)
    exec(compile(source.replace(old, new), _recursive.__file__, "exec"), vars(module))
    return module.RecursiveNetwork


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_recursion_is_noticed(name):
    with pytest.raises(AssertionError):
        check_thoughts(mutated(*MUTANTS[name]))


@pytest.mark.nightly
@pytest.mark.parametrize("name", GRADIENT_MUTANTS)
def test_a_mutant_of_the_gradient_is_noticed(name):
    # JAX itself refuses the gradient of a loop whose length is data.
    with pytest.raises((AssertionError, ValueError)):
        check_gradients(mutated(*GRADIENT_MUTANTS[name]))


@pytest.mark.nightly
def test_a_module_without_a_mutant_passes_the_same_checks():
    kind = mutated("The two states of", "Both states of")
    check_thoughts(kind)
    check_gradients(kind)
