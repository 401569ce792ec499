"""`compare`, with trainings that are over at once."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent import probes
from runs.test_compare import PROBE, network

from hackmatrix_rl import runs, system
from hackmatrix_rl.agent.precision import precision
from hackmatrix_rl.evaluation import judge
from hackmatrix_rl.runs import Comparison
from hackmatrix_rl.runs._compare import Contender, Measured

from .commands import assert_refused, done, invoke


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Trains on a probe by a config's precision, seed and learning rate; remembers configs."""
    seen = []

    def contender(config, name):
        seen.append((name, config))
        trainer = probes.make_trainer(
            PROBE,
            updates_per_dispatch=20,
            precision=precision(config.precision),
            learning_rate=float(config.rate()(jnp.float32(0))),
        )

        return Contender(name, trainer, network, config.total_timesteps)

    monkeypatch.setattr(runs, "contender", contender)
    return seen


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(f'preset = "debug"\n{text}\n')
    return [folder / f"{name}.toml" for name in files]


def test_a_contender_that_is_as_good_ends_with_0(tmp_path, small):
    (file,) = write(tmp_path, plain="learning_rate = 0.01")
    short = ("--seeds", 2, "--total-timesteps", 4000, "--episodes", 64)
    result = done("compare", file, file, *short, "--json")
    found = json.loads(result.stdout)
    assert found["verdict"] == "within"
    assert found["seeds"] == 2
    assert found["tolerance"] == 0.03
    assert found["divergence"] == [0.0, 0.0]
    assert found["baseline"]["return"]["mean"] == found["candidate"]["return"]["mean"]
    assert {config.total_timesteps for _, config in small} == {4000}
    assert "training with seed 1" in result.stderr


@pytest.fixture
def compared(monkeypatch):
    """Has the command believe that a comparison came to these returns."""

    def pretend(baseline, candidate):
        def compare(*contenders, seeds, episodes, note, on_progress):
            sides = []
            for returns in (baseline, candidate):
                each = [np.array(episodes) for episodes in returns]
                sides.append(Measured(12.5, 3 * 2**20, [1000.0, 2000.0, 6000.0], 7, each))
            return Comparison(
                names=tuple(contender.name for contender in contenders),
                measured=tuple(sides),
                judgement=judge(baseline, candidate),
                divergence=(0.25,),
                divergence_of_seeds=(),
                peak_bytes=100 * 2**20,
                device="a machine",
            )

        monkeypatch.setattr(runs, "compare", compare)

    return pretend


def test_what_is_worse_is_said_and_ends_with_10(tmp_path, compared):
    compared([[10.0, 10.0], [11.0, 11.0]], [[9.0, 9.0], [10.0, 10.0]])
    result = invoke("compare", *write(tmp_path, old="", new=""))
    assert result.exit_code == 10, result.output
    for word in ("old", "new", "2,000", "3.0 MiB", "12.5 s", "10.500 [4.147, 16.853]", "0.2500"):
        assert word in result.stdout
    assert "WORSE: the candidate is not within 3% of the baseline's return" in result.stdout
    assert "100 MiB" in result.stdout


def test_what_is_not_shown_is_said_with_what_would_show_it_and_ends_with_11(tmp_path, compared):
    compared([[100.0], [100.0], [100.0]], [[98.0], [100.0], [102.0]])
    result = invoke("compare", *write(tmp_path, old="", new=""))
    assert result.exit_code == 11, result.output
    assert "NOT SHOWN" in result.stdout
    assert "About 5 seeds would show it" in result.stdout


def test_files_of_one_name_are_told_apart(tmp_path, small, compared):
    compared([[1.0], [1.0]], [[1.0], [1.0]])
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, mine="learning_rate = 0.01")
    invoke("compare", tmp_path / "a/mine.toml", tmp_path / "b/mine.toml")
    assert len({name for name, _ in small}) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "compare takes two settings files, A.toml B.toml, not 0"),
        (["", "B.toml"], "compare takes two settings files, and the name of one is empty"),
        (["a.toml"], "not 1"),
        (["a.toml", "a.toml", "--precision"], "not 2"),
        (["a.toml", "missing.toml"], "missing.toml: No such file"),
        (["a.toml", "a.toml", "--seeds", "0"], "--seeds"),
        (["a.toml", "wrong.toml"], "--precision f8: unknown"),
        (["--precision", "--preset", "cpy"], "--preset cpy: unknown"),
    ],
)
def test_what_cannot_work_gets_one_line(arguments, says, here):
    write(here, a="learning_rate = 0.01", wrong='precision = "f8"')
    assert_refused(invoke("compare", *arguments), says)


def test_two_devices_are_refused(tmp_path, monkeypatch):
    files = write(tmp_path, a='device = "cpu"', b='device = "gpu"')
    monkeypatch.setattr(system, "select_device", lambda device: device)
    result = invoke("compare", *files)
    assert result.exit_code == 2
    assert "different devices (a: cpu and b: gpu)" in result.stderr
    assert jax.default_backend() == "cpu"


def test_precision_is_the_ready_case_of_a_preset_or_a_file(tmp_path, small, compared):
    compared([[1.0], [1.0]], [[1.0], [1.0]])
    found = json.loads(done("compare", "--precision", "--preset", "debug", "--json").stdout)
    assert (found["baseline"]["name"], found["candidate"]["name"]) == ("f32", "bf16")
    assert [(config.precision, config.num_envs) for _, config in small] == [
        *(("f32", 16), ("bf16", 16))
    ]
    small.clear()
    (file,) = write(tmp_path, mine='precision = "f16"\nwidth = 5')
    done("compare", "--precision", file)
    assert [(config.precision, config.width) for _, config in small] == [("f32", 5), ("bf16", 5)]
