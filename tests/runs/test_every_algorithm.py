"""Algorithms in real processes, as users run them: killed, told to stop, and resumed.

PPO has `test_faults.py` and `test_verify_resume.py`, on CartPole.
"""

import signal
import sys
from dataclasses import replace

import pytest
from processes import assert_same_end, finish, start, wait_for_update

from hackmatrix_rl.algorithms.self_play import SelfPlayConfig
from hackmatrix_rl.runs._verify_resume import toml_of
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_metadata
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import read_json_lines

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.nightly]

GAME = {"max_enemies": 4, "max_transmissions": 4, "history": 1, "max_steps": 50}
SIZES = {"num_envs": 8, "num_steps": 8, "width": 8, "updates_per_dispatch": 1}
CONFIGS = {
    "imitation": make_config(
        "debug",
        {"algorithm": "imitation", "teacher": "runner", "buffer_size": 128, **GAME, **SIZES},
    ),
    "r2d2": make_config(
        "debug",
        {
            "algorithm": "r2d2",
            "prioritized": True,
            "burn_in": 2,
            "buffer_size": 256,
            **GAME,
            **{name: size for name, size in SIZES.items() if name != "num_steps"},
            "sequence_batch_size": 8,
        },
    ),
    "supervised": make_config(
        "debug",
        {
            "algorithm": "supervised",
            "ema": 0.9,
            "curriculum_recursion": 0.5,
            "halt_exploration": "linear:0.3:0.05",
            "updates_per_dispatch": 1,
        },
    ),
    "pqn": make_config("debug", {"algorithm": "pqn", "ema": 0.9, **GAME, **SIZES}),
    "self-play": SelfPlayConfig(
        vertices=4,
        opening=1,
        width=8,
        num_simulations=3,
        game_batch_size=8,
        moves_per_update=4,
        training_batch_size=16,
        train_steps=2,
        buffer_size=96,
        league_games=0,
    ),
}


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("algorithm", CONFIGS)
def test_a_run_that_is_killed_and_told_to_stop_ends_as_if_nothing_had_been(
    tmp_path, cache, algorithm, seeds
):
    config = replace(CONFIGS[algorithm].shorten(150), save_interval=20, seeds=seeds)
    command, settings = config.command, tmp_path / "settings.toml"
    settings.write_text(toml_of(config))
    run, straight = tmp_path / "run", tmp_path / "straight"

    def begin(*arguments):
        program = (sys.executable, "-m", "hackmatrix_rl", command)
        return start(*program, *arguments, JAX_COMPILATION_CACHE_DIR=cache)

    status, output = finish(begin("--config", settings, "--run-dir", straight))
    assert status == 0, output
    process = begin("--config", settings, "--run-dir", run)
    wait_for_update(run / "checkpoints", 20, process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    process = begin("--resume-run", run)
    reached = read_metadata(find_checkpoint(run))["update"]
    wait_for_update(run / "checkpoints", reached + 20, process)
    process.send_signal(signal.SIGTERM)
    status, output = finish(process)
    assert status == 128 + signal.SIGTERM, output
    assert "; saved" in output
    assert f"hackmatrix-rl {command} --resume-run {run}" in output
    stopped = read_metadata(find_checkpoint(run))["update"]
    assert stopped < read_metadata(find_checkpoint(straight))["update"]
    status, output = finish(begin("--resume-run", run))
    assert status == 0, output
    assert_same_end(straight, run)
    updates = [row["updates"] for row in read_json_lines(run / "metrics.jsonl")]
    assert updates == list(range(1, updates[-1] + 1)), "each update once, in order"
