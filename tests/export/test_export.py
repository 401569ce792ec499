"""Exported agents give the logits, values and memories of their networks."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import export_agent as example
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from cli.commands import assert_refused, done, invoke

import hackmatrix_rl as hm
from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.export import as_json, as_onnx, as_stablehlo, contract, export_agent

WIDTH = 16
KINDS = (("mlp", "classic"), ("cells", "tactical"), ("gru", "compact"))

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


def agent_of(network, observation, **more):
    """An agent with weights that say something, in units of reward that are not the network's."""
    environment = hm.HackMatrix(observation=observation)
    policy = hm.build_network(network, environment.spec, width=WIDTH, key=jax.random.key(3), **more)
    policy = jax.tree.map(lambda leaf: leaf + 0.05 if eqx.is_array(leaf) else leaf, policy)
    scale = eqx.tree_at(lambda scale: (scale.mean, scale.variance), RunningScale(), (3.0, 4.0))
    scale = jax.tree.map(jnp.float32, scale)
    return PolicyAgent(policy, value_scale=scale, gamma=0.99), environment


def carries_of(agent, count):
    """The memory in the middle of a game: one for each position."""
    empty = agent.initial_carry()
    return jax.tree.map(lambda leaf: jnp.full((count, *leaf.shape), 0.25), empty)


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


def is_array_in_lists(node):
    return isinstance(node, list) and not isinstance(node[0], dict)


def assert_numpy_plays(agent, environment, timestep):
    """The reader of the example, from what a file would hold."""
    count = len(timestep.mask)
    carries = carries_of(agent, count)
    read = json.loads(json.dumps(as_json(agent, environment)))
    # Once, where the reader would for each position: the lists are long.
    read["layers"] = jax.tree.map(
        lambda numbers: np.array(numbers, np.float32), read["layers"], is_leaf=is_array_in_lists
    )
    features = jax.jit(jax.vmap(environment.spec.encode))(timestep.observation)
    positions = [np.asarray(each) for each in (features.grid, features.flat, timestep.mask)]
    memories = np.asarray(carries) if jax.tree.leaves(carries) else [None] * count
    answers = [example.play(read, *each) for each in zip(*positions, memories, strict=True)]
    for place, array in enumerate(wanted(agent, timestep, carries)):
        answer = np.stack([each[place] for each in answers])
        np.testing.assert_allclose(answer, array, atol=2e-5, rtol=1e-5)


def assert_onnx_plays(agent, environment, timestep, model=None):
    """The graph, by onnxruntime, in batches of two sizes."""
    model = model or as_onnx(agent, environment)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map["contract"]
    assert json.loads(about) == contract(agent, environment)
    carries = carries_of(agent, len(timestep.mask))
    features = jax.jit(jax.vmap(environment.spec.encode))(timestep.observation)
    given = {"grid": features.grid, "flat": features.flat, "mask": timestep.mask}
    if jax.tree.leaves(carries):
        given["carry"] = carries
    assert [each.name for each in session.get_inputs()] == [*given]
    right = wanted(agent, timestep, carries)
    names = ["logits", "value", "next_carry"][: len(right)]
    for batch in (1, len(timestep.mask)):
        answers = session.run(names, {name: np.asarray(x)[:batch] for name, x in given.items()})
        for answer, array in zip(answers, right, strict=True):
            np.testing.assert_allclose(answer, array[:batch], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize(  # the shipped agent has cells, too
    ("network", "observation"),
    [pytest.param(*each, marks=[pytest.mark.nightly] * (each[0] == "cells")) for each in KINDS],
)
def test_onnxruntime_plays_the_graph(network, observation):
    agent, environment = agent_of(network, observation)
    assert_onnx_plays(agent, environment, first_positions(environment, 200))


@pytest.mark.parametrize(  # the shipped agent has cells, too
    ("network", "observation"),
    [pytest.param(*each, marks=[pytest.mark.nightly] * (each[0] == "cells")) for each in KINDS],
)
def test_numpy_plays_the_json(network, observation):
    agent, environment = agent_of(network, observation)
    assert_numpy_plays(agent, environment, first_positions(environment, 200))


@pytest.mark.nightly
@pytest.mark.parametrize(("network", "observation"), KINDS)
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
    assert_numpy_plays(agent, environment, timestep)
    assert_onnx_plays(agent, environment, timestep)
    program = jax.export.deserialize(bytearray(as_stablehlo(agent, environment)))
    carries = carries_of(agent, len(mask))
    answers = program.call(*jax.tree.leaves(seen), mask, *jax.tree.leaves(carries))
    for answer, array in zip(answers, wanted(agent, timestep, carries), strict=True):
        np.testing.assert_allclose(answer, array, atol=2e-5, rtol=1e-5)


def test_the_reader_is_short_and_needs_numpy_alone():
    source = inspect.getsource(example)
    reader = source[source.index("# The reader") : source.index("# The end of the reader")]
    assert len(reader.splitlines()) <= 40
    assert "hm." not in reader
    assert "jax" not in reader


@pytest.mark.parametrize(
    ("network", "observation"),
    [pytest.param(*each, marks=[pytest.mark.nightly] * (each[0] != "gru")) for each in KINDS],
)
def test_jax_alone_plays_a_batch_of_any_size(network, observation, tmp_path):
    agent, environment = agent_of(network, observation)
    timestep = first_positions(environment, 200)
    carries = carries_of(agent, 200)
    files = export_agent(agent, environment, tmp_path / "agent.bin", format="stablehlo")
    assert [file.name for file in files] == ["agent.bin", "agent.bin.contract.json"]
    arrays = [*jax.tree.leaves(timestep.observation), timestep.mask, *jax.tree.leaves(carries)]
    np.savez(tmp_path / "arrays.npz", *arrays)
    alone = [sys.executable, "-c", JAX_ALONE, "agent.bin", "arrays.npz"]
    subprocess.run(alone, cwd=tmp_path, check=True)
    right = wanted(agent, timestep, carries)
    for batch in (1, 200):
        with np.load(tmp_path / f"answers{batch}.npz") as answers:
            assert len(answers.files) == len(right)
            for answer, array in zip(answers.values(), right, strict=True):
                np.testing.assert_allclose(answer, array[:batch], atol=2e-5, rtol=1e-5)


def test_the_contract_names_what_a_program_must_know():
    agent, environment = agent_of("gru", "compact")
    about = contract(agent, environment)
    assert about["rules"] == "1"
    assert about["league"] == "original"
    assert about["network"] == {
        "name": "gru",
        "carry": [{"name": "carry", "shape": [WIDTH], "dtype": "float32"}],
    }
    assert about["actions"]["names"] == [each.name for each in hm.Action]
    spec = environment.spec.observation
    assert [(each["name"], tuple(each["shape"])) for each in about["observation"]["arrays"]] == [
        ("numbers", spec.numbers.shape),
        ("programs", ()),
        ("grid", (36,)),
    ]


def test_other_networks_and_values_are_refused_by_name(tmp_path):
    agent, environment = agent_of("conv", "compact")
    with pytest.raises(hm.ConfigError, match=r"ConvActorCritic is not exported; mlp, cells, gru"):
        export_agent(agent, environment, tmp_path / "a", format="json")
    agent, environment = agent_of("mlp", "compact")
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
    positions = first_positions(loaded.environment, 20)
    assert_numpy_plays(loaded.agent(), loaded.environment, positions)
    done("export", "pretrained/no-rewind", "--format", "onnx", "--output", "agent.onnx")
    assert Path("agent.onnx.contract.json").exists()
    model = Path("agent.onnx").read_bytes()
    assert_onnx_plays(loaded.agent(), loaded.environment, positions, model)


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(hm.ConfigError, match=r"--format onnx needs .*pip install '\.\[export\]'"):
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
