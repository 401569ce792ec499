"""The learning curve: what is drawn, in units that people can read."""

import json
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure

from hackmatrix_rl.runs._curve import baselines, draw_curve, draw_panel, panels_of, smoothed
from hackmatrix_rl.view import figures

LEVELS = {"random": -0.9, "runner": 1.7}


def rows(count, most=1000.0, **numbers):
    return [
        {"env_steps": most * (place + 1) / count, "return": place / count, **numbers}
        for place in range(count)
    ]


def panel(found, levels=LEVELS, name="return"):
    axes = Figure().subplots()
    draw_panel(axes, found, name, name, levels)
    return axes


def labels(axes):
    return set(axes.get_legend_handles_labels()[1])


@pytest.mark.parametrize(
    ("most", "word", "last"),
    [
        (1500.0, "environment steps", 1500.0),
        (2048.0, "environment steps (thousands)", 2.048),
        (24e6, "environment steps (millions)", 24.0),
        (5e9, "environment steps (billions)", 5.0),
    ],
)
def test_steps_are_in_units_that_fit(most, word, last):
    axes = panel(rows(30, most))
    assert axes.get_xlabel() == word
    assert axes.lines[0].get_xdata()[-1] == pytest.approx(last)
    # Labels of a handful of digits do not print over each other.
    axes.figure.canvas.draw()
    assert all(len(text.get_text()) < 6 for text in axes.get_xticklabels())


def test_random_and_runner_are_lines_and_few_rows_are_not_smoothed():
    axes = panel(rows(30))
    assert labels(axes) == {"training", "smoothed", "random", "runner"}
    assert axes.lines[-1].get_ydata() == [1.7, 1.7]
    axes = panel(rows(5), {})
    assert labels(axes) == {"training"}
    assert axes.get_legend() is None


def test_several_trainings_are_lines_with_the_band_of_their_quartiles():
    found = [row | {f"member/{k}/return": 4.0 * k for k in range(5)} for row in rows(30)]
    axes = panel(found, {})
    assert "quartiles of 5 trainings" in labels(axes)
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (4.0, 12.0)
    assert len(axes.lines) == 2 + 5
    many = [row | {f"member/{k}/return": 1.0 for k in range(17)} for row in rows(30)]
    assert len(panel(many, {}).lines) == 2


def test_trainings_with_other_settings_have_the_colour_of_theirs_and_no_common_mean():
    found = [row | {f"member/{k}/return": 4.0 * k for k in range(4)} for row in rows(30)]
    axes = Figure().subplots()
    draw_panel(axes, found, "return", "return", {}, ("a=1", "a=1", "a=2", "a=2"))
    shown, named = axes.get_legend_handles_labels()
    assert named == ["a=1", "a=2"]
    assert [line.get_ydata()[0] for line in shown] == [2.0, 10.0]
    colours = {line.get_ydata()[0]: line.get_color() for line in axes.lines}
    assert colours[0.0] == colours[4.0] == colours[2.0] != colours[8.0]
    assert colours[8.0] == colours[12.0] == colours[10.0]
    # Without settings, or without numbers of each, it is one training.
    assert labels(panel(rows(30), {})) == {"training", "smoothed"}


def test_ticks_of_whole_numbers_are_whole():
    axes = panel(rows(4, 4.0), {})
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_evaluations_are_points_with_intervals():
    found = rows(30)
    found[9] |= {"eval/return": 0.5, "eval/return_low": 0.25, "eval/return_high": 1.0}
    axes = panel(found)
    assert "evaluated (95%)" in labels(axes)
    (bars,) = axes.collections
    ((low, high),) = (path[:, 1] for path in bars.get_segments())
    assert (low, high) == (0.25, 1.0)


@pytest.mark.parametrize("odd", [None, True, 10**400, 1e300])
def test_what_cannot_be_drawn_is_left_out(odd):
    found = rows(3)
    found[1]["return"] = odd
    axes = panel(found)
    assert len(axes.lines[0].get_xdata()) == 2


def test_the_figures_of_random_and_runner_are_the_runs_own(tmp_path):
    file = tmp_path / "summary.json"
    assert baselines(None) == baselines(file) == {}
    summary = {
        "trained": {"return": {"mean": 3.0}},
        "random": {"return": {"mean": -1.0, "ci95": [-1.1, -0.9]}, "stage": {"mean": 1.1}},
        "runner": {"return": {"mean": None}},
    }
    file.write_text(json.dumps(summary))
    assert baselines(file) == {"return": {"random": -1.0}, "stage": {"random": 1.1}}
    file.write_text('{"random": [3], "runner": "fast"}')
    assert baselines(file) == {}
    file.write_text("{")
    assert baselines(file) == {}


def test_a_page_gets_the_same_drawing_in_its_own_colours():
    given = {"rows": rows(30), "name": "return", "label": "mean return", "levels": LEVELS}
    page = figures({"a curve": partial(draw_panel, **given)})
    assert '<figcaption class="dim">a curve</figcaption><svg' in page
    assert "var(--line)" in page
    assert "smoothed" in page


def test_the_picture_has_the_lines_of_the_summary(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(30)))
    (tmp_path / "summary.json").write_text('{"runner": {"return": {"mean": 2.0}}}')
    picture = tmp_path / "curve.svg"
    given = {"title": "run", "summary": tmp_path / "summary.json"}
    assert draw_curve(tmp_path / "metrics.jsonl", picture, **given)
    with_lines = picture.stat().st_size
    assert draw_curve(tmp_path / "metrics.jsonl", picture, title="run")
    assert picture.stat().st_size < with_lines


def test_self_play_has_curves_of_its_own():
    numbers = {"first_wins": 0.7, "length": 6.0, "policy_loss": 2.0, "value_loss": 0.5}
    found = [{**row, **numbers} for row in rows(3)]
    named = [label for _, label in panels_of([{"env_steps": 1}, *found])]
    assert named == [
        "share of games won by the first player",
        "moves per game",
        "policy loss (nats)",
        "value loss",
    ]
    assert [label for _, label in panels_of(rows(3))] == ["mean return"]


def test_the_smoothed_line_is_the_mean_around_each_point():
    values = np.arange(40.0)
    np.testing.assert_allclose(smoothed(values)[1:-1], values[1:-1])
    assert smoothed(values)[0] == 0.5
