import json

import pytest

from .commands import assert_refused, invoke

GAMES = ("--episodes", "4", "--num-envs", "4")


@pytest.mark.slow
def test_an_analysis_is_a_page_or_json(tmp_path):
    page = tmp_path / "page.html"
    result = invoke("analyze", "runner", *GAMES, "--output", page)
    assert result.exit_code == 0, result.output
    assert f"Open in a browser: {page}" in result.stdout
    assert "How runner plays" in page.read_text(encoding="utf-8")
    found = json.loads(invoke("analyze", "runner", *GAMES, "--json").stdout)
    assert found["games"] == 4
    assert found["league"] == "original"
    assert found["stages"][0]["reached"] == 4


def test_what_cannot_work_gets_one_line(tmp_path):
    assert_refused(invoke("analyze", "nobody"), "nobody")
    assert_refused(
        invoke("analyze", "runner", "--output", tmp_path / "missing" / "page.html"), "--output"
    )
