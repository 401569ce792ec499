"""Weights of the original project: read, written, trained on, and refused with the reason."""

import io
import pickle
import struct
import zipfile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cli.commands import assert_refused, done, invoke
from processes import python

import hackmatrix_rl as hm
from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.runs.checkpoints import CONVERSION
from runs.checkpoints.theirs import theirs

pytestmark = pytest.mark.view

WIDTH, DEPTH = 16, 2


def forward(arrays, seen):
    """Logits and value as that project computes them, in its order of the inputs."""
    hidden = np.concatenate([seen.player, seen.programs, np.asarray(seen.grid).ravel()])
    layers = [
        (arrays[f"params.Dense_{number}.kernel"], arrays[f"params.Dense_{number}.bias"])
        for number in range(DEPTH + 2)
    ]
    for kernel, bias in layers[:-2]:
        hidden = np.maximum(hidden @ kernel + bias, 0)
    logits, value = (hidden @ kernel + bias for kernel, bias in layers[-2:])
    return logits, value[0]


@pytest.fixture(scope="module")
def positions():
    """Some classic observations."""
    _, timestep = hm.HackMatrix(observation="classic").reset(jax.random.split(jax.random.key(0), 8))
    return [jax.tree.map(lambda leaf, i=i: leaf[i], timestep.observation) for i in range(8)]


def test_the_network_has_their_logits_and_their_value(tmp_path, positions):
    np.savez(tmp_path / "his.npz", **theirs())
    policy = hm.load_npz(tmp_path / "his.npz")
    assert isinstance(policy, hm.MLPActorCritic)
    for seen in positions:
        logits, value, _ = policy(seen, policy.initial_carry())
        wanted = forward(theirs(), seen)
        np.testing.assert_allclose(logits, wanted[0], atol=1e-5)
        np.testing.assert_allclose(value, wanted[1], atol=1e-5)


def test_a_written_file_holds_what_was_read_in_units_of_reward(tmp_path, positions):
    np.savez_compressed(tmp_path / "his.npz", **theirs())
    policy = hm.load_npz(tmp_path / "his.npz")
    hm.save_npz(policy, tmp_path / "back.npz")
    with np.load(tmp_path / "back.npz") as back:
        assert set(back) == set(theirs())
        for name, array in theirs().items():
            np.testing.assert_array_equal(back[name], array)
    scale = eqx.tree_at(
        lambda scale: (scale.mean, scale.variance), RunningScale(), (jnp.float32(5), jnp.float32(9))
    )
    hm.save_npz(policy, tmp_path / "scaled.npz", value_scale=scale)
    with np.load(tmp_path / "scaled.npz") as scaled:
        value = forward(scaled, positions[0])[1]
    assert value == pytest.approx(forward(theirs(), positions[0])[1] * 3 + 5, abs=1e-4)
    with pytest.raises(hm.ConfigError, match="compressed"):
        hm.save_npz(policy, tmp_path / "no.npz", value_scale=RunningScale(compress=True))


@pytest.mark.parametrize("observation", ["compact", "tactical"])
def test_a_network_over_another_observation_is_not_written(tmp_path, observation):
    spec = hm.HackMatrix(observation=observation).spec
    policy = hm.MLPActorCritic(spec, width=4, depth=1, key=jax.random.key(0))
    with pytest.raises(hm.ConfigError, match="--network mlp --observation classic"):
        hm.save_npz(policy, tmp_path / "no.npz")
    gru = hm.GRUActorCritic(spec, width=4, key=jax.random.key(0))
    with pytest.raises(hm.ConfigError, match="the network mlp, not GRUActorCritic"):
        hm.save_npz(gru, tmp_path / "no.npz")
    assert not (tmp_path / "no.npz").exists()


class Trap:
    """What a pickle can do."""

    def __reduce__(self):
        return (print, ("a pickle has run",))


def test_pickles_are_refused_with_the_script_that_converts_them(tmp_path, capsys):
    (tmp_path / "checkpoint_3.pkl").write_bytes(pickle.dumps(Trap()))
    np.savez(tmp_path / "odd.npz", **{"params.Dense_0.kernel": np.array([Trap()], object)})
    for name in ("checkpoint_3.pkl", "odd.npz"):
        with pytest.raises(hm.ConfigError, match="runs code when it is read") as error:
            hm.load_npz(tmp_path / name)
        assert "; ".join(CONVERSION) in str(error.value)
        assert_refused(
            invoke("train", "--algorithm", "ppo", "--init", tmp_path / name), "pickle", name
        )
    assert "a pickle has run" not in capsys.readouterr().out


def damaged(change):
    arrays = theirs()
    change(arrays)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def forged(header="", data=b"", *, name="params.Dense_0.kernel.npy", how=zipfile.ZIP_STORED):
    """An archive with one member, whose header is what a forger writes."""
    file = io.BytesIO()
    begin = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with zipfile.ZipFile(file, "w", how) as archive:
        archive.writestr(name, begin + data)
    return file.getvalue()


def bomb():
    """A member that says that it unpacks to far more than the file has."""
    size = 12345
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("params.Dense_0.kernel.npy", bytes(size))
    return file.getvalue().replace(struct.pack("<I", size), struct.pack("<I", 2**31))


def patched(offset, value):
    """An archive whose description of its member has other bytes at a place."""
    content = forged(FLOATS % "16", bytes(64))
    at = content.index(b"PK\x01\x02") + offset
    return content[:at] + value + content[at + len(value) :]


def many():
    """A file of nothing but descriptions of members."""
    return (b"PK\x01\x02" + bytes(42)) * 1000


FLOATS = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }"
WORDS = "its array params.Dense_0.kernel is "
FORGED = [
    *((forged(FLOATS % shape), WORDS) for shape in ("-1", "2**40", "1" * 600, "4 4", "16L")),
    *((forged(header), WORDS) for header in ("", "{", "(" * 900, "[" * 999, "'", "{'descr': 3}")),
    *((forged(header), WORDS) for header in ("\\", "\n  x\n y", "{'descr': '<f4'}", "\x1b[2J")),
    (forged(FLOATS % 2**40), "another size than its shape says"),
    (forged(FLOATS % f"0, {2**62}, {2**62}"), WORDS),
    (forged(FLOATS.replace(",)", ")") % f"0, {2**62}, {2**62}"), "no .npz file"),
    (forged(FLOATS.replace(",)", ")") % ", ".join("0" * 99)), "no .npz file"),
    (forged(FLOATS.replace("<f4", "<M8[ns]") % 2, bytes(16)), "not of floats"),
    (forged(FLOATS.replace("<f4", "<f16") % 1, bytes(16)), "is of dtype <f16"),
    (forged(FLOATS % 16, bytes(64), how=zipfile.ZIP_LZMA), "compressed as NumPy never does"),
    (forged(FLOATS % 16, bytes(64), how=zipfile.ZIP_BZIP2), "compressed as NumPy never does"),
    (forged(name="\u202e.npy"), r"its array \\u202e is "),
    (patched(8, b"\x01\x00"), "encrypted"),
    (patched(10, b"\x0e\x00"), "compressed as NumPy never does"),  # lzma, but it is not
    (patched(42, b"\xff\xff\xff\x7f"), "no .npz file"),  # begins where no file ends
    (patched(8, b"\x00\x08").replace(b".Dense", b"\xff\xfeense"), "no .npz file"),  # no UTF-8
    (many(), "unpacks to more than"),
]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no .npz file"),
        (b"PK\x03\x04" + bytes(50), "no .npz file"),
        (lambda: damaged(lambda a: None)[:-900], "no .npz file"),
        (bomb, "unpacks to more than"),
        *FORGED,
        (lambda: damaged(lambda a: a.pop("params.Dense_1.bias")), "lacks the kernel or the bias"),
        (lambda: damaged(lambda a: a.update(weights=np.zeros(3))), "has weights, not a layer"),
        (
            lambda: damaged(lambda a: a["params.Dense_1.kernel"].__setitem__((0, 0), np.nan)),
            "params.Dense_1.kernel holds NaN",
        ),
        (
            lambda: damaged(lambda a: a.update(theirs(inputs=1544))),
            r"params.Dense_0: kernel \[1544, 16\]",
        ),
        (lambda: damaged(lambda a: a.update(theirs(actions=27))), "params.Dense_2: kernel"),
        (
            lambda: damaged(lambda a: a.update({"params.Dense_0.bias": np.full(16, 1e300)})),
            "params.Dense_0.bias holds NaN or infinity",
        ),
        (
            lambda: damaged(lambda a: a.update({"params.Dense_0.bias": np.arange(16)})),
            "of dtype <i8, not of floats",
        ),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, content, words):
    file = tmp_path / "his.npz"
    file.write_bytes(content if isinstance(content, bytes) else content())
    with pytest.raises(hm.ConfigError, match=words) as error:
        hm.load_npz(file)
    assert str(error.value).startswith(f"{file}: ")
    assert str(error.value).isprintable()
    with pytest.raises(hm.ConfigError, match="there is no such file"):
        hm.load_npz(tmp_path / "none.npz")


SMALL = (
    *("--preset", "debug", "--device", "cpu", "--num-envs", 8, "--num-steps", 8),
    *("--updates-per-dispatch", 1, "--eval-episodes", 0, "--replays", 0),
)


def test_a_training_starts_from_their_weights_and_is_exported_back(here):
    np.savez("his.npz", **theirs())
    train = ("train", "--algorithm", "ppo", "--init", "his.npz", *SMALL, "--num-minibatches", 2)
    done(*train, "--total-timesteps", 256, "--run-dir", "runs/mine")
    config = hm.load("runs/mine").config
    assert (config.observation, config.network) == ("classic", "mlp")
    assert (config.width, config.depth, config.value_scale) == (WIDTH, DEPTH, "none")
    done("export", "mine", "--format", "npz", "--output", "back.npz")
    with np.load("back.npz") as back:
        assert set(back) == set(theirs())
        moved = [np.abs(back[name] - array).max() for name, array in theirs().items()]
    # 16 steps of Adam move a weight by less than that; other weights are further away.
    assert 0 < max(moved) < 0.05


def test_another_network_and_another_algorithm_are_named(here):
    np.savez("his.npz", **theirs())
    train = ("train", "--init", "his.npz", *SMALL)
    said = "trained with --width 16, but this training has --width 32"
    assert_refused(invoke(*train, "--algorithm", "ppo", "--width", 32), said)
    assert_refused(invoke(*train, "--algorithm", "pqn"), "one learns Q-values, the other a policy")
    assert not (here / "runs").exists()


def test_the_script_makes_a_file_that_is_read(tmp_path):
    """Flax is theirs, and a stand-in for its one function here."""
    tree = {"params": {}}
    for name, array in theirs().items():
        _, layer, kind = name.split(".")
        tree["params"].setdefault(layer, {})[kind] = array
    (tmp_path / "checkpoint_N.pkl").write_bytes(pickle.dumps({"params": tree}))
    (tmp_path / "flax.py").write_text(
        "class traverse_util:\n"
        "    def flatten_dict(tree, sep):\n"
        "        inner = tree['params']\n"
        "        return {sep.join(('params', layer, kind)): array\n"
        "                for layer, each in inner.items() for kind, array in each.items()}\n"
    )
    python("-c", "\n".join(CONVERSION), cwd=tmp_path)
    policy = hm.load_npz(tmp_path / "his.npz")
    np.testing.assert_array_equal(policy.layers[1].weight, theirs()["params.Dense_1.kernel"])
