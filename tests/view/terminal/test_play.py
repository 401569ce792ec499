"""A person plays: every key, through Textual's pilot."""

import asyncio
import io
import json
import sys
import threading

import pytest
from games.hackmatrix.positions import data, virus
from games.hackmatrix.recordings import CONFIG

from hackmatrix_rl.games.hackmatrix import Action, Program
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import Match, Replay
from hackmatrix_rl.view.terminal import check_terminal
from hackmatrix_rl.view.terminal._pages import OWN_WIDTH, help_text
from hackmatrix_rl.view.terminal._play import OWN_KEYS, PlayApp
from view.boards import state, state_of

from .driving import UNICODE, drive, match_at, play, running, seat_of

pytestmark = pytest.mark.view


def rich_in_programs():
    return match_at(
        state_of(
            player=(2, 2),
            cells={(2, 3): data(4)},
            programs=[Program.STEP, Program.ROW, Program.UNDO],
            data_siphons=1,
            credits=2,
            energy=5,
        )
    )


def about_to_die():
    return match_at(state_of(player=(0, 0), enemies=[virus(0, 1), virus(1, 0)], hp=1, score=7))


# What was played in the end; keys, and what the screen shows after them.
CONVERSATIONS = {
    "arrows move, and the reward is told": (
        (Action.UP,),
        [
            ([], "The game begins."),
            (["up"], "1 ↑ UP  reward +0.04 = step_penalty −0.01, distance_shaping +0.05"),  # noqa: RUF001
        ],
    ),
    "s siphons, and letters play programs": (
        (Action.STEP, Action.SIPHON),
        [
            ([], "A siphon here takes 4 points and calls 4 transmissions."),
            ([], " t  STEP   E3"),
            (["t", "s"], "score 4"),
        ],
    ),
    "u plays the player's undo": ((Action.UP, Action.UNDO), [(["up", "u"], "UNDO")]),
    "an illegal action says why": (
        (),
        [
            (["right"], "RIGHT is not possible: a block is in the way."),
            (["r"], "ROW is not possible: costs 3 credits: you have 2."),
            (["u"], "UNDO is not possible: needs an earlier turn."),
            (["p"], "PUSH is not possible: you do not own it: siphon a block that holds it."),
            (["1"], "1 is not a key of this game; ? lists them."),
            ([], "(r) ROW    $3 E1"),  # greyed out without colour, too
        ],
    ),
    "the question mark shows the rules, and escape returns": (
        (),
        [
            (["question_mark"], "KEYS"),
            ([], "An arrow key hits"),
            (["end"], "HACK   $2 E2"),
            (["up", "escape"], "The game begins."),
        ],
    ),
    "h tells what the agent would do and why, of this position": (
        (Action.UP,),
        [(["h"], "runner: ↑ UP  value +1.25  win 50%  UP 100%"), (["up"], "1 ↑ UP")],
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_keys_play_and_the_screen_answers(tmp_path, name):
    actions, conversation = CONVERSATIONS[name]

    async def act(driver):
        for keys, shown in conversation:
            await driver.press(*keys)
            assert shown in driver.screen
        assert "runner:" not in driver.screen

    assert play(seat_of(tmp_path, rich_in_programs), act).match.actions == actions


def test_the_rules_at_hand_fit_their_width():
    lines = help_text(UNICODE, OWN_KEYS).plain.split("\n")
    assert max(map(len, lines)) <= OWN_WIDTH


def test_capital_s_saves_a_replay_that_plays_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def act(driver):
        await driver.press("up", "S", "S")
        assert "Saved: hackmatrix_" in driver.screen

    app = play(seat_of(tmp_path, lambda: Match.start(1, config=CONFIG)), act)
    files = sorted(tmp_path.glob("hackmatrix_*_move1*.json"))
    assert len(files) == 2, "nothing is overwritten"
    again = Replay.load(files[0]).match()
    assert again.actions == app.match.actions == (Action.UP,)


def test_a_replay_that_cannot_be_saved_is_told(tmp_path):
    async def act(driver):
        await driver.press("S")
        assert "The replay is not saved" in driver.screen

    play(seat_of(tmp_path, rich_in_programs, save=tmp_path / "no" / "folder.json"), act)


def test_the_end_shows_the_result_and_the_table_of_scores_with_hints_noted(tmp_path):
    async def act(driver):
        for place in (1, 2):
            await driver.press("up", "right", "up")
            assert "You died." in driver.screen
            assert f"> {place:2}.     7" in driver.screen
            await driver.press("N")
        await driver.press("h", "up", "right", "up")
        assert "hints" in driver.screen
        await driver.press("escape", "up")
        assert "The game is over: N for a new one, q to quit." in driver.screen

    play(seat_of(tmp_path, about_to_die), act)
    games = json.loads((tmp_path / "data" / "scores.json").read_text())["games"]
    assert [(game["score"], game["help"]) for game in games] == [(7, ""), (7, ""), (7, "hints")]


def test_capital_n_and_q_ask_first_while_a_game_goes_on(tmp_path):
    async def act(driver):
        await driver.press("up", "N")
        assert "Give this game up for a new one? y: yes, any other key: no" in driver.screen
        await driver.press("x")
        assert driver.app.match.actions == (Action.UP,)
        await driver.press("q", "up")
        assert driver.app.match.actions == (Action.UP,), "the key only answered"
        await driver.press("N", "y")
        assert driver.app.match.actions == ()
        assert "The game begins." in driver.screen
        await driver.press("up", "q", "y")

    save = tmp_path / "game.json"
    app = play(seat_of(tmp_path, lambda: Match.start(1, config=CONFIG), save=save), act)
    assert app.notes == [f"Saved: {save}"] * 2
    assert Replay.load(save).actions == (Action.UP,)


def test_a_terminal_that_gets_too_small_shows_a_notice_and_plays_on_later(tmp_path):
    async def act(driver):
        await driver.pilot.resize_terminal(79, 24)
        await driver.settle()
        assert driver.screen.strip().startswith("The game needs 80 x 24 characters")
        await driver.press("up")
        await driver.pilot.resize_terminal(80, 24)
        await driver.settle()
        assert "The game begins." in driver.screen

    assert play(seat_of(tmp_path, rich_in_programs), act).match.actions == ()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_board_panel_prospects_and_keys_are_there_at_every_size(tmp_path, size):
    async def act(driver):
        lines = driver.screen.splitlines()
        assert max(map(len, lines)) <= size[0]
        assert "hp 3 ♥♥♥" in lines[0]
        for part in ("! 1 may hit", "A siphon here takes", "The game begins.", "q quit"):
            assert any(part in line for line in lines)

    play(seat_of(tmp_path, lambda: match_at(state("everything"))), act, size)


def test_no_colour_has_the_same_text(tmp_path, monkeypatch):
    screens = []

    async def act(driver):
        screens.append(driver.screen)

    seat = seat_of(tmp_path, lambda: match_at(state("everything")))
    play(seat, act)
    monkeypatch.setenv("NO_COLOR", "1")
    play(seat, act)
    assert screens[0] == screens[1]


def test_while_it_compiles_it_says_so_and_takes_keys(tmp_path):
    compiled = threading.Event()

    def slow(report):
        report("Playing the replay: move 3 of 9")
        compiled.wait()
        return rich_in_programs()

    async def main():
        app = PlayApp(seat_of(tmp_path, rich_in_programs, begin=slow), UNICODE)
        async with running(app) as driver:
            while "Playing the replay: move 3 of 9 ..." not in driver.screen:
                await driver.pilot.pause(0.05)
            await driver.pilot.press("up", "question_mark")
            await driver.pilot.pause()
            assert "KEYS" in driver.screen
            await driver.pilot.press("escape")
            compiled.set()
            await driver.settle()
            assert "The game begins." in driver.screen
            assert "Playing the replay" not in driver.screen
            assert app.match.actions == ()

    asyncio.run(main())


def test_a_mistake_of_the_user_ends_the_app_and_is_raised(tmp_path):
    def damaged(report):
        raise ConfigError("the replay cannot be played again")

    async def act(driver):
        await driver.pilot.pause()

    app = PlayApp(seat_of(tmp_path, rich_in_programs, begin=damaged), UNICODE)
    with pytest.raises(ConfigError, match="cannot be played again"):
        drive(app, act)


class OnTerminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("term", "columns", "said"),
    [
        ("xterm", 79, "needs a terminal of 80 x 24 characters; this one has 79 x 24"),
        ("dumb", 80, "TERM names a terminal without a cursor"),
    ],
)
def test_a_terminal_that_is_too_small_or_without_a_cursor_is_refused(
    monkeypatch, term, columns, said
):
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, f"__{stream}__", OnTerminal())
    for name, value in (("TERM", term), ("COLUMNS", str(columns)), ("LINES", "24")):
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=said):
        check_terminal("hackmatrix-rl play")
