import pytest

from .commands import assert_refused, done, invoke


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


def test_a_folder_that_is_no_run_and_a_place_that_cannot_be_written_are_refused(tmp_path):
    assert_refused(invoke("report", tmp_path), f"{tmp_path}: holds no run")
    place = tmp_path / "nowhere" / "page.html"
    assert_refused(invoke("report", tmp_path, "--output", place), "--output", "there is no folder")
