"""`hackmatrix-rl play` without a terminal, and with settings that cannot work."""

import io
import sys

import pytest

from hackmatrix_rl.games.hackmatrix import Action
from hackmatrix_rl.search import Searcher
from hackmatrix_rl.view.replays import Match, Replay
from hackmatrix_rl.view.terminal import Seat

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.view


@pytest.fixture
def on_terminal(monkeypatch):
    """As if there were a terminal; what would be played with is in the list."""
    seats: list[Seat] = []
    monkeypatch.setattr("hackmatrix_rl.view.terminal.check_terminal", lambda command: None)
    monkeypatch.setattr("hackmatrix_rl.view.terminal.play_in_terminal", seats.append)
    return seats


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    file = tmp_path_factory.mktemp("replay") / "game.json"
    match = Match.start(1)
    match.play(Action.UP)
    Replay.from_match(match).save(file)
    return file


def test_a_pipe_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "__stdin__", io.StringIO())
    assert_refused(invoke("play"), "hackmatrix-rl play needs a terminal", "pipe or a file")


@pytest.mark.usefixtures("on_terminal")
def test_settings_that_cannot_work_get_one_line(replay):
    assert_refused(invoke("play", "--from", replay, "--move", 2), "--move 2", "1 moves; use 0 to 1")
    assert_refused(invoke("play", "--from", replay, "--seed", 2), "--seed 2", "its own seed")
    assert_refused(invoke("play", "--search", 8), "--search 8: runner has no network")


def test_hints_come_from_a_search(on_terminal):
    done("play", "--agent", "pretrained", "--search", 8)
    (seat,) = on_terminal
    mind = seat.advise(seat.begin(lambda text: None))
    assert isinstance(mind._player, Searcher)
    assert mind._player.search.trees.simulations == 8


def test_games_of_a_seed_are_those_of_an_evaluation(on_terminal):
    done("play", "--seed", 7)
    (seat,) = on_terminal
    first, second = seat.begin(lambda progress: None), seat.again()
    assert first.seed == Match.start(7).seed
    assert second.seed == Match.start(7, game=1).seed
    assert seat.advise(first).opinion().action in first.now.legal
    assert seat.help == ""


def test_without_a_seed_games_differ(on_terminal):
    invoke("play")
    assert on_terminal[0].again().seed != on_terminal[0].again().seed


def test_a_replay_is_taken_over_at_a_move(on_terminal, replay):
    told = []
    done("play", "--from", replay)
    done("play", "--from", replay, "--move", 0)
    whole, start = on_terminal
    assert whole.begin(told.append).actions == (Action.UP,)
    assert told == ["Playing the replay: move 1 of 1"]
    assert start.begin(told.append).actions == ()
    assert whole.help == "taken over"
