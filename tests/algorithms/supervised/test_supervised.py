"""Deep supervision: what is carried between updates, what it learns, and what it refuses."""

from functools import partial
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.supervised import Curriculum, EvaluateAnswers, Halting, answers
from hackmatrix_rl.algorithms.supervised._loss import AnswerBatch
from hackmatrix_rl.games.puzzles import ExampleStream, sudokus
from hackmatrix_rl.training import Linear, named_optimizer

from .building import copying, supervised, trainer

KEY = jax.random.key(1)


def begun(net):
    """The thought of 8 rows before the first call."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (8, *leaf.shape)), net.initial_carry())


@eqx.filter_jit
def called(net, inputs, thought):
    """The thought of each row after a call."""
    return jax.vmap(net)(inputs, thought)[2]


@pytest.fixture(scope="module")
def still():
    """A trainer that changes no weight, compiled once."""
    return trainer(halt_exploration=0.0, learning_rate=0.0)


def after_each(made, updates):
    """The metrics and the rows after each of so many updates."""
    return [
        (made.dispatch(1), jax.tree.map(np.asarray, made.state.collector_state))
        for _ in range(updates)
    ]


def test_a_row_keeps_its_example_and_goes_on_from_its_thought(still):
    still.start(KEY)
    rows = [jax.tree.map(np.asarray, still.state.collector_state)]
    rows += [row for _, row in after_each(still, 4)]
    examples = [each.example.inputs for each in rows]
    assert [int(each.steps[0]) for each in rows] == [0, 1, 2, 3, 1]
    assert [bool(each.halted.all()) for each in rows] == [True, False, False, True, False]
    np.testing.assert_array_equal(examples[1], examples[3])
    assert (examples[3] != examples[4]).any(), "other examples after the last step"
    np.testing.assert_array_equal(rows[4].example.labels, examples[4] + 1)
    # The thought of the second update is the network's, called on that of the first.
    net = still.algorithm.initial_policy
    for before, after in ((begun(net), rows[1]), (rows[1].thought, rows[2])):
        thought = called(net, after.example.inputs, before)
        np.testing.assert_allclose(after.thought.low, thought.low, rtol=1e-3, atol=1e-4)
    # And after the end it begins anew.
    thought = called(net, examples[4], begun(net))
    np.testing.assert_allclose(rows[4].thought.high, thought.high, rtol=1e-3, atol=1e-4)


def test_rows_that_the_network_takes_for_right_halt_after_one_step(still):
    bias = jnp.ones((1,), jnp.float32)
    sure = eqx.tree_at(lambda x: x.heads.value.bias, still.algorithm.initial_policy, bias)
    still.start(KEY, sure)
    ((metrics, rows),) = after_each(still, 1)
    assert rows.halted.all()
    assert (rows.steps == 1).all()
    assert metrics.episodes == 8
    assert metrics.episode["supervision_steps"] == 1.0
    assert 0 <= metrics.episode["puzzles_right"] <= metrics.episode["cells_right"] <= 1
    assert supervised(halting=False).halting == Halting(3, learned=False)


def test_the_gradient_does_not_go_back_into_the_thought_before():
    algorithm = supervised()
    net, stream = algorithm.initial_policy, algorithm.game.stream
    examples = stream.draw(KEY, 8)

    def loss(thought):
        return algorithm.loss(net, AnswerBatch(examples.inputs, examples.labels, thought))[0]

    gradient = jax.jit(jax.grad(loss))(begun(net))
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradient))


@pytest.fixture(scope="module")
def course():
    """What a training says in its first updates and at its end, compiled once."""
    algorithm = supervised(
        sizes={"high_cycles": 3, "low_cycles": 4},
        curriculum=Curriculum(3, 4, over=4),
        halt_exploration=Linear(0.3, 0.1, over=2),
        optimizer=named_optimizer("adam-atan2", 1.0, beta2=0.95, weight_decay=0.0),
        learning_rate=Linear(1e-2, 1e-3, over=200),
    )
    evaluation = EvaluateAnswers(6, copying(), steps=3)
    made = hm.Trainer(algorithm, hooks=[evaluation], updates_per_dispatch=3)
    made.start(KEY)
    singly = after_each(made, 6)
    untrained = answers(algorithm.initial_policy, copying(), steps=3)
    first, second = made.train(6, key=KEY)
    found = answers(made.policy, copying(), steps=3)
    learned = [made.dispatch(50) for _ in range(5)]
    return SimpleNamespace(**locals())


def test_the_curriculum_changes_the_cycles_and_compiles_nothing_again(course):
    shown = [
        (each.learning["high_cycles"], each.learning["low_cycles"]) for each, _ in course.singly
    ]
    assert shown == [(1, 2), (1, 2), (2, 3), (2, 3), (3, 4), (3, 4)]
    assert int(course.made.policy.cycles.high) == 3
    # The cycles are not only shown: a network that thinks so often has the same first thought.
    net, (_, rows) = course.algorithm.initial_policy, course.singly[0]
    for high, low, same in ((1, 2, True), (3, 4, False)):
        thought = called(net.with_cycles(high, low), rows.example.inputs, begun(net))
        assert np.allclose(thought.high, rows.thought.high, rtol=1e-3, atol=1e-4) == same


def test_metrics_are_means_over_the_updates_and_evaluations_are_of_the_fresh_puzzles(course):
    first, second, algorithm = course.first, course.second, course.algorithm
    assert first.env_steps == 3 * 8
    assert first.updates == 3
    assert second.updates == 6
    assert algorithm.progress(course.made.state) == 6 + 5 * 50
    assert first.learning["halt_exploration"] == pytest.approx((0.3 + 0.2 + 0.1) / 3)
    assert first.learning["learning_rate"] == pytest.approx(1e-2 - 9e-3 / 200)
    assert first.learning["gradient_steps"] == 3
    assert first.episodes == 8
    assert first.episode["supervision_steps"] == 3.0
    assert {"answer_loss", "halting_loss", "gradient_norm"} < set(first.learning)
    rows = [first.as_dict(), second.as_dict()]
    assert ["eval/puzzles_right" in row for row in rows] == [False, True]
    assert rows[1]["eval/cells_right"] == pytest.approx(course.found.cells_right.mean)
    assert rows[1]["eval/puzzles"] == 8


def test_the_answer_of_a_few_cells_is_learned(course):
    assert course.untrained.puzzles_right.mean < 1
    assert answers(course.made.policy, copying(), steps=3).puzzles_right.mean == 1.0
    assert course.learned[-1].episode["supervision_steps"] < 3, "it knows that it is right"


@pytest.mark.nightly
def test_16_bits_keep_the_thought_in_float32():
    made = trainer(precision="bf16", remat="blocks")
    made.start(KEY)
    metrics = made.dispatch(2)
    assert metrics.learning["skipped"] == 0
    assert {leaf.dtype for leaf in jax.tree.leaves(made.state.collector_state.thought)} == {
        jnp.dtype(jnp.float32)
    }


@pytest.mark.nightly
def test_a_4_x_4_sudoku_is_learned_by_heart(optimized):
    made = sudokus(4, 8, seed=0)
    still = ExampleStream(made.inputs, made.labels, rows=4, cols=4, vocabulary=5)
    made = hm.Trainer(
        supervised(
            still,
            sizes={"width": 32, "heads": 2},
            supervision_steps=4,
            optimizer=named_optimizer("adam-atan2", 1.0, beta2=0.95, weight_decay=0.0),
            learning_rate=Linear(5e-3, 5e-4, over=400),
        ),
        updates_per_dispatch=50,
    )
    before = answers(made.policy, still, steps=4)
    assert before.puzzles_right.mean == 0.0
    last = made.fit(400, key=KEY)
    found = answers(made.policy, still, steps=4)
    assert found.puzzles_right.mean == 1.0
    assert last.learning["answer_loss"] < 0.1
    assert last.episode["supervision_steps"] < 3, "it knows that it is right"


REFUSED = {
    "a batch larger than the stream": (
        {"global_batch_size": 9},
        "examples 8 are fewer than global_batch_size 9; use more puzzles, or global_batch_size=8",
    ),
    "no step": ({"supervision_steps": 0}, "supervision_steps must be at least 1"),
    "exploration": ({"halt_exploration": 1.5}, r"halt_exploration must be in \[0, 1\]"),
    "an output": ({"output_loss": "argmax"}, "choose one of stablemax, softmax"),
    "parts": ({"grad_accum": 3}, "grad_accum 3 does not divide the 8 rows"),
    "full remat": ({"remat": "full"}, "use remat='?blocks"),
    "a curriculum": ({"curriculum": Curriculum(3, 6, over=2)}, "6 cycles of z_L, more than the 2"),
    "no cycles": ({"sizes": {"high_cycles": 0}}, "high_cycles must be at least 1, not 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_by_name(name):
    changes, says = REFUSED[name]
    with pytest.raises(ValueError, match=says):
        supervised(**changes)


def test_another_network_is_refused():
    stream = copying()
    with pytest.raises(TypeError, match="policy"):
        partial(supervised(stream).__class__, stream)(
            hm.MLPActorCritic(hm.CartPole().spec, width=8, depth=1, key=KEY)
        )
    with pytest.raises(ValueError, match="spec is not a puzzle"):
        type(supervised(stream).initial_policy)(hm.CartPole().spec, key=KEY)
