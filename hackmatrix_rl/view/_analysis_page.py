"""What an analysis found, on one page."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hackmatrix_rl.evaluation import AFTERMATH, NEAR_EXIT, Calibration, Estimate, Findings
from hackmatrix_rl.game import Program
from hackmatrix_rl.view._document import document, facts, table, text
from hackmatrix_rl.view._names import program_name

MOST_CAUSES = 15
"""Most ways to die that the page lists."""

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 420, 240, 46, 34, 12
_MOST_LEVEL = 9  # labels that stand side by side; more are tilted
_TILTED = 24  # more room for them


_Columns = dict[str, Callable[[Any], str]]
"""The columns of a table: the heading, and what stands there of each thing found."""

_Written = Callable[[float], str]
"""How a picture writes a number."""


def analysis_page(findings: Findings, *, player: str, about: Mapping[str, str]) -> str:
    """The findings as one self-contained HTML page; `about` adds facts, by name, to its head."""
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
    bars = [(str(each.stage), each.reached / findings.games) for each in findings.stages]
    kept = [(str(each.stage), each.completed) for each in findings.stages]
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
    pictures = [
        _figure("Share of the games that reached each stage", _bars(bars, _percent)),
        _figure("Share of those that completed it, with 95% intervals", _points(kept)),
    ]
    return f'<div class="curves">{"".join(pictures)}</div>{_table(columns, findings.stages)}'


def _points_of(findings: Findings) -> str:
    gained = [(str(each.stage), max(each.gained, 0.0)) for each in findings.points]
    missed = [(str(each.stage), np.nan_to_num(each.left)) for each in findings.points]
    best = f"points of the best cross within {NEAR_EXIT} steps of the exit"
    columns: _Columns = {
        "stage": lambda each: str(each.stage),
        "points gained": lambda each: f"{each.gained:.2f}",
        "data siphons left over": lambda each: _mean(each.siphons_held),
        best: lambda each: _mean(each.left),
    }
    pictures = [
        _figure("Points that the games gained in each stage", _bars(gained, _mean)),
        _figure(f"Left behind: {best}", _bars(missed, _mean)),
    ]
    caption = "The last two are means over the games that completed the stage, as they left it."
    found = _table(columns, findings.points, caption=caption)
    return f'<div class="curves">{"".join(pictures)}</div>{found}'


def _deaths(findings: Findings) -> str:
    columns: _Columns = {
        "enemies beside the player": lambda each: each.attackers,
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
    taken = [(_name(name), count / findings.games) for name, count in findings.taken.items()]
    if not (findings.siphons and taken):
        return found
    picture = _figure(
        "Share of the games in which a siphon took each program", _bars(taken, _percent)
    )
    return f'{found}<div class="curves">{picture}</div>'


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
        "What followed is no proof of what caused it: the games with a program differ in more "
        "than that."
    )
    return _table(columns, findings.tools, caption=caption) or "<p>It uses none.</p>"


def _table(
    columns: _Columns, found: Sequence[Any], more: Sequence[list[str]] = (), *, caption: str = ""
) -> str:
    """A table with a row for each thing found, or nothing without any."""
    rows = [[told(each) for told in columns.values()] for each in found]
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
    pictures = [
        _figure(label, _against(calibration, unit))
        for label, calibration, unit in (
            ("Win probability: told, and games won", findings.win_probability, True),
            ("Value: told, and the return that it predicts", findings.value, False),
        )
        if calibration is not None
    ]
    if not pictures:
        return "<p>The player tells neither a value nor a win probability.</p>"
    note = (
        "<p class=dim>Each point is a tenth of the moves, grouped by what the player told. On the "
        "line, it told the truth.</p>"
    )
    return f'{note}<div class="curves">{"".join(pictures)}</div>'


def _figure(label: str, svg: str) -> str:
    return (
        f'<figure role="img" aria-label="{text(label)}"><figcaption class="dim">{text(label)}'
        f"</figcaption>{svg}</figure>"
    )


def _x(place: int, count: int) -> float:
    return _LEFT + (place + 0.5) * (_WIDTH - _LEFT) / count


def _y(share: float) -> float:
    return _TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM)


def _svg(parts: Sequence[str], *, below: int = 0) -> str:
    """A picture; `below` is room for tilted labels."""
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + below}" xmlns="http://www.w3.org/2000/svg" '
        f'font-size="11">{"".join(parts)}</svg>'
    )


def _scale(top: float, written: _Written) -> list[str]:
    """Grid lines and their labels; `top` is the number at the upper end."""
    return [_level(_y(quarter / 4), written(top * quarter / 4)) for quarter in range(5)]


def _level(y: float, label: str) -> str:
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--grid)"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="var(--dim)">{label}</text>'
    )


def _labels(names: Sequence[str]) -> list[str]:
    """The names below the bars; tilted where there are many."""
    parts = []
    for place, name in enumerate(names):
        x, y = _x(place, len(names)), _HEIGHT - _BOTTOM + 14
        tilted = len(names) > _MOST_LEVEL
        turn = f' transform="rotate(-50 {x:.1f} {y})"' if tilted else ""
        anchor = "end" if tilted else "middle"
        parts.append(
            f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="var(--text)"{turn}>'
            f"{text(name)}</text>"
        )
    return parts


def _bars(shares: Sequence[tuple[str, float]], written: _Written) -> str:
    largest = max(share for _, share in shares)
    decade = 10.0 ** math.ceil(math.log10(max(largest, 0.01)))
    top = next(step for step in (0.2 * decade, 0.5 * decade, decade) if largest <= step)
    wide = 0.7 * (_WIDTH - _LEFT) / len(shares)
    parts = _scale(top, written)
    for place, (name, share) in enumerate(shares):
        height = _y(share / top)
        parts.append(
            f'<rect x="{_x(place, len(shares)) - wide / 2:.1f}" y="{height:.1f}" '
            f'width="{wide:.1f}" height="{_y(0) - height:.1f}" fill="var(--line)">'
            f"<title>{text(name)}: {written(share)}</title></rect>"
        )
    labels = _labels([name for name, _ in shares])
    return _svg([*parts, *labels], below=_TILTED if len(shares) > _MOST_LEVEL else 0)


def _points(rates: Sequence[tuple[str, Estimate]]) -> str:
    parts = _scale(1.0, _percent)
    for place, (name, rate) in enumerate(rates):
        x = _x(place, len(rates))
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_y(rate.low):.1f}" y2="{_y(rate.high):.1f}" '
            'stroke="var(--line)" stroke-width="2"/>'
            f'<circle cx="{x:.1f}" cy="{_y(rate.mean):.1f}" r="4" fill="var(--line)">'
            f"<title>{text(name)}: {_percent(rate.mean)}</title></circle>"
        )
    return _svg([*parts, *_labels([name for name, _ in rates])])


def _against(calibration: Calibration, is_share: bool) -> str:
    """What happened over what was told, with the line on which both are the same."""
    numbers = [*calibration.told, *calibration.happened]
    low, high = (0.0, 1.0) if is_share else (min(numbers), max(numbers))
    span = (high - low) or 1.0

    def at(told: float, happened: float) -> tuple[float, float]:
        return _LEFT + (told - low) / span * (_WIDTH - _LEFT - 8), _y((happened - low) / span)

    def written(number: float) -> str:
        return _percent(number) if is_share else f"{number:.3g}"

    parts = []
    for quarter in range(5):
        number = low + span * quarter / 4
        x, y = at(number, number)
        parts.append(
            f'{_level(y, written(number))}<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" '
            f'text-anchor="middle" fill="var(--dim)">{written(number)}</text>'
        )
    (x1, y1), (x2, y2) = at(low, low), at(high, high)
    parts.append(
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="var(--dim)" '
        'stroke-dasharray="4 4"/>'
    )
    for told, happened, moves in zip(
        calibration.told, calibration.happened, calibration.moves, strict=True
    ):
        x, y = at(told, happened)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="var(--points)"><title>'
            f"told {written(told)}, happened {written(happened)}, {moves:,} moves</title></circle>"
        )
    return _svg(parts)


def _name(action: str) -> str:
    return program_name(Program[action]) if action in Program.__members__ else action


def _bounds(rate: Estimate, digits: int) -> str:
    return f"[{100 * rate.low:.{digits}f}, {100 * rate.high:.{digits}f}]"


def _percent(share: float) -> str:
    if math.isnan(share):
        return "-"
    return f"{100 * share:.1f}%" if 0 < share < 0.1 else f"{100 * share:.0f}%"


def _mean(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:.2g}"
