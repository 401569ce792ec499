"""The board of the clique game in a real browser, as users start it."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

pytest.importorskip("starlette", reason="needs the extra ui")
pytest.importorskip("uvicorn", reason="needs the extra ui")

from .conftest import fits, wait_until

SMALL = (
    *("--vertices", "4", "--opening", "1", "--num-simulations", "4", "--width", "16"),
    *("--game-batch-size", "8", "--moves-per-update", "4", "--training-batch-size", "16"),
    *("--train-steps", "2", "--buffer-size", "96", "--num-games", "20", "--league-games", "0"),
    *("--cpu-devices", "1"),
)
HERE = os.environ | {"JAX_PLATFORMS": "cpu"}
COMMAND = (sys.executable, "-m", "hackmatrix_rl")


@contextmanager
def serving(*arguments):
    """The address of a board that runs as users run it."""
    process = subprocess.Popen(
        [*COMMAND, "ui", *arguments, "--port", "0", "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env=HERE,
    )
    line = process.stdout.readline()
    assert line.startswith("The clique game is at ")
    yield re.search(r"http://\S+", line)[0]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert process.stdout.read().endswith("Stopped.\n")
    process.stdout.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of the board of a run, which was trained for a moment."""
    run = tmp_path_factory.mktemp("runs") / "tiny"
    command = [*COMMAND, "selfplay", *SMALL, "--run-dir", str(run)]
    subprocess.run(command, check=True, capture_output=True, env=HERE)
    with serving(str(run)) as found:
        yield found


@pytest.fixture(scope="module")
def of_two():
    """Of a board for two people."""
    with serving("--clique", "--vertices", "14", "--k", "4") as found:
        yield found


def count(page):
    """Number of edges with a colour."""
    return int(page.inner_text("#count").split()[0])


def settled(page, moves):
    """Waits until so many moves are made and answered."""
    wait_until(page, lambda: count(page) == moves)
    page.locator('main[aria-busy="false"]').wait_for()


def begin(page, seat="first"):
    page.locator("#count").wait_for()
    page.locator('main[aria-busy="false"]').wait_for()
    page.select_option("#seat", seat)
    page.click("#new")
    settled(page, 1 if seat == "second" else 0)


def free_edges(page):
    """The free edges, with a point of each that no other edge is near to."""
    return page.evaluate(
        """() => {
          const matrix = document.querySelector("#picture").getScreenCTM();
          return [...document.querySelectorAll(".edge.free")].map((line) => {
            const at = (name) => Number(line.getAttribute(name));
            const along = (from, to) => from + 0.34 * (to - from);
            const point = new DOMPoint(along(at("x1"), at("x2")), along(at("y1"), at("y2")));
            const { x, y } = point.matrixTransform(matrix);
            return [Number(line.dataset.edge), x, y];
          });
        }"""
    )


def click_edge(page, edge=None):
    """Clicks a free edge, by default the first one, and returns its number."""
    number, x, y = next(each for each in free_edges(page) if edge in (None, each[0]))
    page.mouse.click(x, y)
    return number


def test_a_person_plays_the_network_answers_and_both_moves_are_taken_back(open_page, address):
    page = open_page(address)
    begin(page)
    assert page.inner_text("#player") == "tiny"
    assert page.locator("#back").is_disabled()
    edge = click_edge(page)
    settled(page, 2)
    assert page.locator(f'.edge.first[data-edge="{edge}"]').count() == 1
    assert page.locator(".edge.second[data-edge]").count() == 1
    assert page.locator(".edge.second.last").count() == 1
    assert page.inner_text("#words") == "Your move: blue."
    page.keyboard.press("u")
    settled(page, 0)
    assert page.locator(".edge.first[data-edge]").count() == 0


def test_the_network_begins_where_it_is_asked_to(open_page, address):
    page = open_page(address)
    begin(page, "second")
    assert page.inner_text("#words") == "Your move: orange."
    assert page.locator("#back").is_disabled()


def test_a_hint_is_the_best_edge_and_goes_with_the_move(open_page, address):
    page = open_page(address)
    begin(page)
    page.click("#hint")
    page.locator(".edge.hinted").wait_for(state="attached")
    name = re.fullmatch(r"Hint: edge (\d.\d)", page.inner_text("#hovered"))[1]
    page.click("#thinking")
    page.locator("#thoughts .chosen").wait_for()
    assert page.inner_text("#thoughts .chosen th") == name
    click_edge(page)
    settled(page, 2)
    assert page.locator(".edge.hinted").count() == 0


def test_policy_and_value_come_on_the_edges_and_go(open_page, address):
    page = open_page(address)
    begin(page)
    page.keyboard.press("p")
    page.locator("#worth").wait_for()
    assert page.inner_text("#worth").startswith("Blue to move: ")
    assert page.locator(".edge.thought").count() == 6
    assert 1 <= page.locator("#thoughts tbody tr").count() <= 6
    widths = page.eval_on_selector_all(
        ".edge.thought", "lines => lines.map((line) => Number(line.style.strokeWidth))"
    )
    assert 1.5 < min(widths) < max(widths) < 9.5
    _, x, y = free_edges(page)[0]
    page.mouse.move(x, y)
    assert re.fullmatch(r"Edge \d.\d: <?\d+%", page.inner_text("#hovered"))
    page.mouse.click(x, y)
    settled(page, 2)
    page.locator("#worth").wait_for()
    assert page.locator(".edge.thought").count() == 4, "of the position after the answer"
    page.click("#thinking")
    assert page.locator(".edge.thought").count() == 0
    assert page.locator("#thoughts-panel").is_hidden()


def test_the_strength_is_changed_and_told(open_page, address):
    page = open_page(address)
    begin(page)
    assert "4 simulations (its default)" in page.inner_text("#strength")
    page.click("#thinking")
    page.locator("#worth").wait_for()
    assert "visits" in page.inner_text("#thoughts")
    page.select_option("#strength", "0")
    wait_until(page, lambda: "visits" not in page.inner_text("#thoughts"))
    page.select_option("#strength", "4")
    wait_until(page, lambda: "visits" in page.inner_text("#thoughts"))


def test_two_people_play_to_the_end(open_page, address):
    page = open_page(address)
    begin(page, "both")
    for moves, edge in enumerate((0, 5, 1, 4, 3)):  # 0-1, 0-2 and 1-2 are blue
        assert page.inner_text("#words") == f"{('Blue', 'Orange')[moves % 2]} to move."
        click_edge(page, edge)
        settled(page, moves + 1)
    assert page.inner_text("#words") == "Blue wins after 5 moves: blue has the clique 0, 1, 2."
    assert page.locator(".edge.clique").count() == 3
    assert page.locator(".vertex.clique").count() == 3
    assert page.locator("#hint").is_disabled()
    click_edge(page)  # nothing happens any more
    assert count(page) == 5
    page.click("#back")
    settled(page, 4)
    assert page.locator(".edge.clique").count() == 0


def test_an_edge_is_two_vertices_by_keyboard_or_finger_on_a_crowded_board(open_page, of_two):
    page = open_page(of_two, size="phone")
    begin(page, "both")
    page.locator('[data-vertex="3"]').click()
    assert page.inner_text("#hovered").startswith("From vertex 3 to ")
    page.locator('[data-vertex="10"]').click()
    settled(page, 1)
    assert page.locator(".edge.first[data-edge]").count() == 1
    for vertex in (10, 3):
        page.locator(f'[data-vertex="{vertex}"]').focus()
        page.keyboard.press("Enter")
    assert "Edge 3\u201310 has a colour already." in page.inner_text("#message")
    assert count(page) == 1


def test_a_second_window_that_is_behind_is_told_and_catches_up(open_page, of_two):
    page = open_page(of_two)
    begin(page, "both")
    other = open_page(of_two)
    other.locator("#count").wait_for()
    click_edge(page)
    settled(page, 1)
    click_edge(other)
    other.locator("#message").wait_for()
    assert "the game has moved on" in other.inner_text("#message")
    assert count(other) == 1


@pytest.mark.parametrize("size", ["wide", "tablet", "phone"])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits(open_page, address, size, dark):
    page = open_page(address, size=size, dark=dark)
    begin(page)
    page.click("#thinking")
    page.locator("#worth").wait_for()
    assert fits(page)
    for button in ("#back", "#hint", "#thinking", "#new"):
        assert page.locator(button).is_visible()
