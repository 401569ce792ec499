"""`train --dry-run`: everything but the run."""

import shutil
from importlib.util import find_spec

import jax
import pytest

from hackmatrix_rl.runs import find_resumable_run
from hackmatrix_rl.runs._settings import check_network
from hackmatrix_rl.system import Target

from .commands import assert_refused, done, invoke


@pytest.mark.slow
def test_a_dry_run_says_what_would_be_done_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = done("train", "--preset", "debug", "--mesh", "data=2", "--dry-run")
    for part in (
        *("Algorithm: ppo, the choice of --preset debug", "data=2: 2 x cpu"),
        *("2,048 in 8 updates of 256", "parameters", "on each device", "each device sends"),
    ):
        assert part in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_refuses_what_a_run_would(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    split = ("--mesh", "data=3", "--dry-run")
    assert_refused(invoke("train", "--preset", "debug", *split), "--num-envs 16", "over 3 devices")
    missing = ("--mesh", "data=11", "--dry-run")  # which divides no number of games either
    said = "--mesh data=11: needs 11 devices, but there are 8 cpu devices"
    assert_refused(invoke("train", "--preset", "cpu", *missing), said)


@pytest.mark.parametrize("option", ["--run-dir", "--checkpoint-dir"])
def test_a_dry_run_looks_whether_the_folders_can_be_had(tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    arguments = ("train", "--preset", "debug", "--dry-run", option)
    result = invoke(*arguments, tmp_path / "file" / "run")
    assert result.exit_code == 2
    assert f"{option} {tmp_path / 'file'}: cannot be written" in result.stderr
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.json").write_text("{}")
    result = invoke(*arguments, tmp_path / "taken")
    assert result.exit_code == 2
    assert f"{option} {tmp_path / 'taken'}: holds a run already" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"file", "taken"}


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("--observation", "tactical"),
            ("--observation tactical: the run", "trained with --observation compact"),
        ),
        (
            ("--league", "no-rewind"),
            ("--league no-rewind: the run", "trained with --league original", "--init"),
        ),
    ],
)
def test_a_run_of_another_game_is_refused_before_anything_is_built(
    trained, tmp_path, monkeypatch, dry, change, said
):
    monkeypatch.setattr("hackmatrix_rl.runs._launch.compose", None)
    # Its own copy: another worker may hold the lock of the shared run.
    run = shutil.copytree(trained[0], tmp_path / "run")
    assert_refused(invoke("train", "--resume-run", run, *change, *dry), *said)


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--width", 24), ("--width 24: the run", "with --width", "Leave --width out")),
        (("--network", "gru"), ("--network gru: the run", "with --network cells")),
        (("--aux-coefficient", 0.5), ("--aux-coefficient 0.5: the run", "--aux-coefficient 0.0")),
    ],
)
def test_another_network_is_refused_by_its_flag(trained, tmp_path, monkeypatch, dry, change, said):
    monkeypatch.setattr("hackmatrix_rl.runs._launch.preflight", None)  # it compiles
    # Its own copy: another worker may hold the lock of the shared run.
    run = shutil.copytree(trained[0], tmp_path / "run")
    assert_refused(invoke("train", "--resume-run", run, *change, *dry), *said)


def test_a_network_that_is_the_same_is_not_refused(trained):
    resumed = find_resumable_run(str(trained[0]))
    config = resumed.config({"depth": 2})
    assert config.depth != resumed.config({}).depth
    policy = config.policy(key=jax.random.key(0))
    check_network(resumed.path, resumed.checkpoint, resumed.config({}), config, policy)


SLICE = ("train", "--preset", "debug", "--dry-run", "--target", "v4-16")


def test_a_target_is_a_slice_that_there_is_and_only_planned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(invoke("train", "--target", "v4-64"), "--target v4-64: only plans", "--dry-run")
    unknown = invoke("train", "--dry-run", "--target", "v4-65")
    assert_refused(unknown, "--target v4-65: unknown", "v4-8 to v4-1024", "v5e-1 to v5e-256")
    assert_refused(invoke("train", "--dry-run", "--target", "9xh100"), "--target 9xh100: unknown")
    resumed = ("--dry-run", "--resume-run", "x", "--target", "v4-8")
    assert_refused(invoke("train", *resumed), "--target v4-8: plans a new run")
    assert {"v4-64", "v5e-4", "v5p-8", "v6e-8", "tpu7x-8"} <= set(
        done("train", "--target", "list").stdout.split()
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("libtpu", "2xv4-16", ("TPU's compiler is not installed", "tpu-plan")),
        ("jax_cuda13_plugin", "8xh100", ("GPU's compiler is not installed", "gpu-plan")),
    ],
)
def test_a_target_needs_the_compiler(tmp_path, monkeypatch, module, name, said):
    if find_spec(module) is not None:
        pytest.skip("the compiler is installed")
    monkeypatch.chdir(tmp_path)
    assert_refused(invoke(*SLICE[:-1], name), f"--target {name}", *said)


@pytest.fixture
def slice_of_cpus(monkeypatch):
    """Eight devices as the slice that `--target` names, with so many bytes each."""

    def give(memory):
        found = Target("v4-16", tuple(jax.devices()), memory)
        monkeypatch.setattr("hackmatrix_rl.system.target", lambda name: found)

    return give


def test_each_stage_is_planned_on_the_target(tmp_path, monkeypatch, slice_of_cpus):
    monkeypatch.chdir(tmp_path)
    slice_of_cpus(2**40)
    (tmp_path / "two.toml").write_text(
        '[[stage]]\nalgorithm = "imitation"\nteacher = "runner"\n[[stage]]\nalgorithm = "ppo"\n'
    )
    all_of_it = ("--mesh", "data=8", "--network", "mlp")
    planned = done(*SLICE, *all_of_it, "--recipe", "two.toml").stdout
    assert planned.count("data=8: 8 x cpu") == 2
    assert "Stage 2: ppo" in planned
    assert "of 1.0 TiB on each device" in planned
    other = invoke(*SLICE, "--mesh", "data=16")
    assert_refused(other, "--mesh data=16: needs 16 devices, but there are 8")
    assert [each.name for each in tmp_path.iterdir()] == ["two.toml"]


def test_what_does_not_fit_into_the_target_is_refused(tmp_path, monkeypatch, slice_of_cpus):
    monkeypatch.chdir(tmp_path)
    slice_of_cpus(1000)
    refused = invoke(*SLICE, "--network", "mlp")
    assert_refused(refused, "--target v4-16: does not fit", "of 1000 bytes", "a smaller --num-envs")
