"""The findings of an analysis as an HTML page."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hackmatrix_rl.evaluation import AFTERMATH, NEAR_EXIT, Calibration, Estimate, Findings
from hackmatrix_rl.games.hackmatrix import Program
from hackmatrix_rl.view._document import document, facts, table
from hackmatrix_rl.view._names import program_name
from hackmatrix_rl.view._picture import INKS, figures, literal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CAUSES = 15
"""Most causes of death that the page lists."""

_MOST_LEVEL = 9  # horizontal labels of an axis; with more, labels are vertical

_Columns = dict[str, Callable[[Any], str]]
"""The columns of a table: heading to a function that formats the cell of a row."""

_Written = Callable[[float], str]
"""Formats a number of a plot."""

_Draw = Callable[["Axes"], None]


def analysis_page(findings: Findings, *, player: str, about: Mapping[str, str]) -> str:
    """The findings as one self-contained HTML page; `about` adds named facts to its head."""
    won = findings.won
    lead = {
        "games": f"{findings.games:,}",
        "mean return": f"{findings.total_reward.mean:.1f}",
        "mean score": f"{findings.score.mean:.1f}",
        "won": f"{_percent(won.mean)} {_bounds(won, 1)}",
        **about,
    }
    return document(
        f"How {player} plays",
        {
            "Stages": _stages(findings),
            "Points": _points_of(findings),
            "Deaths": _deaths(findings),
            "Siphons": _siphons(findings),
            "Programs": _tools(findings),
            "UNDO": _undo(findings),
            "Calibration": _calibrations(findings),
        },
        lead=facts(lead),
        made_by="hackmatrix-rl analyze",
    )


def _stages(findings: Findings) -> str:
    reached = {str(each.stage): each.reached / findings.games for each in findings.stages}
    kept = {str(each.stage): each.completed for each in findings.stages}
    columns: _Columns = {
        "stage": lambda each: str(each.stage),
        "games that reached it": lambda each: f"{each.reached:,}",
        "completed it": lambda each: (
            f"{_percent(each.completed.mean)} {_bounds(each.completed, 0)}"
        ),
        "hp at its start": lambda each: f"{each.hp:.2f}",
        "moves": lambda each: f"{each.moves:.1f}",
        "deaths": lambda each: f"{each.deaths:,}",
    }
    pictures = {
        "Share of the games that reached each stage": _bars(reached, _percent),
        "Share of these games that completed it, with 95% intervals": _rates(kept),
    }
    return figures(pictures) + _table(columns, findings.stages)


def _points_of(findings: Findings) -> str:
    gained = {str(each.stage): each.gained for each in findings.points}
    missed = {str(each.stage): each.left for each in findings.points}
    best = f"points of the best cross within {NEAR_EXIT} steps of the exit"
    columns: _Columns = {
        "stage": lambda each: str(each.stage),
        "points gained": lambda each: f"{each.gained:.2f}",
        "data siphons left over": lambda each: _mean(each.siphons_held),
        best: lambda each: _mean(each.left),
    }
    pictures = {
        "Points that the games gained in each stage": _bars(gained, _mean),
        f"Left behind: {best}": _bars(missed, _mean),
    }
    caption = "The last two are means over games that completed the stage, when they left it."
    return figures(pictures) + _table(columns, findings.points, caption=caption)


def _deaths(findings: Findings) -> str:
    columns: _Columns = {
        "enemies next to the player": lambda each: each.attackers,
        "deaths": lambda each: f"{each.deaths:,}",
        "share": lambda each: _percent(each.share),
        "mean stage": lambda each: f"{each.stage:.1f}",
        f"within {AFTERMATH} moves of a siphon": lambda each: _percent(each.after_siphon),
        "with an enemy that a siphon brought": lambda each: _percent(each.from_siphon),
    }
    more = []
    rest = findings.causes[MOST_CAUSES:]
    if rest:
        deaths = sum(each.deaths for each in rest)
        share = sum(each.share for each in rest)
        more.append([f"{len(rest)} other ways", f"{deaths:,}", _percent(share), "", "", ""])
    return _table(columns, findings.causes[:MOST_CAUSES], more) or "<p>Nobody died.</p>"


def _siphons(findings: Findings) -> str:
    columns: _Columns = {
        "stage": lambda each: str(each.stage),
        "siphons a game": lambda each: f"{each.a_game:.2f}",
        "points of one": lambda each: f"{each.points:.1f}",
        "credits of one": lambda each: f"{each.credits:.1f}",
        "energy of one": lambda each: f"{each.energy:.1f}",
        "new programs of one": lambda each: f"{each.programs:.2f}",
        "transmissions called": lambda each: f"{each.called:.1f}",
        f"died within {AFTERMATH} moves": lambda each: _percent(each.died_after),
    }
    found = _table(columns, findings.siphons) or "<p>It never siphons.</p>"
    taken = {_name(name): count / findings.games for name, count in findings.taken.items()}
    if not (findings.siphons and taken):
        return found
    label = "Share of the games in which a siphon took each program"
    return found + figures({label: _bars(taken, _percent)})


def _tools(findings: Findings) -> str:
    columns: _Columns = {
        "action": lambda each: _name(each.name),
        "uses a game": lambda each: f"{each.a_game:.2f}",
        "games with one": lambda each: _percent(each.games),
        "won with it": lambda each: _percent(each.won_if_used),
        "won without": lambda each: _percent(each.won_if_not),
        f"hp over {AFTERMATH} moves": lambda each: f"{each.hp_after:+.2f}",
        "kills": lambda each: f"{each.kills_after:.2f}",
        "died": lambda each: _percent(each.died_after),
    }
    caption = (
        "These are correlations, not effects: games with a program also differ from others in "
        "other ways."
    )
    return _table(columns, findings.tools, caption=caption) or "<p>It uses none.</p>"


def _table(
    columns: _Columns, found: Sequence[Any], more: Sequence[list[str]] = (), *, caption: str = ""
) -> str:
    """A table with one row for each of `found`; empty without any."""
    rows = [[cell(each) for cell in columns.values()] for each in found]
    return table(list(columns), [*rows, *more], caption=caption) if rows else ""


def _undo(findings: Findings) -> str:
    undo = findings.undo
    return facts(
        {
            "games that owned it": _percent(undo.owned),
            "uses a game": f"{undo.a_game:.2f}",
            "of these right after a stage change": _percent(undo.after_stage_change),
            "won if owned": _percent(undo.won_if_owned),
            "won if not": _percent(undo.won_if_not),
        }
    )


def _calibrations(findings: Findings) -> str:
    found = {
        label: (calibration, written)
        for label, calibration, written in (
            ("Predicted win probability, and games won", findings.win_probability, _percent),
            ("Predicted value, and return", findings.value, _short),
        )
        if calibration is not None
    }
    if not found:
        return "<p>The player predicts neither a value nor a win probability.</p>"
    note = (
        "<p class=dim>Each point is the mean over a tenth of the moves, grouped by prediction. On "
        "the line, predictions are calibrated.</p>"
    )
    pictures = figures({label: _against(*given) for label, given in found.items()})
    tables = [
        table(
            ["", "predicted", "observed", "moves"],
            [
                [label, written(predicted), written(happened), f"{moves:,}"]
                for predicted, happened, moves in zip(
                    calibration.told, calibration.happened, calibration.moves, strict=True
                )
            ],
        )
        for label, (calibration, written) in found.items()
    ]
    return note + pictures + "".join(tables)


def _bars(numbers: Mapping[str, float], written: _Written) -> _Draw:
    def draw(axes: "Axes") -> None:
        bars = axes.bar(range(len(numbers)), list(numbers.values()), 0.7, color=INKS.line)
        labels = [written(number) for number in numbers.values()]
        axes.bar_label(bars, labels, fontsize="x-small", color=INKS.text)
        _name_columns(axes, list(numbers), written)

    return draw


def _rates(rates: Mapping[str, Estimate]) -> _Draw:
    def draw(axes: "Axes") -> None:
        columns = range(len(rates))
        for column, rate in zip(columns, rates.values(), strict=True):
            axes.vlines(column, rate.low, rate.high, color=INKS.line, linewidth=2)
        means = [rate.mean for rate in rates.values()]
        axes.plot(columns, means, color=INKS.line, linestyle="none", marker="o")
        axes.set_ylim(0, 1)
        _name_columns(axes, list(rates), _percent)

    return draw


def _name_columns(axes: "Axes", names: Sequence[str], written: _Written) -> None:
    style(axes)
    shown = list(map(literal, names))
    axes.set_xticks(range(len(names)), shown, rotation=0 if len(names) <= _MOST_LEVEL else 90)
    axes.yaxis.set_major_formatter(lambda number, _: written(number))


def _against(calibration: Calibration, written: _Written) -> _Draw:
    """Plots observed means over predictions, and the diagonal."""

    def draw(axes: "Axes") -> None:
        axes.axline((0, 0), slope=1, color=INKS.text, linestyle="--", linewidth=0.8)
        axes.plot(
            calibration.told, calibration.happened, color=INKS.points, linestyle="none", marker="o"
        )
        style(axes, "predicted", "observed")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda number, _: written(number))

    return draw


def _name(action: str) -> str:
    return program_name(Program[action]) if action in Program.__members__ else action


def _bounds(rate: Estimate, digits: int) -> str:
    return f"[{100 * rate.low:.{digits}f}, {100 * rate.high:.{digits}f}]"


def _percent(share: float) -> str:
    if math.isnan(share):
        return "-"
    return f"{100 * share:.1f}%" if 0 < share < 0.1 else f"{100 * share:.0f}%"


def _short(number: float) -> str:
    return f"{number:.3g}"


def _mean(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:.2g}"
