"""A board of the clique game: seats, moves, answers, thoughts, and moves that are taken back."""

import jax.numpy as jnp
import pytest

from hackmatrix_rl.env import CliqueGame, HackMatrixGame
from hackmatrix_rl.evaluation import Opponent, ThinkingAgent, Thought
from hackmatrix_rl.games.clique import FULL_BOARDS, CliqueConfig
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.ui import CliqueTable
from hackmatrix_rl.view.ui._clique_table import BUDGETS, clique_of, rules

pytestmark = pytest.mark.view

FOUR = CliqueGame(CliqueConfig(4, 3))
"""Its edges: 0-1, 0-2, 0-3, 1-2, 1-3, 2-3."""


class Orderly(ThinkingAgent):
    """Plays the free edge with the highest number, and thinks the others ever less likely."""

    simulations: int

    def think(self, observation, mask, carry, *, key):
        ranks = jnp.where(mask, 1.0 + jnp.arange(mask.shape[0], dtype=jnp.float32), 0.0)
        value = jnp.float32(self.simulations / 1000)
        thought = Thought(probabilities=ranks / jnp.sum(ranks), value=value)
        return jnp.argmax(ranks).astype(jnp.int32), carry, thought


def table(game=FOUR, seat="first", say=lambda words: None):
    return CliqueTable(Opponent(game, Orderly, 4), name="orderly", seat=seat, say=say)


def played(board, *edges):
    """Plays the edges, and lets the network answer each; the last answer."""
    news = board.state()
    for edge in edges:
        news = board.play(number=len(news["moves"]), action=edge)
        if not news["over"] and not news["yours"]:
            news = board.reply(number=len(news["moves"]))
    return news


def test_a_person_and_the_network_move_in_turn():
    board = table()
    assert board.state()["words"] == "Your move: blue."
    news = board.play(number=0, action=0)
    assert (news["moves"], news["yours"]) == ([0], False)
    assert news["words"] == "The network's move: orange."
    news = board.reply(number=1)
    assert (news["moves"], news["yours"], news["over"]) == ([0, 5], True, False)


def test_the_one_who_completes_a_clique_wins_and_it_is_shown():
    news = played(table(), 0, 1, 3)
    assert (news["over"], news["moves"]) == (True, [0, 5, 1, 4, 3])
    assert news["clique"] == (0, 1, 2)
    assert news["words"] == "You win after 5 moves: blue has the clique 0, 1, 2."
    board = table(seat="second")
    board.reply(number=0)
    news = played(board, 0, 1)
    assert news["words"] == "The network wins after 5 moves: blue has the clique 1, 2, 3."
    news = played(table(seat="both"), 0, 5, 1, 4, 2, 3)
    assert news["words"] == "Orange wins after 6 moves: orange has the clique 1, 2, 3."


def test_where_cliques_are_avoided_their_owner_loses():
    avoiding = CliqueGame(CliqueConfig(4, 3, objective="avoid"))
    news = played(table(avoiding), 0, 1, 3)
    assert news["clique"] == (0, 1, 2)
    assert news["words"] == "The network wins after 5 moves: blue has the clique 0, 1, 2."
    assert "in their colour loses; " in rules(avoiding.config)


def test_a_full_board_is_nobodys_or_the_second_players():
    full = (0, 1, 5, 2, 3, 4)
    assert played(table(seat="both"), *full)["words"] == "A draw after 6 moves: the board is full."
    maker_breaker = CliqueGame(CliqueConfig(4, 3, "second-wins"))
    news = played(table(maker_breaker, "both"), *full)
    assert news["words"] == "Orange wins after 6 moves: the board is full."
    assert (news["over"], news["clique"]) == (True, ())


def test_moves_are_taken_back_to_the_persons_last_one():
    board = table()
    played(board, 0, 1)
    news = board.take_back(number=4)
    assert (news["moves"], news["yours"]) == ([0, 5], True)
    assert board.play(number=2, action=1)["moves"] == [0, 5, 1]
    assert board.take_back(number=3)["moves"] == [0, 5], "before the answer, too"
    assert board.take_back(number=2)["moves"] == []
    with pytest.raises(ConfigError, match="no move of yours"):
        board.take_back(number=0)
    both = table(seat="both")
    played(both, 0, 5)
    assert both.take_back(number=2)["moves"] == [0]
    won = table()
    played(won, 0, 1, 3)
    news = won.take_back(number=5)
    assert (news["moves"], news["over"], news["yours"]) == ([0, 5, 1, 4], False, True)


def test_where_the_network_begins_its_move_stays():
    board = table(seat="second")
    assert board.reply(number=0)["moves"] == [5]
    with pytest.raises(ConfigError, match="no move of yours"):
        board.take_back(number=1)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda board: board.play(number=2, action=0), "edge 0 has a colour already"),
        (lambda board: board.play(number=2, action=6), "edge 6 does not exist"),
        (lambda board: board.play(number=0, action=1), "the game has moved on"),
        (lambda board: board.think(number=3), "the game has moved on"),
        (lambda board: board.take_back(number=1), "the game has moved on"),
        (lambda board: board.reply(number=2), "it is not the network's move"),
        (lambda board: board.strength(simulations=5), "5 simulations are not available"),
    ],
)
def test_what_cannot_be_is_a_line_and_changes_nothing(ask, said):
    board = table()
    before = played(board, 0)
    with pytest.raises(ConfigError, match=said):
        ask(board)
    assert board.state() == before


def test_nobody_moves_for_the_network_or_after_the_end():
    board = table(seat="second")
    with pytest.raises(ConfigError, match="Blue's move, which is not yours"):
        board.play(number=0, action=0)
    over = table()
    played(over, 0, 1, 3)
    for ask in (lambda: over.play(number=5, action=2), lambda: over.think(number=5)):
        with pytest.raises(ConfigError, match="the game is over"):
            ask()
    with pytest.raises(ConfigError, match="not the network's move"):
        over.reply(number=5)


def test_the_network_plays_what_it_thinks_of_the_free_edges():
    board = table(seat="both")
    board.play(number=0, action=5)
    news = board.think(number=1)
    thought = news["thought"]
    assert thought["action"] == 4
    assert [edge for edge, _ in thought["probabilities"]] == [4, 3, 2, 1, 0]
    assert sum(chance for _, chance in thought["probabilities"]) == pytest.approx(1, abs=1e-3)
    assert thought["value"] == 0.004
    assert news["moves"] == [5]
    assert board.state()["thought"] is None


def test_the_strength_changes_the_player_and_each_is_compiled_once_with_notice():
    told = []
    board = table(seat="both", say=told.append)
    assert board.state()["simulations"] == 4
    for simulations in (*BUDGETS, 4):
        board.strength(simulations=simulations)
        assert board.think(number=0)["thought"]["value"] == simulations / 1000
    assert [words.split(":")[0] for words in told] == ["Compiling"] * 5
    board.play(number=0, action=0)
    board.think(number=1)
    assert told[-1] == "Thinking: orderly, 4 simulations"
    board.think(number=1)
    assert len(told) == 6, "it remembers what it thought"


def test_a_new_game_has_other_seats():
    board = table()
    before = played(board, 0)
    news = board.new(seat="second")
    assert news["game"] != before["game"]
    assert (news["moves"], news["seat"], news["yours"]) == ([], "second", False)


def test_a_clique_is_found_in_the_colour_of_the_last_move():
    config = CliqueConfig(5, 4)
    numbers = {(0, 1): 0, (0, 2): 1, (0, 3): 2, (0, 4): 3, (1, 2): 4, (1, 3): 5, (1, 4): 6}
    numbers |= {(2, 3): 7, (2, 4): 8, (3, 4): 9}
    own = [numbers[pair] for pair in ((0, 1), (0, 3), (0, 4), (1, 3), (1, 4), (3, 4))]
    others = [1, 4, 7, 8, 1]
    in_turn = [edge for pair in zip(own, [*others, None], strict=True) for edge in pair][:-1]
    assert clique_of(config, in_turn) == (0, 1, 3, 4)
    assert clique_of(config, in_turn[:-1]) == ()
    assert clique_of(config, []) == ()


@pytest.mark.parametrize("full_board", FULL_BOARDS)
def test_the_rules_name_the_variant(full_board):
    words = {each: rules(CliqueConfig(5, 4, each)) for each in FULL_BOARDS}
    assert len(set(words.values())) == len(FULL_BOARDS)
    assert "4 vertices" in words[full_board]


def test_another_game_is_refused():
    with pytest.raises(TypeError, match="expected a CliqueGame"):
        CliqueTable(Opponent(HackMatrixGame(), Orderly, 4), name="")


def test_the_page_has_its_board_and_its_policy():
    page, policy = table().page()
    assert '"vertices":4' in page
    assert "unsafe" not in policy
    assert "connect-src 'self'" in policy
