"""The page of an analysis shows each finding, and fetches nothing."""

import math
import re

import pytest

from hackmatrix_rl.evaluation import (
    Calibration,
    Cause,
    Estimate,
    Findings,
    Points,
    Siphons,
    Stage,
    Tool,
    Undo,
)
from hackmatrix_rl.view import analysis_page
from view.pages import Page

pytestmark = pytest.mark.view

RATE = Estimate(0.5, 0.4, 0.6)


def findings(**changed):
    given = {
        "games": 40,
        "total_reward": Estimate(12.5, 10.0, 15.0),
        "score": Estimate(2.5, 2.0, 3.0),
        "won": RATE,
        "stages": (Stage(1, 40, RATE, 3.0, 12.0, 20), Stage(2, 20, RATE, 2.5, 14.0, 10)),
        "causes": tuple(Cause(f"{n} virus", 2, 0.05, 1.5, 0.5, 0.25) for n in range(20)),
        "tools": (Tool("D_BOM", 0.3, 0.2, 0.5, math.nan, -0.5, 1.2, 0.1),),
        "siphons": (Siphons(1, 0.5, 2.0, 6.2, 7.8, 0.25, 3.0, 0.125),),
        "points": (Points(1, 3.25, 1.5, 7.5), Points(2, 0.5, math.nan, math.nan)),
        "taken": {"SIPH_PLUS": 4},
        "undo": Undo(0.25, 1.5, 0.75, 0.9, 0.1),
        "value": Calibration((0.0, 10.0), (1.0, 8.0), (5, 5)),
        "win_probability": Calibration((0.1, 0.9), (0.2, 0.8), (5, 5)),
    }
    return Findings(**(given | changed))


def test_each_finding_is_on_the_page():
    page = analysis_page(findings(), player="<me>", about={"league": "no-rewind"})
    for part in ("How &lt;me&gt; plays", "no-rewind", "2 virus", "5 other ways", "D_BOM", "SIPH+"):
        assert part in page, part
    assert "<me>" not in page
    assert "credits of one" in page
    assert "energy of one" in page
    cells = re.sub(' data-[a-z]+=("[^"]*"|[^ >]+)', "", page)  # the head that a card shows
    assert "<td class=number>6.2</td><td class=number>7.8</td>" in cells
    assert "<td class=number>3.25</td><td class=number>1.5</td><td class=number>7.5</td>" in cells
    assert ">3.2</text>" in page
    assert ">7.5</text>" in page
    for told in (("10%", "20%", "5"), ("10", "8", "5")):
        assert "".join(f"<td class=number>{each}</td>" for each in told) in cells
    found = Page(page)
    assert found.open == []
    assert all(each.startswith("#") for each in found.fetched)


def test_what_is_missing_is_said_and_siphons_without_programs_have_no_picture():
    empty = findings(causes=(), tools=(), siphons=(), taken={}, value=None, win_probability=None)
    page = analysis_page(empty, player="runner", about={})
    for line in ("Nobody died.", "It never siphons.", "It uses none.", "neither a value nor"):
        assert line in page
    page = analysis_page(findings(taken={}), player="runner", about={})
    assert "siphons a game" in page
    assert "a siphon took each program" not in page
