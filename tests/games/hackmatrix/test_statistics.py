"""The statistics that judge the game are judged first, on distributions that are known."""

import numpy as np
import pytest

from games.hackmatrix.statistics import SIGNIFICANCE, compare, compare_labels, deviations


def tables_of(rng, *, positions, probabilities, mutated=None, draws=(600, 150)):
    """Samples of many positions: two from `probabilities`, or the second from `mutated`."""
    tables = []
    for position in range(positions):
        first = rng.multinomial(draws[0], probabilities)
        second = rng.multinomial(draws[1], probabilities if mutated is None else mutated)
        tables.append(compare("answer", f"position {position}", first, second))
    return [table for table in tables if table is not None]


@pytest.mark.parametrize(
    "probabilities",
    [
        np.full(2, 1 / 2),
        np.array([0.97, 0.03]),
        np.full(40, 1 / 40),
        0.7 ** np.arange(40) / (0.7 ** np.arange(40)).sum(),
    ],
    ids=["even", "lopsided", "many", "long-tailed"],
)
def test_samples_of_one_distribution_rarely_raise_the_alarm(probabilities):
    rng = np.random.default_rng(0)
    alarms = sum(
        bool(deviations(tables_of(rng, positions=50, probabilities=probabilities)))
        for _ in range(200)
    )
    # Some 0.2 are expected; 5 would be a chance of 2e-6 if the significance is as stated.
    assert alarms < 5, f"{alarms} of 200, stated significance {SIGNIFICANCE}"


def test_one_position_that_differs_is_found_and_named():
    rng = np.random.default_rng(1)
    tables = tables_of(rng, positions=200, probabilities=np.full(4, 1 / 4))
    odd = compare("answer", "the odd one", np.array([150] * 4), np.array([70, 40, 20, 20]))
    assert any("the odd one" in line for line in deviations([*tables, odd]))


def test_a_small_difference_everywhere_is_found():
    rng = np.random.default_rng(2)
    tables = tables_of(
        rng, positions=300, probabilities=np.array([0.5, 0.5]), mutated=np.array([0.54, 0.46])
    )
    lines = deviations(tables)
    assert lines
    assert "300 positions together" in lines[0]


def test_tables_of_new_answers_one_answer_no_answers_and_weighted_labels():
    table = compare("answer", "here", np.array([300, 300, 0]), np.array([60, 60, 30]))
    assert deviations([table])
    assert compare("answer", "here", np.array([600]), np.array([150])) is None
    assert compare("answer", "here", np.array([598, 2]), np.array([150, 0])) is None
    with pytest.raises(ValueError, match="empty sample"):
        compare("answer", "here", np.array([1, 2]), np.array([0, 0]))
    by_labels = compare_labels(
        "answer", "here", np.array([7, 9]), np.repeat([7, 9], [40, 60]), np.array([300, 300])
    )
    assert by_labels == compare("answer", "here", np.array([300, 300]), np.array([40, 60]))


def test_the_statistic_has_the_mean_of_its_degrees_of_freedom():
    rng = np.random.default_rng(3)
    tables = tables_of(rng, positions=4000, probabilities=np.full(5, 1 / 5))
    excess = np.mean([table.chi_square - table.freedom for table in tables])
    assert abs(excess) < 4 * np.sqrt(2 * 4 / len(tables))
