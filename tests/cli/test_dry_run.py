"""`train --dry-run`: everything but the run."""

import shutil
from importlib.util import find_spec
from types import SimpleNamespace

import jax
import pytest

from hackmatrix_rl.runs import find_resumable_run
from hackmatrix_rl.runs._settings import check_network
from hackmatrix_rl.runs._words import plan_in_words
from hackmatrix_rl.system import Target, machines, target
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Trainer

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.processes


@pytest.mark.slow
def test_a_dry_run_says_what_would_be_done_and_leaves_nothing_behind(here):
    result = done("train", "--preset", "debug", "--mesh", "data=2", "--dry-run")
    for part in (
        *("Algorithm: ppo, the choice of --preset debug", "data=2: 2 x cpu"),
        *("2,048 in 8 updates of 256", "parameters", "on each device", "each device sends"),
    ):
        assert part in result.stdout
    assert list(here.iterdir()) == []


def test_a_network_that_is_the_same_is_not_refused(trained, monkeypatch):
    # A resumed run keeps its sizes, whatever devices there are.
    monkeypatch.setattr("hackmatrix_rl.runs._settings.games_of_devices", None)
    resumed = find_resumable_run(str(trained[0]))
    config = resumed.config({"depth": 2})
    assert config.depth != resumed.config({}).depth
    policy = config.policy(key=jax.random.key(0))
    check_network(resumed.path, resumed.checkpoint, resumed.config({}), config, policy)


SLICE = ("train", "--preset", "debug", "--mesh", "auto", "--dry-run", "--target", "v4-16")


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("libtpu", "2xv4-16", ("TPU's compiler is not installed", "tpu-plan")),
        ("jax_cuda13_plugin", "8xh100", ("GPU's compiler is not installed", "gpu-plan")),
    ],
)
def test_a_target_needs_the_compiler(here, module, name, said):
    if find_spec(module) is not None:
        pytest.skip("the compiler is installed")
    assert_refused(invoke(*SLICE[:-1], name), f"--target {name}", *said)


@pytest.fixture
def slice_of_cpus(monkeypatch):
    """Eight devices as the slice that `--target` names, with so many bytes each."""

    def give(memory):
        found = Target("v4-16", tuple(jax.devices()), memory)
        monkeypatch.setattr("hackmatrix_rl.system.target", lambda name: found)

    return give


def test_each_stage_is_planned_on_the_target(here, slice_of_cpus):
    slice_of_cpus(2**40)
    (here / "two.toml").write_text(
        '[[stage]]\nalgorithm = "imitation"\nteacher = "runner"\n[[stage]]\nalgorithm = "ppo"\n'
    )
    all_of_it = ("--mesh", "data=8", "--network", "mlp")
    planned = done(*SLICE, *all_of_it, "--recipe", "two.toml").stdout
    assert planned.count("data=8: 8 x cpu") == 2
    assert "Stage 2: ppo" in planned
    assert "of 1.0 TiB on each device" in planned
    other = invoke(*SLICE, "--mesh", "data=16")
    assert_refused(other, "--mesh data=16: needs 16 devices, but there are 8")
    other = invoke(*SLICE, "--mesh", "data=4", "--algorithm", "ppo")
    assert_refused(other, "--mesh data=4: leaves a process of the run without a device", "all 8")
    assert [each.name for each in here.iterdir()] == ["two.toml"]


def test_what_does_not_fit_into_the_target_is_refused(here, slice_of_cpus):
    slice_of_cpus(1000)
    refused = invoke(*SLICE, "--network", "mlp")
    assert_refused(refused, "--target v4-16: does not fit", "of 1000 bytes", "a smaller --num-envs")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("RESOURCE_EXHAUSTED: (40.1G) exceeds the limit (30.5G)", "a device needs 40.1GB in"),
        ("INTERNAL: no\nkernel", "the compiler for cpu failed: INTERNAL: no kernel."),
    ],
)
def test_what_the_compiler_says_is_one_line(here, monkeypatch, told, said):
    def fails(options):
        raise jax.errors.JaxRuntimeError(told)

    monkeypatch.setattr(Trainer, "lower", lambda trainer: SimpleNamespace(compile=fails))
    assert_refused(invoke("train", "--preset", "debug", "--dry-run"), said)


# What another game or network would change, what is said, and what is not reached.
CHANGED = {
    "--observation tactical": ("the run ... trained with --observation compact", "compose"),
    "--league no-rewind": ("the run ... trained with --league original ... --init", "compose"),
    "--width 24": ("the run ... with --width ... Leave --width out", "preflight"),
    "--network gru": ("the run ... with --network cells", "preflight"),
    "--aux-coefficient 0.5": ("the run ... --aux-coefficient 0.0", "preflight"),
}


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize("change", CHANGED)
def test_another_game_or_network_is_refused_by_its_flag(
    trained, tmp_path, monkeypatch, dry, change
):
    said, late = CHANGED[change]
    monkeypatch.setattr(f"hackmatrix_rl.runs._launch.{late}", None)
    # Its own copy: another worker may hold the lock of the shared run.
    run = shutil.copytree(trained[0], tmp_path / "run")
    refused = invoke("train", "--resume-run", run, *change.split(), *dry)
    assert_refused(refused, *f"{change}: {said}".split(" ... "))


def test_a_mesh_that_leaves_a_process_without_a_device_is_refused(here, monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    refused = invoke("train", "--preset", "debug", "--mesh", "data=2", "--dry-run")
    assert_refused(refused, "--mesh data=2: leaves a process of the run without a device")


@pytest.mark.parametrize(
    ("name", "hosts", "per_host", "topology"),
    [
        *(("v4-64", 8, 4, "2x4x4"), ("2xv5e-16", 8, 4, "4x4"), ("v5e-8", 1, 8, "2x4")),
        *(("h100", 1, 1, ""), ("8xh100", 1, 8, ""), ("16xh100", 2, 8, ""), ("3xcpu", 3, 1, "")),
        *(("8xrtx4090", 1, 8, ""), ("2xtpu7x-16", 4, 4, "2x2x2")),
    ],
)
def test_a_target_is_some_machines(name, hosts, per_host, topology):
    found = machines(name)
    assert (found.hosts, found.per_host, found.topology) == (hosts, per_host, topology)
    assert found.one == name.lstrip("0123456789").removeprefix("x")


@pytest.mark.parametrize(
    ("card", "shown", "said"),
    [
        ({"device_kind": "NVIDIA L4"}, "games  16,384, 16,384 on each device; 32 steps", ""),
        (
            {"device_kind": "New GPU"},
            "games  4,096, 4,096 on each device; 32 steps",
            "New GPU is unknown",
        ),
    ],
)
def test_a_target_shows_the_sizes_of_its_card(here, monkeypatch, card, shown, said):
    found = Target("there", (SimpleNamespace(platform="gpu", **card),), None)
    monkeypatch.setattr("hackmatrix_rl.system.target", lambda name: found)
    settings = "hackmatrix_rl.runs._settings"
    monkeypatch.setattr(f"{settings}.fitting", lambda stages, room, target, trust_code: room)

    def planned(config, target, *, trust_code):
        words = plan_in_words(config, 1)
        return SimpleNamespace(lines=lambda: [f"{name}  {text}" for name, text in words.items()])

    monkeypatch.setattr("hackmatrix_rl.runs.plan_for", planned)
    result = done("train", "--algorithm", "ppo", "--dry-run", "--target", "l4")
    assert shown in result.stdout
    assert result.stderr.startswith(said)
    assert len(result.stderr.splitlines()) == bool(said)


def test_the_cpu_stands_in_for_that_of_other_machines():
    assert target("2xcpu").devices == tuple(jax.devices("cpu")[:2])
    with pytest.raises(ConfigError, match="--target 99xcpu: the CPU counts as 8 devices here"):
        target("99xcpu")


def test_the_targets_are_listed():
    told = done("train", "--target", "list").stdout.split()
    assert {"v4-64", "v5e-4", "v5p-8", "v6e-8", "tpu7x-8", "cpu"} <= set(told)
