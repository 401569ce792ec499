"""Matches: who plays what, and what is counted."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from games.clique.brute_force import minimax, result_of

from hackmatrix_rl.algorithms.self_play import (
    BoardPlayer,
    MatchResult,
    PerfectPlayer,
    RandomPlayer,
    Search,
    SearchPlayer,
    league,
    match,
    mistakes,
    ratings,
)
from hackmatrix_rl.algorithms.self_play._match import NO_MOVE, play_games
from hackmatrix_rl.games.clique import FIRST, SECOND

from .building import FIVE, FOUR, MAKER_BREAKER, opinion, solution

pytestmark = pytest.mark.search

KEY = jax.random.key(4)
KEYS = jax.random.split(KEY, 30)
RANDOM = RandomPlayer()


def perfect(game):
    return PerfectPlayer(solution(game.config))


def test_a_record_is_a_legal_game_with_its_result():
    record = play_games(RANDOM, RANDOM, FIVE, KEYS)
    results = set()
    for moves, result in zip(np.asarray(record.moves), record.result, strict=True):
        length = int((moves != NO_MOVE).sum())
        played = moves[:length].tolist()
        assert len(set(played)) == length
        assert (moves[length:] == NO_MOVE).all()
        assert not result_of(FIVE.config, played[:-1])[1]
        winner, over = result_of(FIVE.config, played)
        assert over
        assert float(result) == {FIRST: 1.0, SECOND: -1.0}.get(winner, 0.0)
        results.add(float(result))
    assert results == {1.0, -1.0} or results == {1.0, 0.0, -1.0}


def test_the_perfect_player_wins_what_is_won_and_draws_what_is_drawn():
    record = play_games(perfect(FIVE), RANDOM, FIVE, KEYS)
    assert (record.result == 1).all()
    assert len({tuple(moves) for moves in record.moves.tolist()}) > 20, "it varies its moves"
    assert match(perfect(FOUR), perfect(FOUR), FOUR, games=60, key=KEY) == MatchResult(0, 60, 0)
    breaker = match(perfect(MAKER_BREAKER), RANDOM, MAKER_BREAKER, games=60, key=KEY)
    assert breaker == MatchResult(30, 0, 30), "who is second wins"


def test_a_match_counts_for_the_player_named_first_and_openings_are_the_same_for_both():
    one = match(perfect(FIVE), RANDOM, FIVE, games=60, key=KEY)
    other = match(RANDOM, perfect(FIVE), FIVE, games=60, key=KEY)
    assert one.wins >= 30
    assert one.games == other.games == 60
    assert other.losses >= 30
    assert one.score.low > 0.5 > other.score.high
    begun = play_games(perfect(FOUR), RANDOM, FOUR, KEYS, opening=2)
    answered = play_games(RANDOM, perfect(FOUR), FOUR, KEYS, opening=2)
    np.testing.assert_array_equal(begun.moves[:, :2], answered.moves[:, :2])
    assert len({tuple(moves) for moves in begun.moves[:, :2].tolist()}) > 10


def test_mistakes_are_those_of_plain_minimax():
    record = play_games(RANDOM, RANDOM, FOUR, KEYS)
    value = minimax(FOUR.config, remember=True)
    ends = [tuple(pair) for pair in np.transpose(np.triu_indices(4, 1)).tolist()]
    for player in (FIRST, SECOND):
        moved = won = thrown = worse = 0
        for moves in record.moves.tolist():
            sets = [frozenset(), frozenset()]
            for turn, move in enumerate(each for each in moves if each != NO_MOVE):
                mine, theirs = sets[turn % 2], sets[1 - turn % 2]
                before = value(mine, theirs)
                sets[turn % 2] = mine | {ends[move]}
                after = -value(theirs, sets[turn % 2])
                if turn % 2 == player:
                    moved, won = moved + 1, won + (before == 1)
                    worse += after < before
                    thrown += after < before == 1
        found = mistakes(solution(FOUR.config), record, player)
        assert (found.moves, found.won) == (moved, won)
        assert (found.thrown_away, found.mistakes) == (thrown, worse)
        assert moved > 60
    assert worse > 0


def test_perfect_players_make_no_mistakes_and_a_search_beats_chance():
    record = play_games(perfect(FIVE), RANDOM, FIVE, KEYS)
    table = solution(FIVE.config)
    assert mistakes(table, record, FIRST).mistakes == 0
    assert mistakes(table, record, FIRST).won == mistakes(table, record, FIRST).moves
    judged = mistakes(table, record, SECOND), mistakes(table, record, SECOND, opening=2)
    assert judged[0].moves == judged[1].moves + len(KEYS)
    searching = SearchPlayer(opinion(FOUR), Search(24))
    keys = jax.random.split(KEY, 20)
    begun = play_games(searching, RANDOM, FOUR, keys, opening=1)
    assert (begun.result == -1).sum() == 0
    assert (begun.result == 1).sum() > 10


def test_a_league_rates_everyone():
    players = {"chance": RANDOM, "perfect": perfect(FIVE), "also perfect": perfect(FIVE)}
    standings = league(players, FIVE, games=60, key=KEY)
    assert list(standings.ratings)[2] == "chance"
    assert standings.ratings["chance"].high < standings.ratings["perfect"].low
    assert standings.results["perfect", "also perfect"] == MatchResult(30, 0, 30)
    assert list(standings.results) == [
        ("chance", "perfect"),
        ("chance", "also perfect"),
        ("perfect", "also perfect"),
    ]


def test_a_search_player_has_no_noise():
    assert SearchPlayer(opinion(FOUR), Search(8)).search == Search(8, gumbel_scale=0.0)


class Orderly(BoardPlayer):
    """Plays the first free edge, and the last one where it moves second."""

    last: bool = False

    def choose(self, game, states, keys):
        legal = jax.vmap(game.legal)(states)
        order = jnp.arange(game.num_actions)[None, :]
        return jnp.argmax(jnp.where(legal, order if self.last else -order, -99), axis=1)

    def moving_second(self):
        return Orderly(last=True)


def test_a_player_may_play_otherwise_where_it_moves_second():
    record = play_games(Orderly(), Orderly(), FOUR, KEYS[:2])
    assert record.moves.tolist() == [[0, 5, 1, 4, 2, 3]] * 2
    given = SearchPlayer(opinion(FOUR), Search(24, simulations_second=2))
    assert given.moving_second().search == Search(2, gumbel_scale=0.0)
    assert SearchPlayer(opinion(FOUR), Search(24)).moving_second().search.num_simulations == 24
    assert RANDOM.moving_second() is RANDOM


@pytest.mark.parametrize("games", [3, 0])
def test_each_player_must_begin_half_of_the_games(games):
    with pytest.raises(ValueError, match="games must be"):
        match(RANDOM, RANDOM, FOUR, games=games, key=KEY)


def test_a_league_needs_two_and_a_match_says_its_score():
    with pytest.raises(ValueError, match="at least 2 players"):
        league({"alone": RANDOM}, FOUR, games=2, key=KEY)
    said = str(MatchResult(6, 2, 2))
    assert said.startswith("6 won, 2 drawn, 2 lost: score 0.700")
    assert MatchResult(6, 2, 2).score.mean == pytest.approx(0.7)
    assert jnp.isfinite(MatchResult(10, 0, 0).score.low)


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
