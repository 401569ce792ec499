"""A game as a page in a notebook."""

import jax
import pytest
from PIL import Image

import hackmatrix_rl as hm
from hackmatrix_rl.evaluation import Runner
from hackmatrix_rl.system.errors import ConfigError

pytestmark = pytest.mark.view


@pytest.fixture(scope="module")
def page():
    return hm.watch(Runner(), seed=5)


def test_the_page_is_the_first_game_of_the_evaluation_in_a_frame_of_its_own(page):
    assert repr(page) == "<game of 40 moves: died, stage 3>"
    assert "Runner: 40 moves" in page.html
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    # The page's own quotes must not end the attribute.
    assert shown.count('"') == 10


def test_the_game_is_saved_as_a_page_or_a_film(page, tmp_path):
    page.save(tmp_path / "game.html")
    assert (tmp_path / "game.html").read_text() == page.html
    with pytest.raises(ConfigError, match=r"a game is saved as .html, .gif or .mp4"):
        page.save(tmp_path / "game.txt")


def test_an_endless_game_is_cut_off(tmp_path):
    page = hm.watch(Runner(), seed=5, max_moves=3)
    assert page.match.now.end == "cut off"
    page.save(tmp_path / "game.gif")
    with Image.open(tmp_path / "game.gif") as film:
        assert film.n_frames == 4


def test_a_player_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="the runner reads HackMatrix"):
        hm.watch(Runner(), environment=hm.CartPole())
    policy = hm.build_network("mlp", hm.CartPole().spec, width=8, key=jax.random.key(0))
    with pytest.raises(ValueError, match="MLPActorCritic"):
        hm.watch(policy)
