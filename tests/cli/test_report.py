import json
import shutil

import pytest

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.view


@pytest.mark.slow
def test_a_run_has_a_page(trained, tmp_path):
    folder, _ = trained
    page = tmp_path / "page.html"
    result = done("report", folder, "--output", page)
    assert result.stdout == f"{page}\n"
    text = page.read_text()
    for part in ("trained to the end at 2,048 steps", "update-00000008", "mean return", "runner"):
        assert part in text
    assert "Missing" not in text


@pytest.mark.slow
def test_several_runs_have_a_page_and_their_returns_as_json(trained, tmp_path):
    folder, _ = trained
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    page = tmp_path / "page.html"
    told = json.loads(done("report", folder, other, "--output", page, "--json").stdout)
    assert told["page"] == str(page)
    (returns,) = told["returns"].values()
    assert returns[0] == returns[1]
    assert "Performance profiles" in page.read_text()
    assert_refused(invoke("report", folder, "--json"), "--json: prints the returns of several runs")
