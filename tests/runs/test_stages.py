"""A training in stages: one folder, one curve, one resume, whichever stage it was stopped in."""

import errno
import signal
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from algorithms import fingerprints
from cli.commands import assert_refused, done, invoke
from processes import assert_same_end, copy_stopped_after, finish, start, wait_for

import hackmatrix_rl as hm
from hackmatrix_rl.runs import config_here, launch
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_arrays, read_metadata
from hackmatrix_rl.runs.config import (
    config_from_dict,
    make_stages,
    read_settings,
    recipe_file,
    recipe_names,
)
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system import ExitCode, read_json
from hackmatrix_rl.training._program import LoweredProgram

UPDATE = 8 * 8
RECIPE = f"""
preset = "debug"
network = "mlp"
num_envs = 8
num_steps = 8
width = 8
max_enemies = 4
max_transmissions = 4
history = 1
max_steps = 50
updates_per_dispatch = 1
eval_episodes = 0
save_interval = 2
keep = 100

[[stage]]
algorithm = "imitation"
teacher = "runner"
buffer_size = {UPDATE}
total_timesteps = {4 * UPDATE}

[[stage]]
algorithm = "ppo"
gamma = "linear:0.9:0.99"
total_timesteps = {6 * UPDATE}
"""


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run that was never stopped, and the file of its stages."""
    folder = tmp_path_factory.mktemp("stages")
    file = folder / "recipe.toml"
    file.write_text(RECIPE)
    told = done("train", "--recipe", file, "--run-dir", folder / "run")
    assert "the next stage: ppo" in told.output
    return folder / "run", file


def test_the_counters_go_on_and_the_second_stage_has_the_weights_of_the_first(straight, request):
    run, _ = straight
    rows = read_json_lines(run / "metrics.jsonl")
    assert [row["updates"] for row in rows] == list(range(1, 11))
    assert [row["env_steps"] for row in rows] == [UPDATE * n for n in range(1, 11)]
    assert "approx_kl" not in rows[3]
    assert "approx_kl" in rows[4]
    stored = config_from_dict(read_json(run / "config.json"))
    assert (stored.algorithm, stored.begun_at, stored.then) == ("ppo", 4 * UPDATE, None)
    first = read_metadata(find_checkpoint(run / "checkpoints" / "4"))
    assert first["config"]["algorithm"] == "imitation"
    assert first["config"]["then"]["algorithm"] == "ppo"
    # Schedules begin with their stage.
    assert rows[4]["gamma"] == pytest.approx(0.9)
    assert rows[4]["learning_rate"] == pytest.approx(0.001)
    assert hm.load(run).config.algorithm == "ppo"
    end = read_arrays(find_checkpoint(run), "training").arrays.values()
    write = request.config.getoption("--write-fingerprints")
    fingerprints.check("stages", fingerprints.digest([*map(np.asarray, end)]), write=write)


@pytest.mark.parametrize("stopped_at", [2, 4, 8], ids=["first stage", "between", "second stage"])
def test_a_run_that_is_stopped_in_any_stage_ends_in_the_same_bits(straight, tmp_path, stopped_at):
    run, _ = straight
    again = copy_stopped_after(run, stopped_at, tmp_path / "run")
    done("train", "--resume-run", again)
    assert_same_end(run, again)
    rows = [read_json_lines(each / "metrics.jsonl") for each in (run, again)]
    assert [row["updates"] for row in rows[1]] == [row["updates"] for row in rows[0]]


def test_a_stage_whose_end_a_full_disk_does_not_take_is_not_left(straight, tmp_path, monkeypatch):
    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    run, _ = straight
    again = copy_stopped_after(run, 2, tmp_path / "run")
    monkeypatch.setattr("hackmatrix_rl.runs.checkpoints._writer.write_manifest", full)
    ended = invoke("train", "--resume-run", again)
    assert ended.exit_code == ExitCode.UNSAVED, ended.output
    assert f"stopped at {4 * UPDATE} steps; NOT saved" in ended.output
    assert [row["updates"] for row in read_json_lines(again / "metrics.jsonl")] == [1, 2, 3, 4]


@pytest.fixture
def compiled(monkeypatch):
    """For each update that is compiled, whether that is in the background."""
    found = []

    def compile(lowered):
        result = original(lowered)
        found.append(threading.current_thread() is not threading.main_thread())
        return result

    original = LoweredProgram.compile
    monkeypatch.setattr(LoweredProgram, "compile", compile)
    return found


TWO_STAGES = f"""
preset = "debug"
env = "cartpole"
network = "mlp"
num_envs = 8
num_steps = 8
width = 8
mesh = "data=1"
updates_per_dispatch = 1
eval_episodes = 0

[[stage]]
algorithm = "ppo"
total_timesteps = {3 * UPDATE}

[[stage]]
algorithm = "ppo"
gamma = 0.9
total_timesteps = {2 * UPDATE}
"""


class Waits(hm.Hook):
    """Ends no stage before `there()`."""

    def __init__(self, there):
        self.there = there

    def after_dispatch(self, trainer, metrics):
        if metrics.updates == 2:
            wait_for(self.there)


def two_stages(tmp_path, hooks=()):
    file = tmp_path / "recipe.toml"
    file.write_text(TWO_STAGES)
    settings = read_settings(file)
    config = replace(stages_of(settings), run_dir=str(tmp_path / "run"))
    with launch(config) as ready:
        return ready.run(ready.open_folder(), hooks=hooks)


def test_the_next_stage_is_compiled_once_and_before_the_one_before_it_ends(tmp_path, compiled):
    ended = two_stages(tmp_path, [Waits(lambda: len(compiled) == 2)])
    assert ended.exit_code is ExitCode.DONE
    assert ended.update == 5
    assert compiled == [True, True]


def test_an_error_of_the_next_stages_compilation_ends_the_run_as_that_stage_begins(
    tmp_path, monkeypatch, compiled
):
    class CompilerError(RuntimeError):
        pass

    def fails(lowered):
        if compiled:
            raise CompilerError("no such kernel")
        return counted(lowered)

    counted = LoweredProgram.compile
    monkeypatch.setattr(LoweredProgram, "compile", fails)
    with pytest.raises(CompilerError, match="no such kernel"):
        two_stages(tmp_path)
    metadata = read_metadata(find_checkpoint(tmp_path / "run"))
    assert (metadata["update"], metadata["config"]["algorithm"]) == (3, "ppo")
    assert "the next stage: ppo" in (tmp_path / "run" / "log.txt").read_text()


def test_what_was_compiled_for_another_end_of_the_stage_is_not_used(
    tmp_path, monkeypatch, compiled
):
    monkeypatch.setattr("hackmatrix_rl.runs._next_stage.updates_until", lambda *_: 7)
    assert two_stages(tmp_path, [Waits(lambda: len(compiled) == 2)]).update == 5
    assert len(compiled) == 3


COMPILES_FOR_EVER = """
import sys, time
from hackmatrix_rl.cli import main
from hackmatrix_rl.training._program import LoweredProgram

def compile(lowered, compiled=LoweredProgram.compile, calls=[]):
    calls.append(lowered)
    while len(calls) > 1:
        print("compiling without end", flush=True)
        time.sleep(3600)
    return compiled(lowered)

LoweredProgram.compile = compile
main(sys.argv[1:])
"""


def test_a_signal_ends_a_run_whose_next_stage_is_still_compiled(tmp_path):
    file, run = tmp_path / "recipe.toml", tmp_path / "run"
    endless = 10**6 * UPDATE
    file.write_text(
        TWO_STAGES.replace(f"total_timesteps = {3 * UPDATE}", f"total_timesteps = {endless}")
    )
    process = start(
        *(sys.executable, "-c", COMPILES_FOR_EVER, "train", "--recipe", file, "--run-dir", run),
        JAX_PLATFORMS="cpu",
    )
    for line in process.stdout:
        if "compiling without end" in line:
            break
    process.send_signal(signal.SIGTERM)
    status, output = finish(process)
    assert status == ExitCode.TERMINATED, output
    assert "; saved" in output
    assert read_metadata(find_checkpoint(run))["update"] > 0


def stages_of(settings, given=None):
    stages = settings.pop("stages")
    return make_stages(settings.pop("preset"), settings, stages, given or {})


def test_a_typed_length_is_that_of_all_stages_and_a_flag_counts_where_it_belongs(straight):
    _, file = straight
    first = stages_of(read_settings(file), {"total_timesteps": 100 * UPDATE})
    assert [each.total_timesteps for each in first.stages] == [40 * UPDATE, 60 * UPDATE]
    # As the command line gives it: among the settings, too.
    shorter = {"total_timesteps": 2_700_000}
    stages = {"stages": [{"algorithm": "imitation"}, {"algorithm": "ppo"}]}
    first = config_here("cpu", stages | shorter, given=shorter)
    assert [each.total_timesteps for each in first.stages] == [300_000, 2_400_000]
    _, file = straight
    first = stages_of(read_settings(file), {"ent_coef": 0.5, "num_envs": 4})
    assert first.then.ent_coef == 0.5
    assert [each.num_envs for each in first.stages] == [4, 4]
    with pytest.raises(hm.ConfigError, match="--sequence-length 4: a setting of --algorithm r2d2"):
        stages_of(read_settings(file), {"sequence_length": 4})


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ('[[stage]]\nalgorithm = "ppo"\n[[stage]]\nalgorithm = "r2d2"\n', "cannot start from"),
        ("[[stage]]\nnum_envs = 8\n", "stage 1: names no algorithm"),
        ('[[stage]]\nalgorithm = "ppo"\n[[stage]]\nalgorithm = "pqn"\n', "one learns Q-values"),
        (
            'env = "cartpole"\nnetwork = "mlp"\n[[stage]]\nalgorithm = "ppo"\n'
            '[[stage]]\nalgorithm = "ppo"\nnum_steps = 134217727\n',
            "--num-steps 134217727: needs at least",
        ),
        ("stage = 3\n", "must be tables, each under [[stage]]"),
        ('[[stage]]\nalgorithm = "ppo"\nlr = 1\n', "stage 1: unknown setting 'lr'"),
        *(
            (
                f'[[stage]]\nalgorithm = "ppo"\n{setting}\n',
                f"stage 1: {name}: a setting of the full run",
            )
            for name, setting in {
                "checkpoint_dir": "checkpoint_dir = 'c'",
                "tracker": "tracker = 'wandb'",
                "wandb_mode": "wandb_mode = 'offline'",
                "cpu_devices": "cpu_devices = 2",
            }.items()
        ),
    ],
)
def test_stages_that_cannot_work_are_refused_by_number(tmp_path, stages, said):
    file = tmp_path / "r.toml"
    file.write_text('preset = "debug"\n' + stages)
    assert_refused(invoke("train", "--recipe", file, "--run-dir", tmp_path / "run"), said)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_of_the_package_is_valid_and_starts_from_no_file(name):
    settings = read_settings(recipe_file(name))
    stages = settings.pop("stages")
    first = make_stages("cpu", settings, stages, {})
    # An agent that is shipped now would be another one after the next shipping.
    assert first.init is None or first.init.startswith("pretrained@")
    assert len(first.stages) == len(stages) > 0


def test_a_recipe_is_found_by_its_name():
    assert "default" in recipe_names()
    assert_refused(invoke("train", "--recipe", "defualt"), "Did you mean default?")
    said = "--recipe default: algorithm also chooses the algorithm"
    assert_refused(invoke("train", "--recipe", "default", "--algorithm", "ppo"), said)
