"""docs/metrics.md defines what is logged: all of it, and nothing else."""

import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.agent.networks import GRUActorCritic, MLPActorCritic
from hackmatrix_rl.algorithms.imitation._imitation import KINDS
from hackmatrix_rl.algorithms.imitation._labelling import Label
from hackmatrix_rl.algorithms.imitation._loss import Agreement
from hackmatrix_rl.algorithms.pqn import PQN
from hackmatrix_rl.algorithms.r2d2 import R2D2
from hackmatrix_rl.algorithms.self_play import Gate, Search, SelfPlay
from hackmatrix_rl.algorithms.supervised import (
    AnswerNetwork,
    Answers,
    Puzzle,
    Supervised,
    evaluation_numbers,
)
from hackmatrix_rl.env import Batched, CartPole, CliqueGame
from hackmatrix_rl.evaluation import Evaluation
from hackmatrix_rl.games.clique import CliqueConfig
from hackmatrix_rl.games.puzzles import sudokus
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs._wall_time import MFU, WallTime
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system import Usage
from hackmatrix_rl.training import (
    Dispatch,
    Population,
    PopulationBasedTraining,
    Trainer,
    evaluation_metrics,
    without_members,
)

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"

# Settings that log something of their own. Whatever logs more belongs in here.
EVERYTHING_ON: dict[str, object] = {
    "precision": "f16",
    "aux_coefficient": 0.1,
    "reward": "victory=0.1",
    "init": "a_run",
    "teacher_kl": "linear:0.5:0",
    "gamma": "linear:0.9:0.99",
    "ent_coef": "cosine:0.1:0@0.5",
}


def logged_by(algorithm):
    """The names that a training logs, from shapes alone: nothing is compiled."""
    trainer = Trainer(algorithm)
    _, report = eqx.filter_eval_shape(algorithm, trainer.abstract_state())
    # Ones: some episodes ended.
    sums = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), report)
    dispatch = Dispatch(count=1, updates=1, env_steps=1, seconds=1.0)
    metrics = algorithm.metrics(sums, dispatch)
    found = {*metrics.as_dict()}
    if isinstance(algorithm, Population):
        found |= {*without_members(metrics, {1}).as_dict()}
    kinds = {"setting/": "setting/NAME"} | {
        name: name for name in ("fitness", "parent", "left_out")
    }
    parts = [re.match(r"member/\d+/(setting/|fitness$|parent$|left_out$)?", name) for name in found]
    return {
        name if part is None else f"member/N/{kinds.get(part[1], 'NAME')}"
        for name, part in zip(found, parts, strict=True)
    }


def others():
    """Self-play, Q-learning, supervised learning, and several trainings in one program."""
    game, environment, key = CliqueGame(CliqueConfig(3, 3)), CartPole(), jax.random.key(0)
    mlp = MLPActorCritic(Batched(game).spec, width=8, depth=1, key=key)
    gru = GRUActorCritic(environment.spec, width=8, key=key)
    sizes = {"num_envs": 4, "buffer_size": 256, "sequence_batch_size": 4}
    search = SelfPlay(game, mlp, search=Search(2), gate=Gate(games=2))
    examples = sudokus(4, 4, seed=0)
    answering = AnswerNetwork(Batched(Puzzle(examples)).spec, width=8, heads=2, key=key)
    supervised = Supervised(examples, answering, global_batch_size=4)
    pqn = PQN(environment, gru)
    members = [PQN(environment, gru, gamma=gamma) for gamma in (0.9, 0.99)]
    based = PopulationBasedTraining(members, interval=1, fraction=0.5)
    several = Population(pqn, 2), based
    return search, supervised, pqn, R2D2(environment, gru, **sizes), *several


class Accelerator:
    """Tells what a GPU tells."""

    platform, local_hardware_id = "gpu", 0

    def memory_stats(self):
        return {"bytes_in_use": 1, "peak_bytes_in_use": 2}


def defined():
    names = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) == len(set(names)), "defined twice"
    return set(names)


def logged_by_imitation():
    """The names that only imitation logs."""
    zeros = jnp.zeros((1, 1), jnp.int32)
    labels = Label(zeros, zeros.astype(jnp.float32), zeros, zeros.astype(bool))
    agreement = Agreement.from_labels(labels, KINDS)
    ones = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), agreement)
    return {"cross_entropy", *ones.read()}


def logged_by_an_evaluation(names):
    """The names of its numbers, as the page writes them: for any of these names at once."""
    values = {name: np.ones(2) for name in names}
    found = evaluation_metrics(Evaluation(episodes=2, values=values, unfinished=0))
    by_name = {f"eval/{name}{end}": end for name in names for end in ("", "_low", "_high")}
    return {f"eval/NAME{by_name[each]}" if each in by_name else each for each in found}


@pytest.fixture(scope="module")
def logged():
    ticks = iter(range(10))
    usage = Usage([Accelerator()], utilization=lambda *_: 0.5, clock=lambda: next(ticks))
    game = compose(make_config("debug", EVERYTHING_ON), key=jax.random.key(0)).algorithm
    names = logged_by_imitation().union(*map(logged_by, (game, *others())))
    games = PAGE.read_text(encoding="utf-8").split("## Games")[1].split("## ")[0]
    evaluated = logged_by_an_evaluation(re.findall(r"^\| `([^`]+)` \|", games, re.MULTILINE))
    solved = evaluation_numbers(Answers(np.zeros((2, 2)), np.ones((2, 2), bool)))
    names |= {MFU, *usage.read(), *WallTime().read()}
    return names | evaluated | solved.keys()


def test_what_is_logged_is_what_is_defined(logged):
    assert logged - defined() == set(), "add these to docs/metrics.md"
    assert defined() - logged == set(), "take these out, or add their settings to EVERYTHING_ON"
