"""A person watches an agent: keys, thoughts, the end; and lines where there is no terminal."""

import io

import pytest
from games.hackmatrix.positions import virus
from games.hackmatrix.recordings import CONFIG
from rich.console import Console

from hackmatrix_rl.evaluation import RandomAgent, Runner
from hackmatrix_rl.view._names import UNICODE
from hackmatrix_rl.view.replays import Match, Mind
from hackmatrix_rl.view.terminal import watch_in_terminal
from hackmatrix_rl.view.terminal._watch import WatchApp
from view.boards import state, state_of
from view.games import Confident

from .driving import drive, match_at

pytestmark = pytest.mark.view


def watch(match, act, *, seconds=10.0, agent=None):
    mind = Mind(Confident() if agent is None else agent, match)
    app = WatchApp(match, mind, "runner", seconds, UNICODE)
    drive(app, act)
    return app


def test_steps_show_the_move_its_reward_and_the_thoughts():
    async def act(driver):
        assert "runner: " in driver.screen
        assert "value +1.25  win 50%" in driver.screen
        first = driver.screen
        await driver.press("right", "right")
        assert driver.app.at == 2
        assert "2 " in driver.screen
        await driver.press("left", "left", "left")
        assert driver.app.at == 0
        assert driver.screen.splitlines()[:-1] == first.splitlines()[:-1]
        assert "paused" in driver.screen

    match = Match.start(1, config=CONFIG)
    watch(match, act)
    assert match.now.number == 2, "looking back plays nothing"


def test_it_plays_by_itself_until_space():
    async def act(driver):
        while driver.app.at < 3:
            await driver.settle()
        await driver.press("space")
        at = driver.app.at
        assert "paused" in driver.screen
        for _ in range(5):
            await driver.settle()
        assert driver.app.at == at

    watch(Match.start(1, config=CONFIG), act, seconds=0.0)


def test_plus_and_minus_change_the_speed():
    async def act(driver):
        await driver.press("space", "+", "+", "minus")
        assert driver.app.seconds == 0.5
        for _ in range(9):
            await driver.press("-")
        assert driver.app.seconds == 10.0

    watch(Match.start(1, config=CONFIG), act, seconds=1.0)


def test_everything_or_only_what_the_agent_sees():
    async def act(driver):
        await driver.press("space")
        assert "(c2)" in driver.screen
        await driver.press("v")
        assert "(c2)" not in driver.screen

    watch(match_at(state("everything")), act, agent=RandomAgent())


def test_the_end_is_told_and_nothing_is_played_after_it():
    async def act(driver):
        while driver.app.match.now.end is None:
            await driver.press("right")
        await driver.press("right")
        assert "died in stage 1 with score 0, return " in driver.screen

    surrounded = state_of(player=(0, 0), enemies=[virus(0, 1), virus(1, 0)], hp=1)
    match = match_at(surrounded)
    watch(match, act)
    assert match.now.end == "died"


def test_where_there_is_no_terminal_moves_are_lines_and_the_last_board_follows():
    printed = []
    for encoding in ("utf-8", "ascii"):
        match = match_at(state_of(player=(0, 0), enemies=[virus(0, 1), virus(1, 0)], hp=1))
        raw = io.BytesIO()
        file = io.TextIOWrapper(raw, encoding=encoding)
        mind = Mind(Runner(), match)
        watch_in_terminal(match, mind, name="runner", console=Console(file=file, width=80))
        file.flush()
        lines = raw.getvalue().decode(encoding).splitlines()
        assert len(lines) == match.now.number + 19 + 1
        assert lines[-1].startswith(f"died after {match.now.number} moves: stage 1, score 0")
        printed.append(lines)
    assert printed[0][0].startswith("1 ↑ UP  reward ")
    assert printed[1][0].startswith("1 ^ UP  reward ")
