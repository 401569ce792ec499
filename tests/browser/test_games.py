"""The page of an agent's games in a real browser, for an environment other than HackMatrix."""

from functools import partial

import pytest

pytest.importorskip("starlette", reason="needs the extra ui")
pytest.importorskip("uvicorn", reason="needs the extra ui")

from view.ui.test_server import TOKEN, serving

import hackmatrix_rl as hm
from hackmatrix_rl.evaluation import RandomAgent
from hackmatrix_rl.view.ui import Games

from .conftest import fits, number_shown, wait_until


def test_one_game_after_another_is_played_and_shown(open_page):
    make = partial(Games, RandomAgent(), hm.CartPole(max_steps=30), name="random", seed=3)

    def shows(page, which):
        wait_until(page, lambda: page.inner_text("#player") == which)
        assert page.inner_text("#title").startswith("CartPole: random: ")

    with serving(make) as served:
        address = f"http://127.0.0.1:{served.port}/?token={TOKEN}"
        for size in ("wide", "phone"):
            page = open_page(address, size=size)
            shows(page, "seed 3, game 0" if size == "wide" else "seed 7, game 0")
            wait_until(page, lambda page=page: number_shown(page)[0] > 0)
            page.keyboard.press("n")
            shows(page, "seed 3, game 1" if size == "wide" else "seed 7, game 1")
            page.click("#new")
            page.fill("#seed", "4294967296")
            page.click("#new-game button.main")
            wait_until(page, lambda page=page: "to 4294967295" in page.inner_text("#message"))
            page.click("#new")
            page.fill("#seed", "7")
            page.click("#new-game button.main")
            shows(page, "seed 7, game 0")
            assert fits(page)
