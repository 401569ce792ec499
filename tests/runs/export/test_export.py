"""Exported agents give the logits, values and memories of their networks."""

import inspect
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import export_agent as example
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from cli.commands import assert_refused, done, invoke
from env.targets import Target

import hackmatrix_rl as hm
from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.agent.networks import with_value_head
from hackmatrix_rl.env import Features
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.runs.export import (
    as_json,
    as_onnx,
    as_stablehlo,
    contract,
    export_agent,
    read_stablehlo,
)
from hackmatrix_rl.runs.export._onnx_graph import Graph
from hackmatrix_rl.runs.export._onnx_primitives import Converter
from hackmatrix_rl.system import exports_load_until
from hackmatrix_rl.system.errors import ConfigError

pytestmark = pytest.mark.view

WIDTH = 16
OLD_EXPORT = Path(__file__).parents[2] / "data" / "exports" / "jax-0.8.1.bin"
GENERAL = "hackmatrix-rl export AGENT --format stablehlo --output FILE"
HACKMATRIX = (("mlp", "classic"), ("cells", "tactical"), ("gru", "compact"))
STANDARD = (
    *(("mlp", "CartPole"), ("gru", "CartPole"), ("lstm", "CartPole")),
    *(("mlp", "Room"), ("conv", "Room"), ("cells", "Board"), ("lstm", "Room")),
)
"""The networks that JSON holds, in environments that are not HackMatrix."""
OTHERS = ("residual", "resnet", "transformer", "recursive", "mpn")

JAX_ALONE = """
import sys
import jax, numpy as np
from jax import export

assert not {"hackmatrix_rl", "equinox"} & {*sys.modules}
agent = export.deserialize(open(sys.argv[1], "rb").read())
arrays = list(np.load(sys.argv[2]).values())
for batch in (1, len(arrays[0])):
    given = [array[:batch] for array in arrays]
    np.savez(f"answers{batch}.npz", *jax.jit(agent.call)(*given))
"""


class Room(hm.SingleGame):
    """A walker in a room with walls, whose encoding looks things up and puts them in places."""

    num_actions = 4

    def start(self, *, key):
        walls = jax.random.bernoulli(key, 0.4, (4, 4))
        return {"here": jax.random.randint(key, (2,), 0, 4), "mask": walls}

    def observe(self, state):
        return state

    def legal(self, state):
        row, col = state["here"]
        return jnp.stack([row > 0, row < 3, col > 0, col < 3])

    def play(self, state, action, *, key):
        return hm.Played(state, jnp.float32(0), jnp.bool_(False))

    @property
    def encode(self):
        return encoded_room


class Board(Room):
    """The walls as a board, as the default encoding takes it: there is no flat feature."""

    encode = hm.SingleGame.encode

    def observe(self, state):
        return state["mask"][..., None]


def encoded_room(seen):
    row, col = seen["here"]
    walls = seen["mask"].astype(jnp.float32)
    here = jnp.zeros((4, 4)).at[row, col].set(1.0).at[row, (col + 1) % 4].add(0.5)
    near = jax.lax.dynamic_slice(jnp.pad(walls, 1), (row, col), (3, 3))
    words = jnp.uint32(0x9E3779B9) * jnp.left_shift(jnp.uint32(1), row.astype(jnp.uint32))
    bits = (words >> jnp.arange(32, dtype=jnp.uint32)) & jnp.uint32(1)
    flat = [near.ravel(), jnp.eye(4)[row], jnp.cumsum(walls[:, 1]), bits.astype(jnp.float32)]
    flat += [jnp.array([0.1, 0.7, 0.2, 0.9]).at[col].get(mode="fill", fill_value=3.0)[None]]
    nearest = jnp.argmax(walls, axis=1).astype(jnp.float32)
    _, seen_so_far = jax.lax.scan(lambda most, now: (jnp.maximum(most, now),) * 2, 0.0, nearest)
    return Features(
        flat=jnp.concatenate([*flat, seen_so_far]), grid=jnp.stack([here, walls], axis=-1)
    )


def environment_of(name):
    if name == "CartPole":
        return hm.CartPole()
    games = {"Room": Room, "Board": Board}
    return hm.Batched(games[name]()) if name in games else hm.HackMatrix(observation=name)


def agent_of(network, name, *, head="scalar", **more):
    """An agent with weights that say something, in units of reward that are not the network's."""
    environment = environment_of(name)
    sizes = {"recursive": {}}.get(network, {"width": WIDTH})
    policy = hm.build_network(network, environment.spec, **sizes, key=jax.random.key(3), **more)
    if head != "scalar":
        policy = with_value_head(policy, head, key=jax.random.key(4))
    return agent_with(policy), environment


def agent_with(policy):
    policy = jax.tree.map(
        lambda leaf: leaf + jnp.asarray(0.05, leaf.dtype) if eqx.is_inexact_array(leaf) else leaf,
        policy,
    )
    scale = eqx.tree_at(lambda scale: (scale.mean, scale.variance), RunningScale(), (3.0, 4.0))
    scale = jax.tree.map(jnp.float32, scale)
    return PolicyAgent(policy, value_scale=scale, gamma=0.99)


def carries_of(agent, count):
    """The memory in the middle of a game: one for each position."""
    empty = agent.initial_carry()
    return jax.tree.map(lambda leaf: jnp.full((count, *leaf.shape), 0.25).astype(leaf.dtype), empty)


def wanted(agent, timestep, carries):
    """What the network itself says."""
    logits, value, after = jax.jit(jax.vmap(lambda *seen: agent.policy(*seen)))(
        timestep.observation, carries
    )
    return (
        np.where(timestep.mask, logits, -np.inf),
        agent.value_scale.denormalize(value),
        *jax.tree.leaves(after),
    )


def first_positions(environment, count):
    return environment.reset(jax.random.split(jax.random.key(0), count))[1]


def arrays_of(agent, timestep):
    """What an exported program takes."""
    carries = carries_of(agent, len(timestep.mask))
    seen = [*jax.tree.leaves(timestep.observation), timestep.mask, *jax.tree.leaves(carries)]
    return [np.asarray(array) for array in seen]


def assert_same(answers, right, batch=None):
    assert len(answers) == len(right)
    for answer, array in zip(answers, right, strict=True):
        np.testing.assert_allclose(answer, array[:batch], atol=2e-5, rtol=1e-5)


def is_array_in_lists(node):
    return isinstance(node, list) and not isinstance(node[0], dict)


def assert_numpy_plays(agent, environment, timestep, right):
    """The reader of the example, from what a file would hold."""
    count = len(timestep.mask)
    read = json.loads(json.dumps(as_json(agent, environment)))
    # Once, where the reader would for each position: the lists are long.
    read["layers"] = jax.tree.map(
        lambda numbers: np.array(numbers, np.float32),
        read["layers"],
        is_leaf=lambda node: node != [] and is_array_in_lists(node),
    )
    features = jax.jit(jax.vmap(environment.spec.encode))(timestep.observation)
    grids = [None] * count if features.grid is None else np.asarray(features.grid)
    memories = [np.asarray(leaf) for leaf in jax.tree.leaves(carries_of(agent, count))]
    answers = [
        example.play(read, grid, flat, mask, tuple(memory[place] for memory in memories))
        for place, (grid, flat, mask) in enumerate(
            zip(grids, np.asarray(features.flat), np.asarray(timestep.mask), strict=True)
        )
    ]
    flat_answers = [(logits, value, *carry) for logits, value, carry in answers]
    assert_same([np.stack(each) for each in zip(*flat_answers, strict=True)], right)


def assert_onnx_plays(agent, environment, timestep, right, model=None):
    """The graph, by onnxruntime, in batches of two sizes."""
    model = model or as_onnx(agent, environment)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map["contract"]
    assert json.loads(about) == contract(agent, environment)
    described = json.loads(about)
    carry = [each["name"] for each in described["network"]["carry"]]
    names = [*(each["name"] for each in described["observation"]["arrays"]), "mask", *carry]
    assert [each.name for each in session.get_inputs()] == names
    given = dict(zip(names, arrays_of(agent, timestep), strict=True))
    results = ["logits", "value", *(f"next_{name}" for name in carry)]
    for batch in (1, len(timestep.mask)):
        answers = session.run(results, {name: array[:batch] for name, array in given.items()})
        assert_same(answers, right, batch)


def assert_stablehlo_plays(agent, environment, timestep, right):
    program = jax.export.deserialize(bytearray(as_stablehlo(agent, environment)))
    assert_same(program.call(*arrays_of(agent, timestep)), right)


@pytest.mark.parametrize(("network", "name"), STANDARD)
def test_every_format_plays_own_environments(network, name):
    agent, environment = agent_of(network, name)
    timestep = first_positions(environment, 20)
    right = wanted(agent, timestep, carries_of(agent, 20))
    for plays in (assert_numpy_plays, assert_onnx_plays, assert_stablehlo_plays):
        plays(agent, environment, timestep, right)


def test_the_likeliest_action_of_a_box_is_exported():
    environment = hm.Batched(Target())
    agent = agent_with(hm.MLPActorCritic(environment.spec, width=WIDTH, key=jax.random.key(3)))
    seen = np.asarray(first_positions(environment, 20).observation)
    greedy, key = replace(agent, greedy=True), jax.random.key(0)
    action, _ = jax.vmap(lambda seen: greedy.act(seen, EMPTY, (), key=key))(seen)
    program = jax.export.deserialize(bytearray(as_stablehlo(agent, environment)))
    session = onnxruntime.InferenceSession(as_onnx(agent, environment))
    assert [each.name for each in session.get_outputs()] == ["action", "value"]
    np.testing.assert_allclose(program.call(seen)[0], action, atol=2e-5)
    np.testing.assert_allclose(session.run(None, {"observation": seen})[0], action, atol=2e-5)
    assert contract(agent, environment)["actions"]["high"] == [3.0, 3.0]
    with pytest.raises(ConfigError, match=r"holds logits, .* Box.* --format onnx or stablehlo"):
        as_json(agent, environment)


EMPTY = np.zeros(0, bool)


@pytest.mark.parametrize("network", OTHERS)
def test_onnx_and_stablehlo_take_every_network(network):
    agent, environment = agent_of(network, "Room", head="two-hot")
    timestep = first_positions(environment, 20)
    right = wanted(agent, timestep, carries_of(agent, 20))
    for plays in (assert_onnx_plays, assert_stablehlo_plays):
        plays(agent, environment, timestep, right)


def every_operator(real, whole, word, flags, place):
    """What networks and encodings may compute, of one position."""
    square = real.reshape(2, 3)

    def alone(state):
        return state[0] < whole[0], (state[0] + 1, state[1] * word)

    counted = jax.lax.while_loop(
        lambda state: state[0] < whole[0] % 5, lambda state: alone(state)[1], (0, word)
    )
    _, backwards = jax.lax.scan(
        lambda most, now: (jnp.maximum(most, now), most - now), real[0], real, reverse=True
    )
    branch = jax.lax.switch(place % 3, [jnp.sin, jnp.cos, jnp.tanh], real)
    pooled = jax.lax.reduce_window(square, -jnp.inf, jax.lax.max, (1, 2), (1, 1), ((0, 0), (0, 1)))
    both = jax.lax.reduce(
        (real, whole), (jnp.float32(0), jnp.int32(1)),
        lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,),
    )  # fmt: skip
    smallest = jnp.where(flags, whole, 7)
    return [
        *(counted[1], backwards, branch, pooled, *both, smallest),
        *(jnp.abs(whole), -real, jnp.sign(real), jnp.floor(real), jnp.ceil(real)),
        *(jnp.round(real * 3), jax.lax.round(real * 3), jnp.exp(real), jnp.log1p(real**2)),
        *(jnp.expm1(real), jax.lax.rsqrt(real**2 + 1), jax.nn.sigmoid(real), jax.nn.gelu(real)),
        *(jax.nn.softmax(real), jax.nn.silu(real), jax.lax.erf(real), jnp.exp2(real)),
        *(jnp.cbrt(real), jnp.clip(real, -0.5, 0.5), real**3, whole**2, real**-2, jnp.square(real)),
        *(whole // 3, whole % 3, jax.lax.rem(whole, jnp.int32(-4)), jnp.fmod(real, 0.4)),
        *(whole * 2**29, word + jnp.uint32(2**31), -word, ~word, ~whole, word << 7, word >> 3),
        *(whole >> 2, whole << 30, jax.lax.shift_right_logical(whole, jnp.int32(4))),
        *(word & 12, word | 3, word ^ 5, jnp.bitwise_count(word), whole.astype(jnp.uint8)),
        *(
            word.astype(jnp.int32),
            real.astype(jnp.int32),
            flags.astype(jnp.float32),
            flags ^ ~flags,
        ),
        *(jnp.bitwise_or.reduce(whole), jnp.bitwise_xor.reduce(whole), jnp.isfinite(real / 0)),
        *(
            flags ^ ~flags,
            flags.any(),
            flags.all(),
            flags.sum(),
            real.max(),
            whole.min(),
            jnp.prod(whole),
        ),
        *(jnp.argmax(real), jnp.argmin(whole), jnp.argmax(flags), jnp.cumsum(whole), real[::-1]),
        *(square.T, jnp.pad(square, 1), jnp.roll(real, 2), jnp.stack([real, real], 1), real[1:5:2]),
        *(jnp.concatenate([real, real]), *jnp.split(real, 3), jnp.arange(6) * whole),
        *(real != 0, real < 0, real <= 0, flags > ~flags, jnp.where(flags, flags, ~flags)),
        *(jnp.maximum(flags, ~flags), jnp.where(flags.any(), real, 0.0), square @ square.T),
        *(jnp.einsum("ij,kj->ik", square, square), jnp.einsum("ij,ij->i", square, square)),
        *(square[:, place], square[place % 2], jnp.take(real, place + 4, fill_value=2.0)),
        *(real[whole % 6], whole.at[place].add(3), whole.at[place + 4].set(1, mode="drop")),
        *(jnp.zeros((2, 3)).at[:, place].set(square[:, 0]), real.at[whole % 6].max(0.25)),
        jax.lax.dynamic_update_slice(square, square[:, :1] * 2, (0, place)),
        jax.lax.dynamic_slice(real, (place,), (2,)),
        jax.nn.one_hot(place, 4),
    ]


def test_every_operator_gives_the_numbers_of_jax():
    rng = np.random.default_rng(1)
    arrays = (
        rng.normal(size=(5, 6)).astype(np.float32),
        rng.integers(-1000, 1000, (5, 6), dtype=np.int32),
        rng.integers(0, 2**32, 5, dtype=np.uint32),
        rng.random((5, 6)) < 0.5,
        rng.integers(0, 3, 5, dtype=np.int32),
    )
    names = ["real", "whole", "word", "flags", "place"]
    graph = Graph()
    inputs = [
        graph.input(name, a.shape[1:], a.dtype) for name, a in zip(names, arrays, strict=True)
    ]
    (batch,) = jax.export.symbolic_shape("batch")
    shapes = [jax.ShapeDtypeStruct((batch, *a.shape[1:]), a.dtype) for a in arrays]
    traced = jax.make_jaxpr(jax.vmap(every_operator))(*shapes)
    for place, value in enumerate(Converter(graph, inputs).converted(traced)):
        aval = traced.out_avals[place]
        graph.output(f"out{place}", graph.cast(value, aval.dtype), aval.shape[1:], aval.dtype)
    session = onnxruntime.InferenceSession(graph.serialized({}), providers=["CPUExecutionProvider"])
    answers = session.run(None, dict(zip(names, arrays, strict=True)))
    for place, (answer, right) in enumerate(
        zip(answers, jax.jit(jax.vmap(every_operator))(*arrays), strict=True)
    ):
        assert answer.dtype == right.dtype
        np.testing.assert_allclose(answer, right, atol=1e-5, rtol=1e-5, err_msg=str(place))


def test_what_has_no_operator_is_refused_by_name():
    class Sorted(hm.ActorCritic):
        network: hm.ActorCritic

        def __call__(self, observation, carry):
            return self.network(jnp.sort(observation), carry)

    agent, environment = agent_of("mlp", "CartPole")
    agent = eqx.tree_at(lambda agent: agent.policy, agent, Sorted(agent.policy))
    with pytest.raises(hm.ConfigError, match=r"JAX's sort.*Use --format stablehlo"):
        as_onnx(agent, environment)
    with pytest.raises(hm.ConfigError, match=r"not Sorted\. Use --format onnx or stablehlo"):
        as_json(agent, environment)
    assert contract(agent, environment)["network"]["name"] == "Sorted"
    timestep = first_positions(environment, 3)
    assert_stablehlo_plays(agent, environment, timestep, wanted(agent, timestep, ()))


@pytest.mark.nightly
@pytest.mark.parametrize(("network", "observation"), HACKMATRIX)
def test_all_play_ten_thousand_positions_of_games(network, observation):
    agent, environment = agent_of(network, observation)

    def step(carry, key):
        state, timestep = carry
        action_key, *keys = jax.random.split(key, 101)
        actions = jax.random.categorical(action_key, jnp.where(timestep.mask, 0.0, -jnp.inf))
        after = environment.step(state, actions, jnp.stack(keys))
        return after, (timestep.observation, timestep.mask)

    first = environment.reset(jax.random.split(jax.random.key(0), 100))
    _, played = jax.lax.scan(step, first, jax.random.split(jax.random.key(1), 100))
    seen, mask = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), played)
    timestep = eqx.tree_at(lambda t: (t.observation, t.mask), first[1], (seen, mask))
    right = wanted(agent, timestep, carries_of(agent, len(mask)))
    for plays in (assert_numpy_plays, assert_onnx_plays, assert_stablehlo_plays):
        plays(agent, environment, timestep, right)


def test_the_reader_is_short_and_needs_numpy_alone():
    source = inspect.getsource(example)
    reader = source[source.index("# The reader") : source.index("# The end of the reader")]
    assert len(reader.splitlines()) <= 60
    assert "hm." not in reader
    assert "jax" not in reader


def test_jax_alone_plays_a_batch_of_any_size(tmp_path):
    agent, environment = agent_of("gru", "compact")
    timestep = first_positions(environment, 200)
    files = export_agent(agent, environment, tmp_path / "agent.bin", format="stablehlo")
    assert [file.name for file in files] == ["agent.bin", "agent.bin.contract.json"]
    np.savez(tmp_path / "arrays.npz", *arrays_of(agent, timestep))
    alone = [sys.executable, "-c", JAX_ALONE, "agent.bin", "arrays.npz"]
    subprocess.run(alone, cwd=tmp_path, check=True)
    right = wanted(agent, timestep, carries_of(agent, 200))
    for batch in (1, 200):
        with np.load(tmp_path / f"answers{batch}.npz") as answers:
            assert_same([*answers.values()], right, batch)


@pytest.mark.parametrize(
    ("version", "until"),
    [
        ("0.8.1", "2026-05-18"),
        ("0.10.2", "2026-12-17"),
        ("0.12.0.1", "2027-04-21"),
        # Not listed: counts from the one before, so it is never too late.
        ("0.10.3", "2026-12-17"),
        ("99.0.0", "2027-04-21"),
        ("0.7.0", "2026-05-18"),
    ],
)
def test_an_export_loads_for_six_months_after_the_release_that_wrote_it(version, until):
    assert exports_load_until(version).isoformat() == until


def test_an_old_export_loads_or_says_how_it_is_renewed(tmp_path):
    # JAX 0.11.1 was the first to refuse exports of versions before November 25, 2025.
    file = tmp_path / OLD_EXPORT.name
    for each in OLD_EXPORT.parent.glob(f"{file.name}*"):
        shutil.copy(each, tmp_path)
    if tuple(map(int, jax.__version__.split(".")[:3])) < (0, 11, 1):
        logits, _ = jax.jit(read_stablehlo(file).call)(np.zeros((3, 4), "f4"), np.ones((3, 2), "?"))
        assert logits.shape == (3, 2)
        file.write_bytes(OLD_EXPORT.read_bytes()[:100])
    with pytest.raises(hm.ConfigError) as refused:
        read_stablehlo(file)
    assert str(refused.value) == (
        f"{file}: JAX {jax.__version__} refuses this export of JAX 0.8.1, which releases of JAX "
        "load until 2026-05-18. Export the agent again: hackmatrix-rl export runs/cartpole "
        "--format stablehlo --output jax-0.8.1.bin"
    )


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ({}, f"an unknown version. Export the agent again: {GENERAL}"),
        ({"jax": "0.8.1", "renew": "rm -rf /"}, f"JAX 0.8.1. Export the agent again: {GENERAL}"),
        ({"renew": "hackmatrix-rl export a --trust-code"}, GENERAL),
        ({"renew": "hackmatrix-rl export a \x1b[2J"}, GENERAL),
        ({"renew": "hackmatrix-rl export 'a"}, GENERAL),
        ({"renew": "hackmatrix-rl export $(id)"}, "hackmatrix-rl export '$(id)'"),
        ({"renew": 7, "jax": ["0"]}, f"an unknown version. Export the agent again: {GENERAL}"),
        ([], GENERAL),
        (None, GENERAL),
    ],
)
def test_a_contract_from_elsewhere_suggests_no_other_command(tmp_path, stored, said):
    (tmp_path / "a").write_bytes(b"no export")
    with pytest.raises(hm.ConfigError, match="b: does not exist"):
        read_stablehlo(tmp_path / "b")
    about = "[" if stored is None else json.dumps({"stablehlo": stored})
    (tmp_path / "a.contract.json").write_text(about)
    with pytest.raises(hm.ConfigError) as refused:
        read_stablehlo(tmp_path / "a")
    assert str(refused.value).endswith(said)
    assert len(str(refused.value).splitlines()) == 1


def test_the_contract_names_what_a_program_must_know():
    agent, environment = agent_of("gru", "compact")
    about = contract(agent, environment)
    assert (about["environment"], about["rules"], about["league"]) == (
        "HackMatrix",
        "1",
        "original",
    )
    memory = {"name": "carry", "shape": [WIDTH], "dtype": "float32"}
    assert about["network"] == {"name": "gru", "carry": [memory]}
    assert about["actions"]["names"] == [each.name for each in hm.Action]
    spec = environment.spec.observation
    assert [(each["name"], tuple(each["shape"])) for each in about["observation"]["arrays"]] == [
        ("numbers", spec.numbers.shape),
        ("programs", ()),
        ("grid", (36,)),
    ]


def test_the_contract_of_an_own_environment_is_its_spec():
    about = contract(*agent_of("lstm", "Room"))
    assert about["environment"] == "Room"
    assert about["observation"] == {
        "arrays": [
            {"name": "here", "shape": [2], "dtype": "int32"},
            # Another input has the name of this one.
            {"name": "observation.mask", "shape": [4, 4], "dtype": "bool"},
        ]
    }
    assert about["actions"].keys() == {"count", "mask", "choice"}
    assert [each["name"] for each in about["network"]["carry"]] == ["carry.shown", "carry.kept"]
    about = contract(*agent_of("mlp", "CartPole"))
    assert [each["name"] for each in about["observation"]["arrays"]] == ["observation"]


def test_what_a_format_cannot_hold_is_refused_by_name(tmp_path):
    agent, environment = agent_of("residual", "CartPole")
    with pytest.raises(
        hm.ConfigError, match=r"mlp, conv, cells, gru, lstm, not ResidualActorCritic\. Use .* onnx"
    ):
        export_agent(agent, environment, tmp_path / "a", format="json")
    agent, environment = agent_of("mlp", "CartPole", head="hl-gauss")
    with pytest.raises(hm.ConfigError, match=r"one of bins\. Use --format onnx or stablehlo"):
        export_agent(agent, environment, tmp_path / "a", format="json")
    agent, environment = agent_of("mlp", "CartPole")
    with pytest.raises(hm.ConfigError, match="no format 'pt'; there is stablehlo"):
        export_agent(agent, environment, tmp_path / "a", format="pt")
    compressed = PolicyAgent(agent.policy, value_scale=RunningScale(compress=True))
    with pytest.raises(hm.ConfigError, match="--value-scale standard or none"):
        export_agent(compressed, environment, tmp_path / "a", format="json")
    assert list(tmp_path.iterdir()) == []


def test_the_shipped_agent_is_exported_by_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = done("export", "pretrained/no-rewind", "--format", "json", "--output", "agent.json")
    assert said.stdout == "Written: agent.json\n"
    read = json.loads(Path("agent.json").read_text())
    assert (read["league"], read["network"]["name"]) == ("no-rewind", "cells")
    loaded = hm.load("pretrained/no-rewind")
    agent, positions = loaded.agent(), first_positions(loaded.environment, 20)
    right = wanted(agent, positions, carries_of(agent, 20))
    assert_numpy_plays(agent, loaded.environment, positions, right)
    done("export", "pretrained/no-rewind", "--format", "onnx", "--output", "agent.onnx")
    assert Path("agent.onnx.contract.json").exists()
    model = Path("agent.onnx").read_bytes()
    assert_onnx_plays(agent, loaded.environment, positions, right, model)


def test_the_command_exports_a_run_of_another_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("--algorithm", "ppo", "--preset", "debug", "--num-envs", 4, "--num-steps", 8)
    done("train", "--env", "cartpole", *small, "--total-timesteps", 32, "--run-dir", "runs/mine")
    for form in ("onnx", "json", "stablehlo"):
        said = done("export", "runs/mine", "--format", form, "--output", f"agent.{form}", "--best")
    until = exports_load_until().isoformat()
    again = "hackmatrix-rl export runs/mine --format stablehlo --output agent.stablehlo --best"
    assert said.stdout.splitlines()[1:] == [
        f"Releases of JAX until {until} load it. For later ones, export it again: {again}"
    ]
    about = json.loads(Path("agent.stablehlo.contract.json").read_text())["stablehlo"]
    assert about.pop("jaxlib")
    assert about == {"jax": jax.__version__, "loads_until": until, "renew": again}
    loaded = hm.load("runs/mine")
    agent, positions = loaded.agent(), first_positions(loaded.environment, 5)
    right = wanted(agent, positions, ())
    model = Path("agent.onnx").read_bytes()
    assert_onnx_plays(agent, loaded.environment, positions, right, model)
    assert json.loads(Path("agent.json").read_text())["environment"] == "CartPole"
    assert_refused(
        invoke("export", "runs/mine", "--format", "npz", "--output", "a.npz"),
        "runs/mine: --format npz: an .npz holds",
        "--observation classic",
    )


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        hm.ConfigError, match=r"this format needs the package onnx.*pip install '\.\[export\]'"
    ):
        export_agent(*agent_of("mlp", "classic"), tmp_path / "a", format="onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_command_refuses_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    export = ("export", "--format", "npz", "--output")
    assert_refused(
        invoke(*export, "a.npz", "pretrained"),
        "pretrained: --format npz: an .npz holds the network mlp",
        "--network mlp --observation classic",
    )
    assert_refused(invoke(*export, "a.npz", "random"), "random is no network", "pretrained")
    assert_refused(invoke(*export, "no/a.npz", "pretrained"), "--output no/a.npz: there is no")
    assert list(tmp_path.iterdir()) == []
