"""The page of a game: one file, small, which carries strangers' words but not their markup."""

import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import jax.numpy as jnp
import pytest

from hackmatrix_rl.evaluation import SCRIPTS, ThinkingAgent, Thought
from hackmatrix_rl.game import Action
from hackmatrix_rl.view.replays import Film, Match, Mind, Opinion, opinion_data, page_of

HOSTILE = "</script><script>alert(1)</script><!--<b>&amp;\u2028"


class Thinker(ThinkingAgent):
    """Takes the first legal action, and says all that a thought can say."""

    def think(self, observation, mask, carry, *, key):
        chances = mask.astype(jnp.float32) / mask.sum().astype(jnp.float32)
        thought = Thought(
            probabilities=chances,
            value=jnp.float32(2.5),
            win_probability=jnp.float32(0.25),
            search_values=jnp.where(mask, chances, jnp.nan),
            search_visits=mask.astype(jnp.int32),
        )
        return jnp.argmax(mask).astype(jnp.int32), carry, thought


class Reader(HTMLParser):
    """The tags of a page, and the text of its scripts."""

    def __init__(self):
        super().__init__()
        self.tags = []
        self.scripts = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def match():
    match = Match.start(3)
    runner = Mind(SCRIPTS["runner"](), match)
    while match.now.end is None and match.now.number < 60:
        match.play(runner.opinion().action)
    return match


@pytest.fixture(scope="module")
def page(match):
    return page_of(match, minds={"thinker": Mind(Thinker(), match)}, player=HOSTILE, title="")


def read(page):
    reader = Reader()
    reader.feed(page)
    return reader


def data_of(page):
    return json.loads(read(page).scripts[0])


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
    data = data_of(page)
    film = Film()
    for moment, shown in zip(match.moments, data["moments"], strict=True):
        again = film.moment(moment)
        for name in ("all", "seen"):
            assert (name in shown) == (name in again)
            if name in shown:
                assert shown[name] == again[name]
    assert data["shapes"] == film.shapes
    hidden = [shown for shown in data["moments"] if "seen" in shown]
    assert hidden, "in some position there is something that the player does not see"


def test_each_position_has_the_opinion_of_each_mind(page):
    *moments, last = data_of(page)["moments"]
    for moment in moments:
        opinion = moment["opinions"]["thinker"]
        assert opinion["value"] == 2.5
        assert opinion["win"] == 0.25
        assert [action for action, _ in opinion["visits"]] == moment["legal"]
        assert sum(chance for _, chance in opinion["probabilities"]) == pytest.approx(1, abs=0.01)
    assert last["end"]
    assert "opinions" not in last


def test_a_strangers_words_stay_words(page):
    reader = read(page)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert "b" not in [tag for tag, _ in reader.tags]
    assert data_of(page)["player"] == HOSTILE
    assert "alert" not in reader.scripts[1]


def test_nothing_is_fetched(page):
    reader = read(page)
    for tag, attributes in reader.tags:
        assert tag not in ("img", "iframe", "object", "embed", "base"), tag
        assert "src" not in attributes, tag
        assert attributes.get("href", "data:,") == "data:,", tag
    assert not re.search(r"url\(|@import", page)
    (policy,) = (a["content"] for _, a in reader.tags if a.get("http-equiv"))
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
