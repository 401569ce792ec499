"""`hackmatrix-rl ui` in a real browser: played, watched, taken over, saved and opened."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("starlette", reason="needs the extra ui")
pytest.importorskip("uvicorn", reason="needs the extra ui")

from hackmatrix_rl.view.replays import Replay

from .conftest import downloaded, fits, number_shown, wait_until


@pytest.fixture(scope="module")
def address():
    """Of a server that runs as users run it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hackmatrix_rl", "ui", "--port", "0", "--no-browser", "--seed", "3"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    yield re.search(r"http://\S+", process.stdout.readline())[0]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert process.stdout.read().endswith("Stopped.\n")
    process.stdout.close()


@pytest.fixture
def page(open_page, address):
    """A page with a new game."""
    page = open_page(address)
    begin(page)
    return page


SEEDS = itertools.count(3)


def begin(page):
    """Starts a game of its own."""
    seed = next(SEEDS)
    page.locator("#pad button").first.wait_for()
    page.click("#seat-you")
    settled(page)
    page.click("#new")
    page.fill("#seed", str(seed))
    page.click("#new-game button.main")
    wait_until(page, lambda: page.inner_text("#player") == f"seed {seed}")
    settled(page)


def settled(page):
    """Waits for the answer to the last request."""
    page.locator('main[aria-busy="false"]').wait_for()


def legal_direction(page):
    button = page.locator('#pad button[aria-disabled="false"]:not(.siphon)').first
    return button, int(button.get_attribute("data-action"))


def test_a_person_plays_by_button_by_keyboard_and_on_the_board(page):
    button, _ = legal_direction(page)
    button.click()
    wait_until(page, lambda: number_shown(page) == (1, 1))
    _, action = legal_direction(page)
    page.keyboard.press(("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight")[action])
    wait_until(page, lambda: number_shown(page) == (2, 2))
    _, action = legal_direction(page)
    name = page.locator(f'#pad button[data-action="{action}"] span').inner_text()
    page.locator(f'.place[title="{name}"]').first.click()
    wait_until(page, lambda: number_shown(page) == (3, 3))
    assert name in page.inner_text("#move-title")
    assert "step penalty" in page.inner_text("#move")


def test_an_action_that_is_not_legal_says_why(page):
    off = page.locator('#pad button[aria-disabled="true"]').first
    why = off.get_attribute("title")
    off.click(force=True)  # it can be reached, to say why
    assert why in page.inner_text("#message")
    page.keyboard.press("r")
    assert "ROW: you do not own it" in page.inner_text("#message")
    assert number_shown(page) == (0, 0)


def test_an_agent_plays_and_thinks_and_a_person_takes_over_and_hands_back(page):
    page.fill("#agent", "runner")
    page.click("#agent-form button")
    settled(page)
    page.select_option("#speed", "16")
    page.click("#seat-agent")
    wait_until(page, lambda: number_shown(page)[1] >= 3)
    assert "runner \u2192" in page.inner_text("#thoughts")
    page.locator("body").click(position={"x": 2, "y": 700})
    page.keyboard.press("1")
    settled(page)
    at = number_shown(page)[1]
    button, _ = legal_direction(page)
    button.click()
    wait_until(page, lambda: number_shown(page)[1] == at + 1)
    page.keyboard.press("2")
    wait_until(page, lambda: number_shown(page)[1] > at + 2 or page.locator("#end").is_visible())
    page.click("#play")  # it pauses
    settled(page)
    page.keyboard.press("ArrowUp")
    wait_until(page, lambda: "You have taken over: it is your" in page.inner_text("#message"))
    assert page.get_attribute("#seat-you", "aria-checked") == "true"


def test_thoughts_come_and_go(page):
    page.fill("#agent", "runner")
    page.click("#agent-form button")
    settled(page)
    page.locator("#thinking").focus()
    page.keyboard.press("h")
    page.locator("#thoughts .mind").wait_for()
    assert "runner" in page.inner_text("#thoughts")
    page.keyboard.press("h")
    assert page.locator("#thoughts-panel").is_hidden()


def test_an_unknown_agent_is_a_line(page):
    page.fill("#agent", "runs/nothing")
    page.click("#agent-form button")
    page.locator("#message").wait_for()
    assert "runs/nothing" in page.inner_text("#message")


def test_a_person_plays_on_from_an_earlier_move(page):
    for number in (1, 2, 3):
        legal_direction(page)[0].click()
        wait_until(page, lambda: number_shown(page) == (number, number))  # noqa: B023
    page.keyboard.press(",")
    page.keyboard.press(",")
    assert number_shown(page) == (1, 3)
    page.keyboard.press("ArrowUp")
    assert "earlier position" in page.inner_text("#message")
    page.click("#from-here")
    wait_until(page, lambda: number_shown(page) == (1, 1))


def test_a_replay_is_saved_and_opened(page, tmp_path):
    for number in (1, 2):
        legal_direction(page)[0].click()
        wait_until(page, lambda: number_shown(page) == (number, number))  # noqa: B023
    with downloaded(page) as found:
        page.click("#save")
    assert len(Replay.from_dict(json.loads(found[0])).actions) == 2
    file = tmp_path / "replay.json"
    file.write_text(found[0], encoding="utf-8")
    begin(page)
    page.set_input_files("#file", str(file))
    wait_until(page, lambda: number_shown(page) == (0, 2))
    page.click("#from-here")
    wait_until(page, lambda: number_shown(page) == (0, 0))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "bad.json: this is not a replay"),
        ("[1]", "bad.json: this is not a replay"),
        ("{}", "not a replay: format is"),
    ],
)
def test_a_bad_replay_is_a_line(open_page, address, tmp_path, text, line):
    page = open_page(address)
    begin(page)
    file = tmp_path / "bad.json"
    file.write_text(text, encoding="utf-8")
    page.set_input_files("#file", str(file))
    page.locator("#message").wait_for()
    assert line in page.inner_text("#message")
    assert number_shown(page) == (0, 0)


@pytest.mark.parametrize("size", ["wide", "tablet", "phone"])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits(open_page, address, size, dark):
    page = open_page(address, size=size, dark=dark)
    page.locator("#pad button").first.wait_for()
    assert fits(page)
    if size == "phone":
        page.click("#menu")
        assert page.locator("#new").is_visible()
        assert fits(page)


def test_a_second_window_shows_the_same_game(page, open_page, address):
    legal_direction(page)[0].click()
    wait_until(page, lambda: number_shown(page) == (1, 1))
    other = open_page(address)
    other.locator("#pad button").first.wait_for()
    assert number_shown(other) == (1, 1)
    legal_direction(other)[0].click()
    wait_until(other, lambda: number_shown(other) == (2, 2))
    legal_direction(page)[0].click()
    page.locator("#message").wait_for()
    assert "moved on" in page.inner_text("#message")
