"""Every command that a run advises works as printed."""

import re
import shlex

import pytest

from hackmatrix_rl.cli._train import next_steps
from hackmatrix_rl.runs.config import config_from_dict
from hackmatrix_rl.system import read_json

from .commands import done, invoke

TINY = ("--num-envs", 8, "--num-steps", 4, "--num-minibatches", 2, "--width", 8)
SHORT = ("--total-timesteps", 64, "--updates-per-dispatch", 4, "--mesh", "data=1")
PLAYED = (*SHORT, "--eval-episodes", 2)
REPLAY = ("--buffer-size", 256, "--sequence-batch-size", 8, "--learning-starts", 0)
BOARD = (
    *("--vertices", 4, "--num-simulations", 4, "--width", 8, "--game-batch-size", 8),
    *("--moves-per-update", 4, "--training-batch-size", 16, "--train-steps", 2, "--opening", 1),
    *("--buffer-size", 96, "--num-games", 20, "--league-games", 0),
)
OWN = """
import jax.numpy as jnp

import hackmatrix_rl as hm
from hackmatrix_rl.evaluation import RandomAgent


class Corridor(hm.SingleGame):
    num_actions = 2

    def start(self, *, key):
        return jnp.int32(0)

    def observe(self, state):
        return state[None].astype(jnp.float32)

    def play(self, state, action, *, key):
        after = state + action
        return hm.Played(after, jnp.float32(-1), after >= 3)

    def render(self, state):
        return "." * int(state) + "@"


def make(max_steps: int = 9):
    return hm.Batched(Corridor(), max_steps=max_steps)


def network(spec, *, width=8, key):
    return hm.MLPActorCritic(spec, width=width, depth=1, key=key)


def board(spec, *, width, key):
    return hm.build_network("mlp", spec, width=width, key=key)


def teach(environment):
    return RandomAgent()
"""
OURS = ("--env", "my_games:make")
RUNS = {
    "built in": ("train", "--env", "cartpole", *TINY, *PLAYED),
    "own": ("train", *OURS, "--network", "my_games:network", *TINY, *PLAYED),
    "taught": (
        *("train", *OURS, "--algorithm", "imitation", "--teacher", "my_games:teach"),
        *("--buffer-size", 64, *TINY, *PLAYED),
    ),
    "Q-learning": (
        *("train", *OURS, "--algorithm", "r2d2", "--network", "gru", "--num-envs", 8),
        *("--width", 8, *REPLAY, *PLAYED),
    ),
    "several": ("train", *OURS, "--seeds", 2, *TINY, *PLAYED),
    "of two players": ("selfplay", "--network", "my_games:board", *BOARD),
}
# What is added to a training that the advice begins: it is long, otherwise.
BRIEF = {"taught": "--dry-run"}


def commands_in(lines):
    """The commands of lines such as `Resume:  hackmatrix-rl train ...`, without the program."""
    found = (re.fullmatch(r"[A-Z][\w ]*:  hackmatrix-rl (.*)", line) for line in lines)
    return [shlex.split(each[1]) for each in found if each is not None]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The module of somebody's own, in the working directory, whose name is not a plain word."""
    folder = tmp_path / "my games"
    folder.mkdir()
    (folder / "my_games.py").write_text(OWN)
    monkeypatch.chdir(folder)
    return folder


NIGHTLY = ("built in", "Q-learning", "several", "of two players")


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=[pytest.mark.nightly] * (each in NIGHTLY)) for each in RUNS]
)
def test_each_command_that_a_run_advises_works_as_printed(own, monkeypatch, kind):
    run = own / "run of mine"
    printed = done(*RUNS[kind], "--run-dir", run).output
    advised = commands_in(printed.splitlines())
    assert advised
    if kind != "of two players":
        config = config_from_dict(read_json(run / "config.json"))
        advised += commands_in(next_steps(config, run, done=False))
    monkeypatch.setattr("hackmatrix_rl.view.ui.serve", lambda *_, **__: True)
    for command in advised:
        monkeypatch.setenv(
            "HACKMATRIX_RL_FLAGS", BRIEF.get(kind, "") if "--init" in command else ""
        )
        result = invoke(*command)
        assert result.exit_code == 0, (command, result.output)
