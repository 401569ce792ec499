"""The page of a game, from the disk, in a real browser."""

import json

import jax
import pytest
from view.games import played

import hackmatrix_rl as hm
from hackmatrix_rl.evaluation import SCRIPTS
from hackmatrix_rl.runs import report_of
from hackmatrix_rl.view import document, table
from hackmatrix_rl.view.replays import Mind, Replay, page_of

from .conftest import downloaded, fits, number_shown, wait_until


@pytest.fixture(scope="module")
def match():
    return played(3, moves=80)


@pytest.fixture(scope="module")
def address(match, tmp_path_factory):
    """Of the page on the disk; its player is somebody's markup."""
    path = tmp_path_factory.mktemp("page") / "game.html"
    minds = {"runner": Mind(SCRIPTS["runner"](), match)}
    player = "</script><script>document.title = 'broken'</script>"
    path.write_text(page_of(match, minds=minds, player=player, title="A game"), encoding="utf-8")
    return path.as_uri()


def test_it_steps_and_jumps_by_buttons_and_keys(open_page, address, match):
    page = open_page(address)
    last = match.now.number
    assert page.title() == "A game"
    assert number_shown(page) == (0, last)
    page.click("#next")
    page.keyboard.press("ArrowRight")
    assert number_shown(page)[0] == 2
    assert match.moments[2].action.label in page.inner_text("#move-title")
    page.keyboard.press("ArrowLeft")
    assert number_shown(page)[0] == 1
    page.keyboard.press("End")
    assert number_shown(page)[0] == last
    assert page.inner_text("#end") == "Died."
    page.keyboard.press("Home")
    page.click("#last")
    page.click("#back")
    assert number_shown(page)[0] == last - 1
    page.click("#first")
    assert number_shown(page)[0] == 0


def test_each_move_shows_its_reward_and_thoughts(open_page, address, match):
    page = open_page(address)
    for number in (1, 20, match.now.number - 1):
        page.fill("#scrubber", str(number))
        said = page.inner_text("#move").replace("\u2212", "-")
        for name in (name for name, term in match.moments[number].terms.items() if term):
            assert name.replace("_", " ") in said
        assert f"{match.moments[number].reward:.2f}".rstrip("0").rstrip(".") in said
        following = match.moments[number + 1].action.label
        assert f"runner \u2192 {following}" in page.inner_text("#thoughts")


def test_it_plays_and_pauses(open_page, address, match):
    page = open_page(address)
    page.select_option("#speed", "16")
    page.keyboard.press("Space")
    assert page.get_attribute("#play", "aria-label") == "Pause"
    wait_until(page, lambda: number_shown(page)[0] > 3)
    page.keyboard.press("Space")
    at = number_shown(page)[0]
    page.wait_for_timeout(300)
    assert number_shown(page)[0] == at
    page.keyboard.press("Space")
    wait_until(page, lambda: number_shown(page)[0] == match.now.number)
    wait_until(page, lambda: page.get_attribute("#play", "aria-label") == "Play")
    page.keyboard.press("-")
    assert page.input_value("#speed") == "8"
    page.keyboard.press("+")
    assert page.input_value("#speed") == "16"


def test_a_click_on_the_timeline_jumps(open_page, address, match):
    page = open_page(address)
    box = page.locator("#timeline").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    at, last = number_shown(page)
    assert abs(at - last / 2) <= 1


def test_hidden_things_come_and_go(open_page, address, match):
    page = open_page(address)
    hidden = next(
        each.number for each in match.moments if each.frame.seen().enemies != each.frame.enemies
    )
    page.fill("#scrubber", str(hidden))
    everything = page.inner_html("#picture")
    page.click("#view")
    assert page.inner_text("#view") == "View: what the agent sees"
    assert page.inner_html("#picture") != everything
    page.locator("#view").blur()
    page.keyboard.press("0")
    assert page.inner_html("#picture") == everything


def test_it_saves_the_replay(open_page, address, match, tmp_path):
    page = open_page(address)
    with downloaded(page) as found:
        page.click("#save")
    replay = Replay.from_dict(json.loads(found[0]))
    assert replay.match().actions == match.actions


FORGED = """<!doctype html><script>
const link = document.createElement("a");
link.href = "data:,anything"; link.download = "anything"; link.click();
</script>"""


def test_a_report_shows_the_game_and_runs_no_script_of_the_run(open_page, match, tmp_path):
    run = tmp_path / "run"
    (run / "replays").mkdir(parents=True)
    (run / "config.json").write_text("{}")
    (run / "replay.html").write_text(FORGED)
    Replay.from_match(match).save(run / "replays" / "update-1.json")
    (run / "report.html").write_text(report_of(str(run))[0], encoding="utf-8")
    page = open_page((run / "report.html").as_uri())
    game = page.frame_locator("iframe")
    game.locator("#next").click()
    assert game.locator("#place").inner_text() == f"1 / {match.now.number}"
    assert not game.locator("#save").is_visible(), "the report has a link to the file"


def test_its_keys_are_told(open_page, address):
    page = open_page(address)
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()


@pytest.mark.parametrize("size", ["wide", "tablet", "phone"])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_has_both_themes(open_page, address, size, dark):
    page = open_page(address, size=size, dark=dark)
    page.fill("#scrubber", "20")
    assert fits(page)

    def is_dark():
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour[4:-1].split(","))) < 200

    assert is_dark() == dark
    page.click("#theme")
    assert is_dark() != dark


def test_no_cell_of_a_wide_table_is_cut_on_a_phone(open_page, tmp_path):
    heads = ["run", "state", "return", "settings", "end"]
    rows = [["trial-0001", "pruned", "152.9", "learning_rate 0.08311, width 32, " * 3, "after 13%"]]
    path = tmp_path / "page.html"
    path.write_text(document("sweep", {"Trials": table(heads, rows)}, made_by="report"))
    page = open_page(path.as_uri(), size="phone")
    cells = page.locator("td")
    assert [each.strip() for each in cells.all_inner_texts()] == [each.strip() for each in rows[0]]
    boxes = [each.bounding_box() for each in cells.all()]
    width = page.evaluate("window.innerWidth")
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)


@pytest.mark.parametrize("size", ["wide", "phone"])
def test_a_game_of_another_environment_has_the_same_page(open_page, tmp_path, size):
    path = tmp_path / "game.html"
    environment = hm.CartPole(max_steps=12)
    policy = hm.MLPActorCritic(environment.spec, width=4, key=jax.random.key(0))
    game = hm.watch(policy, environment=environment, name="somebody")
    game.save(path)
    page = open_page(path.as_uri(), size=size)
    page.keyboard.press("ArrowRight")
    assert number_shown(page) == (1, game.match.moves)
    assert page.inner_text("#move-title").startswith("Move 1 action ")
    assert "policy" in page.inner_text("#thoughts").lower()
    assert page.locator("#picture text").count() > 10
    for gone in ("#view", "#save", "#facts-panel", "#legend .hp"):
        assert not page.locator(gone).is_visible()
    page.keyboard.press("End")
    assert page.inner_text("#end").split(":")[0].lower() == game.match.end
    assert fits(page)
