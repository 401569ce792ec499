import json

import pytest

from .commands import done, invoke

pytestmark = pytest.mark.view

GAMES = ("--episodes", "4", "--num-envs", "4")


@pytest.mark.slow
def test_an_analysis_is_a_page_or_json(tmp_path):
    page = tmp_path / "page.html"
    result = done("analyze", "runner", *GAMES, "--output", page)
    assert f"Open in a browser: {page}" in result.stdout
    assert "by its own rule, seed 0" in result.stdout
    assert "How runner plays" in page.read_text(encoding="utf-8")
    found = json.loads(invoke("analyze", "runner", *GAMES, "--json").stdout)
    assert found["games"] == 4
    assert found["league"] == "original"
    assert found["stages"][0]["reached"] == 4
    assert (found["seed"], found["greedy"]) == (0, None)
    assert {"credits", "energy", "points"} <= found["siphons"][0].keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "greedy", "said"),
    [((), False, "drawn from its probabilities"), (("--greedy",), True, "the likeliest actions")],
)
def test_it_is_said_how_a_network_played(trained, tmp_path, flags, greedy, said):
    page = tmp_path / "page.html"
    told = invoke("analyze", trained[0], *GAMES, "--seed", "7", *flags, "--output", page).stdout
    for text in (told, page.read_text(encoding="utf-8")):
        assert said in text
        assert "7" in text
    assert f"{said}, seed 7" in told
    found = json.loads(
        invoke("analyze", trained[0], *GAMES, "--seed", "7", *flags, "--json").stdout
    )
    assert (found["seed"], found["greedy"]) == (7, greedy)
