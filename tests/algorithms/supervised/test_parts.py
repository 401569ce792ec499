"""The parts of supervised learning against numbers computed by hand."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.agent.networks import Thought
from hackmatrix_rl.algorithms.supervised import Answers, Curriculum, Halting, Puzzle, answers
from hackmatrix_rl.algorithms.supervised._loss import AnswerBatch, AnswerLoss, log_stablemax
from hackmatrix_rl.env import Batched, check_environment
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.training import named_optimizer
from hackmatrix_rl.training._optimizer import scale_by_adam_atan2

from .building import copying, network

KEY = jax.random.key(0)


def test_stablemax_is_x_plus_1_above_0_and_a_hyperbola_below():
    # s(1) = 2, s(0) = 1, s(-3) = 1/4: shares of 3.25.
    stable = jax.jit(log_stablemax)
    found = np.exp(stable(jnp.asarray([1.0, 0.0, -3.0])))
    np.testing.assert_allclose(found, np.array([2, 1, 0.25]) / 3.25, rtol=1e-6)
    # At 0 both sides have the slope 1: d log s / d x = 1 there, and the loss moves by 1 - p.
    slopes = jax.jit(jax.jacobian(log_stablemax))
    np.testing.assert_allclose(slopes(jnp.zeros(3))[0], np.array([2, -1, -1]) / 3, rtol=1e-6)
    huge = jnp.asarray([1e30, -1e30, 0.0])
    assert np.isfinite(stable(huge)).all()
    gradient = slopes(huge)
    assert np.isfinite(gradient).all()


class Fixed(hm.ActorCritic):
    """Says the same of every puzzle: logits of two cells, and a logit of halting by the first."""

    logits: jax.Array

    def __call__(self, observation, carry):
        return self.logits, jnp.where(observation[0] == 1, 2.0, -1.0), carry


@pytest.mark.parametrize("output", ["softmax", "stablemax"])
def test_the_loss_is_that_of_the_equations(output):
    logits = np.array([[1.0, 0.0, -3.0], [0.0, 2.0, 0.0]])
    labels = np.array([[0, 1], [0, 2]])  # the first row is answered rightly, the second is not
    thought = Thought(*2 * [jnp.zeros((2, 3, 1))])  # which the fixed network does not read
    batch = AnswerBatch(jnp.asarray([[1, 0], [2, 0]]), jnp.asarray(labels), thought)
    policy = Fixed(jnp.asarray(logits.ravel(), jnp.float32))
    loss, parts, outcome = AnswerLoss(output)(policy, batch)

    def s(x):
        return math.exp(x) if output == "softmax" else (x + 1 if x >= 0 else 1 / (1 - x))

    cells = [
        -math.log(s(logits[cell, row[cell]]) / sum(map(s, logits[cell])))
        for row in labels
        for cell in (0, 1)
    ]
    halting = [math.log(1 + math.exp(-2.0)), math.log(1 + math.exp(-1.0))]
    np.testing.assert_allclose(parts["answer_loss"], np.mean(cells), rtol=1e-5)
    np.testing.assert_allclose(parts["halting_loss"], np.mean(halting), rtol=1e-5)
    np.testing.assert_allclose(loss, np.mean(cells) + 0.5 * np.mean(halting), rtol=1e-5)
    np.testing.assert_array_equal(outcome.solved, [True, False])
    np.testing.assert_allclose(outcome.cells, [1.0, 0.5])


def halts(steps, halt, exploration, *, most=16, rows=20_000, learned=True):
    """The share of many equal rows that halt."""
    of_all = jnp.full(rows, steps, jnp.int32), jnp.full(rows, halt, jnp.float32)
    found = Halting(most, learned)(*of_all, jnp.float32(exploration), key=KEY)
    return float(jnp.mean(found.astype(jnp.float32)))


def test_a_row_halts_at_the_end_or_where_the_network_says_so_but_for_exploration():
    assert halts(16, -9.0, 0.1) == halts(16, -9.0, 1.0) == 1.0
    assert halts(15, -9.0, 0.0) == halts(15, 0.0, 0.0) == 0.0
    assert halts(1, 0.1, 0.0) == 1.0
    # A row that explores draws 2 to 16 and halts from there on: never after 1 step, of 15 numbers
    # after 5 steps those from 2 to 5.
    assert halts(1, 9.0, 1.0) == 0.0
    assert halts(5, 9.0, 1.0) == pytest.approx(4 / 15, abs=0.015)
    assert halts(5, 9.0, 0.3) == pytest.approx(0.7 + 0.3 * 4 / 15, abs=0.015)
    assert halts(1, 9.0, 1.0, most=1) == 1.0
    assert halts(15, 9.0, 0.0, learned=False) == 0.0
    assert halts(16, -9.0, 0.0, learned=False) == 1.0


def test_the_curriculum_is_that_of_the_equations():
    ramp = Curriculum(3, 6, over=100)
    found = [jax.tree.map(int, ramp(jnp.int32(update))) for update in (0, 24, 25, 50, 99, 100, 900)]
    expected = [
        (math.floor(1 + p * 2), math.floor(2 + p * 4))
        for p in (0.0, 0.24, 0.25, 0.5, 0.99, 1.0, 1.0)
    ]
    assert [(each.high, each.low) for each in found] == expected
    assert expected[0] == (1, 2)
    assert expected[-1] == (3, 6)
    with pytest.raises(ValueError, match="low_cycles 1 ends below the 2 with which a curriculum"):
        Curriculum(3, 1, over=10)
    with pytest.raises(ValueError, match="over must be at least 1"):
        Curriculum(3, 6, over=0)


def test_adam_atan2_by_hand():
    """Two steps of one number, computed with `math.atan2` alone."""
    optimizer = scale_by_adam_atan2(0.9, 0.95)
    state, m, v = optimizer.init(jnp.zeros(())), 0.0, 0.0
    for step, gradient in enumerate((3.0, -1.0), 1):
        found, state = optimizer.update(jnp.float32(gradient), state)
        m, v = 0.9 * m + 0.1 * gradient, 0.95 * v + 0.05 * gradient**2
        corrected = m / (1 - 0.9**step), math.sqrt(v / (1 - 0.95**step))
        np.testing.assert_allclose(found, 4 / math.pi * math.atan2(*corrected), rtol=1e-5)
    # The first change is 1 whatever the gradient, also where Adam's epsilon would count.
    for gradient in (1e-15, 1e6):
        np.testing.assert_allclose(
            optimizer.update(jnp.float32(gradient), optimizer.init(jnp.zeros(())))[0],
            1.0,
            rtol=1e-5,
        )
    assert float(optimizer.update(jnp.float32(0), optimizer.init(jnp.zeros(())))[0]) == 0.0


@jax.numpy_dtype_promotion("standard")  # which optax relies on
@pytest.mark.parametrize("optimizer", ["adamw", "adam-atan2"])
def test_trainings_with_other_learning_rates_are_one_program(optimizer):
    several = {"seeds": 2, "vary": "learning_rate=1e-3,1e-2"}
    puzzles = {"task": "maze", "size": 7, "optimizer": optimizer, "mesh": "data=1"}
    config = make_config("debug", {"algorithm": "supervised", **puzzles, **several})
    assert compose(config, key=jax.random.key(0)).algorithm.size == 4


def test_the_optimizers_clip_and_decay_apart_from_the_gradient():
    weights = jnp.asarray([2.0, -4.0])
    ours = named_optimizer("adam-atan2", 1.0, weight_decay=0.1)
    change, _ = ours.update(jnp.ones(2), ours.init(weights), weights)
    np.testing.assert_allclose(change, -(1.0 + 0.1 * weights), rtol=1e-5)
    ours = named_optimizer("adamw", 1e9, beta2=0.95, weight_decay=0.1)
    theirs = optax.adamw(1.0, 0.9, 0.95, weight_decay=0.1)
    states = [ours.init(weights), theirs.init(weights)]
    for gradient in (jnp.asarray([0.3, -2.0]), jnp.asarray([1.0, 0.1])):
        with jax.numpy_dtype_promotion("standard"):  # optax's own needs it outside of a program
            found = [
                each.update(gradient, s, weights)
                for each, s in zip((ours, theirs), states, strict=True)
            ]
        states = [state for _, state in found]
        np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    with pytest.raises(ValueError, match="weight_decay must be 0 or more, not -1"):
        named_optimizer("adamw", weight_decay=-1.0)
    with pytest.raises(ValueError, match="max_grad_norm must be positive"):
        named_optimizer("adam-atan2", float("nan"))


def test_a_puzzle_is_a_game_whose_return_is_the_share_of_cells_that_are_right():
    environment = Batched(Puzzle(copying()))
    check_environment(environment)
    step = eqx.filter_jit(environment.step)
    state, timestep = eqx.filter_jit(environment.reset)(jax.random.split(KEY, 1))
    labels = state.games.example.labels[0]
    np.testing.assert_array_equal(timestep.observation[0], labels - 1)
    right = int(labels[0])  # in the first cell
    wrong = 3 + (int(labels[1]) + 1) % 3
    keys = jax.random.split(KEY, 1)
    state, timestep = step(state, jnp.asarray([right], jnp.int32), keys)
    np.testing.assert_array_equal(timestep.mask[0], [False] * 3 + [True] * 3)
    assert float(timestep.reward[0]) == 0.5
    assert not bool(timestep.terminated[0])
    state, timestep = step(state, jnp.asarray([wrong], jnp.int32), keys)
    assert float(timestep.reward[0]) == 0.0
    assert bool(timestep.terminated[0])
    assert float(timestep.episode.total_reward[0]) == 0.5


def test_an_untrained_network_hardly_halts_and_goes_on_thinking_where_it_was():
    net = network(copying())
    tokens = jnp.asarray([0, 1], jnp.int32)

    @jax.jit
    def call(carry):
        embedded = net.embed(tokens)
        return net(tokens, carry), net.think(embedded, carry), embedded

    (logits, halt, thought), by_hand, embedded = call(net.initial_carry())
    assert float(halt) == -5.0
    assert logits.shape == (6,)
    (again, _, after), *_ = call(thought)
    assert not np.allclose(logits, again)
    assert not np.allclose(thought.high, after.high)
    np.testing.assert_allclose(thought.high, by_hand.high, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        logits.reshape(2, 3), by_hand.high[1:] @ net.heads.label.weight, rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(embedded[1:], net.token.weight[tokens])
    np.testing.assert_allclose(embedded[0], 0.0)


def test_evaluations_take_all_supervision_steps():
    net, stream = network(copying(5)), copying(5)
    call = eqx.filter_jit(net)
    for steps in (1, 4):
        found = answers(net, stream, steps=steps)
        for inputs, tokens in zip(np.asarray(stream.inputs), found.tokens, strict=True):
            carry = net.initial_carry()
            for _ in itertools.repeat(None, steps):
                logits, _, carry = call(jnp.asarray(inputs, jnp.int32), carry)
            np.testing.assert_array_equal(tokens, np.argmax(logits.reshape(2, 3), axis=1))
    np.testing.assert_array_equal(found.right, found.tokens == np.asarray(stream.labels))
    assert found.cells_right.mean == pytest.approx(found.right.mean())
    assert found.puzzles_right.mean == pytest.approx(found.right.all(axis=1).mean())
    nearly = np.ones((200, 4), bool)
    nearly[0] = False  # the normal approximation ends above 1
    share = Answers(np.zeros(nearly.shape), nearly).cells_right
    assert 0 < share.low < share.mean < share.high <= 1
    with pytest.raises(ValueError, match="steps must be at least 1"):
        answers(net, stream, steps=0)
