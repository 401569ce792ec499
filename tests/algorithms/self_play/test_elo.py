"""Ratings where the right answer is known."""

import math

import pytest

from hackmatrix_rl.algorithms.self_play import MatchResult, ratings


def test_two_players_are_apart_by_the_logarithm_of_their_odds():
    found = ratings({("a", "b"): MatchResult(150, 0, 50)}, prior_games=0)
    apart = 400 * math.log10(3)
    assert found["a"].mean == pytest.approx(apart / 2)
    assert found["b"].mean == pytest.approx(-apart / 2)
    # The difference has the variance 1 / (n p (1 - p)) in logits; each rating has half of it.
    error = 1.959964 * 400 / math.log(10) / math.sqrt(200 * 0.75 * 0.25) / 2
    assert found["a"].high - found["a"].mean == pytest.approx(error)
    assert found["a"].mean - found["a"].low == pytest.approx(error)


def test_a_draw_is_half_a_win():
    with_draws = ratings({("a", "b"): MatchResult(20, 60, 20)}, prior_games=0)
    assert with_draws["a"].mean == pytest.approx(0, abs=1e-9)
    some = ratings({("a", "b"): MatchResult(50, 100, 0)}, prior_games=0)
    assert some == ratings({("a", "b"): MatchResult(100, 0, 50)}, prior_games=0)


def test_known_strengths_are_found_again():
    """Expected scores of -200, 0 and 300 Elo, as matches of a million games."""
    elo = {"weak": -100 / 3 - 200, "middle": -100 / 3, "strong": -100 / 3 + 300}
    results = {}
    for pair in (("weak", "middle"), ("strong", "weak"), ("middle", "strong")):
        expected = 1 / (1 + 10 ** ((elo[pair[1]] - elo[pair[0]]) / 400))
        wins = round(1e6 * expected)
        results[pair] = MatchResult(wins, 0, 1_000_000 - wins)
    found = ratings(results, prior_games=0)
    for name, rating in found.items():
        assert rating.mean == pytest.approx(elo[name], abs=0.01)
        assert rating.low < elo[name] < rating.high


def test_who_won_everything_has_a_finite_rating_and_more_games_tell_more():
    found = ratings({("a", "b"): MatchResult(100, 0, 0)})
    assert 300 < found["a"].mean - found["b"].mean < 1200
    more = ratings({("a", "b"): MatchResult(1000, 0, 0)})
    assert more["a"].mean > found["a"].mean
    few = ratings({("a", "b"): MatchResult(15, 0, 5)})["a"]
    many = ratings({("a", "b"): MatchResult(1500, 0, 500)})["a"]
    assert many.high - many.low < (few.high - few.low) / 5


def test_players_who_never_met_cannot_be_compared():
    results = {("a", "b"): MatchResult(1, 0, 1), ("c", "d"): MatchResult(1, 0, 1)}
    with pytest.raises(ValueError, match="no match links"):
        ratings(results)
    with pytest.raises(ValueError, match="the match of a and b has no games"):
        ratings({("a", "b"): MatchResult(0, 0, 0)})
    with pytest.raises(ValueError, match="no match links anyone"):
        ratings({})
