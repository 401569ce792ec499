"""The batched `step`, which is what trains, against the recordings.

All transitions go through it in one shuffled order, so that in every batch games that end
(by death, victory, an illegal action or the trainer's limit) stand beside games that go on.
"""

import numpy as np
import pytest
from games.hackmatrix.new_game_features import features
from games.hackmatrix.outcomes import Labels, compare_outcomes, questions
from games.hackmatrix.recordings import CONFIG, Arrays, canonical, differences, load, report, rows
from games.hackmatrix.replay import BATCH, shared_replay
from games.hackmatrix.sampling import draw_answers, position_names, recorded_answers
from games.hackmatrix.setup_checker import setup_problems
from games.hackmatrix.statistics import compare_labels, deviations
from system.batching.devices import traced_as_on

from env.stepping import MAX_STEPS, Stepper, Transitions, step_all
from hackmatrix_rl.games.hackmatrix import (
    FIRST_PROGRAM,
    SIPHON,
    TERM_NAMES,
    Program,
    from_arrays,
    to_arrays,
)

# The proof, with the programs that users run.
pytestmark = pytest.mark.usefixtures("optimized")


OTHERS = [pytest.param(each, marks=pytest.mark.nightly) for each in ("tpu", "gpu")]


@pytest.fixture(scope="module", params=["cpu", *OTHERS])
def stepper(request):
    """`HackMatrix.step` as it is computed on a CPU, on a TPU and on a GPU."""
    with traced_as_on(request.param):
        yield Stepper()


@pytest.fixture(scope="module")
def transitions(stepper):
    return step_all(stepper)


def assert_same(t: Transitions, where: np.ndarray, expected: Arrays, got: Arrays, atol=0.0):
    assert where.any()
    index = np.flatnonzero(where)
    lines = differences(rows(expected, index), rows(got, index), t.action[index], atol=atol)
    assert not lines, report(lines)


def test_games_end_beside_games_that_go_on(transitions):
    t = transitions
    kinds = {
        "illegal": ~t.recorded["legal"],
        "died": t.recorded["died"],
        "won": t.recorded["won"],
        "truncated": t.step["truncated"],
        "goes on": ~t.done,
        "next stage": t.recorded["completed"] & ~t.recorded["won"] & ~t.done,
    }
    for name, where in kinds.items():
        batches = where[: len(where) // BATCH * BATCH].reshape(-1, BATCH)
        assert batches.any(axis=1).all(), name


def test_the_reward_terms_are_the_recorded_ones(transitions):
    t = transitions
    assert_same(t, t.as_recorded, {"terms": t.recorded["terms"]}, t.step, atol=1e-5)
    np.testing.assert_allclose(t.step["reward"], t.step["terms"].sum(axis=1), rtol=1e-6, atol=1e-5)


def test_episodes_end_by_the_rules_or_at_the_limit_never_both(transitions):
    t = transitions
    ends = ~t.recorded["legal"] | t.recorded["died"] | t.recorded["won"]
    at_limit = t.length + 1 >= MAX_STEPS
    expected = {"terminated": ends, "truncated": at_limit & ~ends}
    assert_same(t, t.as_recorded, expected, t.step)
    assert_same(t, t.as_recorded, {"won": t.recorded["won"]}, t.step)


def test_where_the_game_goes_on_the_position_is_the_recorded_one(transitions):
    t = transitions
    assert_same(t, t.settled & ~t.done, canonical(t.after), canonical(t.games))


def test_the_next_stage_is_set_up_by_the_rules(transitions):
    t = transitions
    index = np.flatnonzero(t.as_recorded & ~t.settled & ~t.done)
    after, games = rows(t.after, index), rows(t.games, index)
    carried = after["num_transmissions"].astype(int) - after["game"][:, 0]
    lines = setup_problems(games, carried)
    assert not lines, report(lines)
    kept = {key: canonical(after)[key] for key in ("player", "owned", "enemies")}
    lines = differences(kept, canonical(games), t.action[index])
    assert not lines, report(lines)


def test_an_episode_that_ended_is_reset(transitions):
    t = transitions
    fresh = rows(t.games, np.flatnonzero(t.done))
    lines = setup_problems(fresh)
    assert not lines, report(lines)
    assert (fresh["player"][:, [2, 6, 7]] == [3, 0, 1]).all()
    assert (fresh["game"][:, [0, 1, 10, 11]] == [1, 0, 0, 0]).all()
    assert not fresh["owned"].any()
    assert not fresh["num_enemies"].any()


def test_resets_are_distributed_like_new_games(transitions):
    t = transitions
    fresh = features(rows(t.games, np.flatnonzero(t.done)))
    tables = [
        compare_labels(name, "all", labels, fresh[name])
        for name, labels in features(load("new_games").before).items()
    ]
    lines = deviations([table for table in tables if table is not None])
    assert not lines, report(lines)


def test_what_is_shown_is_the_position_to_act_on(transitions):
    t = transitions
    everywhere = np.ones(len(t.name), bool)
    assert_same(t, everywhere, t.shown_games, t.observation)
    assert_same(t, everywhere, {"mask": t.legal_now}, {"mask": t.mask})


def test_the_position_before_a_reset_is_shown_as_recorded(transitions):
    t = transitions
    for kind in (t.step["terminated"], t.step["truncated"]):
        assert_same(t, t.settled & kind, t.expected_observation, t.last_observation)
        assert_same(t, t.settled & kind, {"mask": t.expected_mask}, {"mask": t.last_mask})


def test_a_next_stage_is_set_up_even_where_the_limit_cuts_it_off(transitions):
    t = transitions
    index = np.flatnonzero(~t.settled & t.as_recorded & t.step["truncated"])
    names = ["numbers", "programs"]  # the board is drawn
    expected = {name: t.expected_observation[name][index] for name in names}
    lines = differences(expected, rows(t.last_observation, index), t.action[index])
    assert not lines, report(lines)
    seen = t.last_observation["grid"][index]
    assert (seen.any(axis=1)).all()


def test_where_no_episode_ended_the_last_observation_is_the_observation(transitions):
    t = transitions
    assert_same(t, ~t.done, t.observation, t.last_observation)
    assert_same(t, ~t.done, {"mask": t.mask}, {"mask": t.last_mask})


def test_statistics_are_those_of_the_episode_that_ended(transitions):
    t = transitions
    np.testing.assert_allclose(
        t.step["total_reward"], t.total + t.step["reward"], rtol=1e-6, atol=1e-4
    )
    np.testing.assert_array_equal(t.step["length"], t.length + 1)
    ended = {
        "stage": t.after["game"][:, 0],
        "score": t.after["player"][:, 6],
        "owns_undo": t.after["owned"][:, Program.UNDO] > 0,
    }
    assert_same(t, t.as_recorded & t.done, ended, t.step)
    legal = t.step["terms"][:, TERM_NAMES.index("step_penalty")] != 0
    undo = t.action == FIRST_PROGRAM + Program.UNDO
    assert (undo & legal).any()
    np.testing.assert_array_equal(t.step["undos"], undo & legal)
    np.testing.assert_array_equal(t.step["programs"], (t.action >= FIRST_PROGRAM) & legal)
    np.testing.assert_array_equal(t.step["siphons"], (t.action == SIPHON) & legal)
    assert not t.step["dropped"].any()


def test_the_next_episode_is_tallied_from_nothing(transitions):
    t = transitions
    np.testing.assert_array_equal(t.tally["length"], np.where(t.done, 0, t.length + 1))
    np.testing.assert_allclose(
        t.tally["total"], np.where(t.done, 0, t.total + t.step["reward"]), rtol=1e-6, atol=1e-4
    )


def still_going(labels: Labels, over: np.ndarray) -> Labels:
    """Of games that are over, only that they are: `step` has reset them."""
    return {
        question: np.where(over, np.zeros_like(answer), answer)
        if question != "reward and end"
        else answer
        for question, answer in labels.items()
    }


def draw_through_step(stepper: Stepper, draws: int) -> tuple[Labels, np.ndarray]:
    """The positions of chance.npz played `draws` times each, all in mixed batches."""
    recording = load("chance")
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(recording)), draws))
    term = {name: place for place, name in enumerate(TERM_NAMES)}
    parts = []
    for number, first in enumerate(range(0, len(order), BATCH)):
        index = order[np.minimum(first + np.arange(BATCH), len(order) - 1)]
        before = rows(recording.before, index)
        state, timestep, _ = stepper(
            from_arrays(CONFIG, before), recording.action[index], 5000 + number
        )
        terms = np.stack([np.asarray(timestep.terms[name]) for name in TERM_NAMES], axis=1)
        over = np.asarray(timestep.terminated)
        won = np.asarray(timestep.episode.extra["won"]) > 0
        legal = terms[:, term["step_penalty"]] != 0
        outcome = {
            "terms": terms,
            "legal": legal,
            "won": won,
            "died": over & legal & ~won,
            "completed": terms[:, term["stage_completion"]] > 0,
        }
        parts.append(still_going(questions(before, to_arrays(state.games), outcome), over))
    answers = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {name: labels[: len(order)] for name, labels in answers.items()}, order


def test_outcomes_come_as_often_as_recorded(stepper):
    recording = load("chance")
    other = recording.other
    over = other["died"] | other["won"] | ~other["legal"]
    answers, order = draw_through_step(stepper, 110)
    tables = compare_outcomes(
        position_names(),
        still_going(recorded_answers(), over),
        other["outcome_of"],
        other["outcome_count"],
        answers,
        order,
    )
    lines = deviations(tables)
    assert not lines, report(lines)


def test_outcomes_come_as_often_as_with_play(stepper):
    """`play` is the definition that a batched `step` is held to."""
    positions = np.arange(len(load("chance")))
    reference, start = draw_answers(shared_replay(), positions, 110, seed=9)
    answers, order = draw_through_step(stepper, 110)
    # Only where no outcome ends the game: `play` shows no reset.
    other = load("chance").other
    ends = np.unique(other["outcome_of"][other["died"] | other["won"] | ~other["legal"]])
    keep = ~np.isin(order, ends)
    tables = compare_outcomes(
        position_names(),
        reference,
        start,
        np.ones(len(start), int),
        {name: labels[keep] for name, labels in answers.items()},
        order[keep],
    )
    lines = deviations(tables)
    assert not lines, report(lines)
