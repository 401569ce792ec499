"""The page of a game: one file, small, which carries strangers' words but not their markup."""

import json
import re
from importlib.resources import files

import pytest

from hackmatrix_rl.games.hackmatrix import Action
from hackmatrix_rl.view.replays import Film, Match, Mind, Opinion, opinion_data, page_of
from view.games import Confident, played
from view.pages import Page

pytestmark = pytest.mark.view

HOSTILE = "</script><script>alert(1)</script><!--<b>&amp;\u2028"


@pytest.fixture(scope="module")
def match():
    return played(3, moves=60)


@pytest.fixture(scope="module")
def page(match):
    minds = {"confident": Mind(Confident(), match)}
    return page_of(match, minds=minds, player=HOSTILE, title="")


def data_of(page):
    return json.loads(Page(page).scripts[0])


def test_the_page_carries_the_whole_game(match, page):
    data = data_of(page)
    assert len(data["moments"]) == len(match.moments)
    for moment, shown in zip(match.moments, data["moments"], strict=True):
        assert shown["action"] == moment.action
        assert shown["end"] == moment.end
        assert shown["reward"] == pytest.approx(moment.reward, abs=1e-4)
        assert set(shown["terms"]) == {name for name, term in moment.terms.items() if term}
        assert shown["facts"]["cell"] == moment.frame.player_cell
    assert data["replay"]["actions"]


def test_the_pictures_are_those_of_the_frames(match, page):
    data, film = data_of(page), Film()
    for moment, shown in zip(match.moments, data["moments"], strict=True):
        again = film.moment(moment)
        assert all(shown.get(name) == again.get(name) for name in ("all", "seen"))
    assert data["shapes"] == film.shapes
    assert any("seen" in shown for shown in data["moments"]), "something is hidden somewhere"


def test_each_position_has_the_opinion_of_each_mind(page):
    *moments, last = data_of(page)["moments"]
    for moment in moments:
        opinion = moment["opinions"]["confident"]
        assert (opinion["value"], opinion["win"]) == (1.25, 0.5)
        assert {action for action, _ in opinion["visits"]} == {*moment["legal"]}
        assert sum(chance for _, chance in opinion["probabilities"]) == pytest.approx(1, abs=0.01)
    assert last["end"]
    assert "opinions" not in last


def test_a_strangers_words_stay_words(page):
    found = Page(page)
    tags = [tag for tag, _ in found.tags]
    assert tags.count("script") == 2
    assert "b" not in tags
    assert data_of(page)["player"] == HOSTILE
    assert "alert" not in found.scripts[1]


def test_nothing_is_fetched(page):
    found = Page(page)
    assert not {tag for tag, _ in found.tags} & {"img", "iframe", "object", "embed", "base"}
    assert {*found.fetched} <= {"data:,"}
    assert not re.search(r"url\(|@import", page)
    (policy,) = (a["content"] for _, a in found.tags if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_shapes_are_kept_once(page):
    shapes = data_of(page)["shapes"]
    assert len(set(shapes)) == len(shapes)
    # About 4 kB a move: 250 moves stay below a megabyte.
    assert len(page) < 90_000 + 4_000 * len(data_of(page)["moments"])


def test_odd_numbers_are_words_progress_is_told_and_scripts_are_short_files():
    opinion = Opinion(Action.UP, {Action.UP: 1.0}, float("nan"), None, {}, {})
    data = opinion_data(opinion)
    assert data["value"] == "nan"
    assert data["win"] is None
    json.dumps(data, allow_nan=False)
    told = []
    page_of(Match.start(3), on_move=lambda done, total: told.append((done, total)))
    assert told == [(1, 1)]
    for file in files("hackmatrix_rl.view.replays").joinpath("page").iterdir():
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 350, file.name
