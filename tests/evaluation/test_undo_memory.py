"""Greedy play does not repeat what UNDO took back."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.env import Number
from hackmatrix_rl.evaluation import PolicyAgent, UndoMemory
from hackmatrix_rl.evaluation._evaluate import _player
from hackmatrix_rl.evaluation._undo_memory import LARGEST
from hackmatrix_rl.games.hackmatrix import Action

pytestmark = pytest.mark.view

ENVIRONMENT = hm.HackMatrix(max_steps=20)
KEY = jax.random.key(0)
arrive, leave = eqx.filter_jit(UndoMemory.arrive), eqx.filter_jit(UndoMemory.leave)
UP, LEFT, UNDO = Action.UP, Action.LEFT, Action.UNDO


@pytest.fixture(scope="module")
def observation():
    _, timestep = jax.jit(ENVIRONMENT.reset)(jax.random.split(KEY, 1))
    return jax.tree.map(lambda leaf: leaf[0], timestep.observation)


def costs_of(observation, moves):
    """What the memory subtracts before each of `moves` (stage, turn, action), by action."""
    memory = UndoMemory(cost=1.0)
    undone, costs = memory.initial(), []
    for stage, turn, action in moves:
        numbers = observation.numbers.at[Number.STAGE].set(stage).at[Number.TURN].set(turn)
        seen = eqx.tree_at(lambda each: each.numbers, observation, numbers)
        cost, undone = arrive(memory, undone, seen)
        undone = leave(memory, undone, jnp.int32(action))
        costs.append({Action(each): float(cost[each]) for each in np.flatnonzero(cost)})
    return costs


def test_what_undo_took_back_costs_on_its_turn_until_the_stage_ends(observation):
    moves = [
        *((1, 1, UP), (1, 2, LEFT), (1, 3, UNDO)),
        (1, 2, UNDO),  # back on turn 2: LEFT was taken back
        (1, 1, UP),  # back on turn 1: UP was
        (1, 2, UP),  # on turn 2 by another way
        (1, 3, UNDO),
        (1, 2, LEFT),
        *((2, 4, UP), (2, 5, UNDO), (2, 4, UP)),
    ]
    assert costs_of(observation, moves) == [
        *({}, {}, {}),
        *({LEFT: 1}, {UP: 1}, {LEFT: 1}, {}, {LEFT: 1, UP: 1}),
        *({}, {}, {UP: 1}),
    ]


def test_a_stage_may_be_longer_than_the_memory_and_a_loop_longer_than_the_count(observation):
    long = [(1, turn, UP) for turn in range(1, 200)]
    assert costs_of(observation, long) == [{}] * len(long)
    loop = [(1, 1, UP), (1, 2, UNDO)] * (LARGEST + 3)
    assert costs_of(observation, loop)[-2] == {UP: LARGEST}


def test_each_greedy_player_of_hackmatrix_remembers_and_no_other():
    policy = hm.build_network("mlp", ENVIRONMENT.spec, width=8, depth=1, key=KEY)
    player = PolicyAgent(policy).likeliest(ENVIRONMENT)
    assert player.greedy
    assert player.undo_memory is not None
    loaded = hm.load("pretrained")
    assert loaded.agent(greedy=True).undo_memory is not None
    assert loaded.agent().undo_memory is None
    cartpole = hm.CartPole()
    other = PolicyAgent(hm.build_network("mlp", cartpole.spec, width=8, depth=1, key=KEY))
    assert other.likeliest(cartpole).undo_memory is None
    classic = hm.HackMatrix(observation="classic")
    assert PolicyAgent(policy).likeliest(classic).undo_memory is None
    assert eqx.tree_equal(_player(policy, ENVIRONMENT, greedy=True), player)
