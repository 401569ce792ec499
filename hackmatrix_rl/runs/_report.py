"""The report of a run: one self-contained HTML page."""

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hackmatrix_rl.runs._curve import baselines, draw_panel, entry, number, panels_of
from hackmatrix_rl.runs._lineage import CAPTION, Lineage, draw_setting
from hackmatrix_rl.runs._record import (
    RunRecord,
    read_run,
    seeds_in_words,
    settings_of_members,
    value_in_words,
)
from hackmatrix_rl.runs._saved_summary import LAST_TENTH, source_in_words
from hackmatrix_rl.runs._trainings import Trainings
from hackmatrix_rl.runs._wall_time import in_words, mean_mfu
from hackmatrix_rl.system.errors import ConfigError, in_shell, shortened
from hackmatrix_rl.view import document, facts, figures, table, text
from hackmatrix_rl.view.replays import Recording, Replay, page_of, page_of_recording, script_source

MOST_LINES = 200
"""Most lines of the log that a page shows, the newest ones."""

# Name in the summary, and label.
_RESULTS = (
    ("return", "return"),
    ("score", "score"),
    ("win_rate", "win rate"),
    ("stage", "stage reached"),
    ("length", "length"),
    ("elo", "Elo"),
)
_NEWEST = (
    ("return", "mean return"),
    ("stage", "mean stage"),
    ("entropy", "entropy (nats)"),
    ("approx_kl", "KL of an update (nats)"),
    ("value_loss", "value loss"),
    ("policy_loss", "policy loss"),
    ("steps_per_second", "steps per second"),
    ("mfu", "share of the peak (MFU)"),
)


def report_of(run: str) -> tuple[str, Path]:
    """A run as one self-contained HTML page, and the run's folder.

    The page has the learning curves, the evaluation, replays, warnings, settings and versions that
    the run's folder has, and lists what is missing. It renders the newest replay itself: the pages
    in the folder are not embedded, because their scripts are untrusted.
    """
    record = read_run(run)
    sections = {
        "Evaluation": _evaluation(record),
        "Trainings": _trainings(record),
        "Learning curves": _curves(record),
        "Lineage": _lineage(record),
        "Replays": _replays(record),
        "Warnings": _warnings(record),
        "Settings": _settings(record),
        "Starts": _starts(record),
        "Missing": _list(record.missing),
    }
    page = document(
        record.folder.run_id,
        sections,
        lead=f"<p>{text(record.end)}{_wall_time(record)}</p>{_facts(record)}",
        made_by="hackmatrix-rl report",
        scripts=[script_source()],
    )
    return page, record.folder.path


def _wall_time(record: RunRecord) -> str:
    spent = in_words(record.rows[-1], mean_mfu(record.rows)) if record.rows else ""
    return f" Wall time {text(spent)}." if spent else ""


def _facts(record: RunRecord) -> str:
    last = record.rows[-1] if record.rows else {}
    config, start = record.config, record.starts[-1] if record.starts else {}
    device = entry(start, "devices")
    found = {
        "environment": " ".join(
            str(config[name]) for name in ("env", "env_args") if config.get(name) is not None
        )
        or str(config.get("environment", "")),
        "environment steps": _count(last.get("env_steps"), config.get("total_timesteps")),
        "games": _count(last.get("games"), config.get("num_games")),
        "updates": _count(last.get("updates")),
        "resumed": _times(len(record.resumes)),
        "network": " ".join(
            str(config[name]) for name in ("network", "precision") if name in config
        )
        or str(config.get("policy", "")),
        "seed": seeds_in_words(config),
        "trainings": _several(record),
        "device": f"{entry(device, 'kind')} x {entry(device, 'count')}" if device else "",
        "begun": _minute(entry(record.starts[0], "started")) if record.starts else "",
        "version": str(entry(entry(start, "versions"), "hackmatrix-rl") or ""),
    }
    return facts(found)


def _evaluation(record: RunRecord) -> str:
    found = {name: each for name, each in record.summary.items() if isinstance(each, Mapping)}
    if not found:
        return ""
    rows = [
        [label, *(_interval(each.get(name), name) for each in found.values())]
        for name, label in _results(found.values())
    ]
    histograms = [entry(each.get("stage"), "histogram") or {} for each in found.values()]
    stages = {stage for each in histograms if isinstance(each, Mapping) for stage in each}
    for stage in sorted(stages, key=lambda text: (len(text), text)):
        counts = [_count(entry(each, stage) or 0) for each in histograms]
        rows.append([f"ended in stage {text(stage)}", *counts])
    episodes = next(iter(found.values())).get("episodes")
    caption = source_in_words(record.summary) or (
        f"{_count(episodes)} games with each player; means with 95% intervals."
    )
    if steps := _count(entry(record.summary.get("trained"), "env_steps")):
        caption += f" The trained player is from step {steps}{_whose(record)}."
    return table(["", *found], rows, caption=caption, escaped=True)


def _results(players: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The results that some player has, with labels as HTML; an environment's own come last."""
    names = dict.fromkeys(
        name for each in players for name, found in each.items() if entry(found, "mean") is not None
    )
    known = dict(_RESULTS)
    own = [(name, text(shortened(name))) for name in names if name not in known]
    return [each for each in _RESULTS if each[0] in names] + own


def _whose(record: RunRecord) -> str:
    """Which of several trainings was evaluated, in words."""
    member = entry(record.summary.get("trained"), "member")
    settings = settings_of_members(record.config)
    if not isinstance(member, int) or not 0 <= member < len(settings):
        return ""
    best = record.kind.best_by
    why = "" if best is None else f", which had the highest {best} in the last tenth"
    setting = f" ({settings[member]})" if settings[member] else ""
    apart = entry(record.summary.get("trained"), "source") != LAST_TENTH
    games = "; these games were not used for that choice" if apart else ""
    return f" of training {member}{setting}{why}{games}"


def _several(record: RunRecord) -> str:
    count = len(settings_of_members(record.config))
    return "" if count == 1 else f"{count} in one program"


def _trainings(record: RunRecord) -> str:
    """A table of the trainings by setting, and one of each training if they are few."""
    found = Trainings.from_rows(record.config, record.rows)
    if found is None:
        return ""
    count = range(len(found.settings))
    columns = {"training": [str(k) for k in count]}
    if any(found.settings):
        columns["setting"] = [each or "-" for each in found.settings]
    if found.seeds:
        columns["seed"] = [str(each) for each in found.seeds]
    columns[found.metric] = [found.shown(k) for k in count]
    heads, each = [*columns], [[*row] for row in zip(*columns.values(), strict=True)]
    page = table(found.heads, found.rows(), caption=found.caption)
    if len(each) > MOST_LINES:
        return page
    return f"{page}<h3>Each training</h3>{table(heads, each)}"


def _curves(record: RunRecord) -> str:
    panels = panels_of(record.rows)
    panels += tuple((name, name) for name in record.hook_metrics if not _part_of(name, panels))
    if not panels:
        return ""
    levels = baselines(record.folder.summary)
    drawn = {
        f"{label} over environment steps": partial(
            draw_panel,
            rows=record.rows,
            name=name,
            label=label,
            levels=levels.get(name, {}),
            settings=settings_of_members(record.config),
        )
        for name, label in panels
    }
    last = record.rows[-1]
    rows = [
        [label, _number(last.get(name))] for name, label in _NEWEST if last.get(name) is not None
    ]
    newest = table(["", "newest row"], rows) if rows else ""
    return figures(drawn) + newest


def _lineage(record: RunRecord) -> str:
    found = Lineage.from_rows(record.rows)
    if found is None:
        return ""
    drawn = {
        f"{name} of each training": partial(draw_setting, found=found, name=name)
        for name in found.names
    }
    return f"<p>{CAPTION}</p>{figures(drawn)}"


def _replays(record: RunRecord) -> str:
    if not record.replays:
        return ""
    rows = [_replay_row(name, replay) for name, replay in record.replays]
    staged = any(isinstance(replay, Replay) for _, replay in record.replays)
    heads = ["file", "return", *(["stage", "score"] if staged else []), "moves", "end"]
    caption = f"Watch one: hackmatrix-rl replay {in_shell(record.folder.replays)}/FILE"
    caption += "; --agent RUN adds the agent's thoughts." if staged else "."
    rows = [row if staged else [*row[:2], *row[4:]] for row in rows]
    return _played(*record.replays[0]) + table(heads, rows, escaped=True, caption=caption)


def _played(name: str, replay: Replay | Recording) -> str:
    try:
        if isinstance(replay, Recording):
            page = page_of_recording(replay)
        else:
            page = page_of(replay.match(), player=replay.player)
    except ConfigError as error:
        return f"<p>{text(name)}: {text(error)}.</p>"
    return (
        "<p class=screen>The newest one. Space plays and pauses it.</p>"
        '<iframe title="the newest replay" sandbox="allow-scripts" '
        f'srcdoc="{html.escape(page)}"></iframe>'
    )


def _replay_row(name: str, replay: Replay | Recording) -> list[str]:
    if isinstance(replay, Recording):  # too large for a link that holds it
        cells = [f"{replay.total_reward:.2f}", "", "", f"{replay.moves:,}"]
        return [text(name), *cells, text(replay.end or "unfinished")]
    content = base64.b64encode(json.dumps(replay.as_dict(), indent=2).encode()).decode()
    href = f"data:application/json;base64,{content}"
    link = f'<a download="{text(name)}" href="{href}">{text(name)}</a>'
    return [
        link,
        f"{replay.total_reward:.2f}",
        str(replay.stage),
        f"{replay.score:,}",
        f"{len(replay.actions):,}",
        text(replay.end or "unfinished"),
    ]


def _warnings(record: RunRecord) -> str:
    lines = [*record.warnings, *record.resumes]
    if not lines:
        return "<p>The log has none.</p>" if record.log else ""
    more = len(lines) - MOST_LINES
    first = f"<p class=dim>{more:,} earlier lines are left out.</p>" if more > 0 else ""
    return f"{first}<pre>{text(chr(10).join(sorted(lines)[-MOST_LINES:]))}</pre>"


def _part_of(name: str, panels: Sequence[tuple[str, str]]) -> bool:
    """Whether the panels already show a metric: an evaluation's mean, interval or size."""
    shown = {f"eval/{each}" for each, _ in panels} | {"eval/episodes", "eval/unfinished"}
    return name in shown or re.sub("_(low|high)$", "", name) in {*shown, "eval/return"}


def _settings(record: RunRecord) -> str:
    if not record.config:
        return ""
    compared, changed = record.changed() if record.saved_by is None else ("", {})
    groups: dict[str, list[tuple[str, str, bool]]] = {}
    for each in record.fields:
        if each.name in record.config:
            row = (each.name, value_in_words(record.config[each.name]), each.name in changed)
            groups.setdefault(each.metadata["group"], []).append(row)
    known = {"algorithm", "hook_metrics", *(each.name for each in record.fields)}
    if unknown := [name for name in record.config if name not in known]:
        groups["Of another version" if record.saved_by is None else "Composed in Python"] = [
            (name, value_in_words(record.config[name]), False) for name in unknown
        ]
    tables = "".join(
        f"<section><h3>{text(group)}</h3><table>"
        + "".join(
            f"<tr{' class=changed' if own else ''}><td>{text(name)}</td>"
            f"<td class=text>{text(value)}</td></tr>"
            for name, value, own in rows
        )
        + "</table></section>"
        for group, rows in groups.items()
    )
    said = f"<p class=dim>Bold with a dot: differs from {compared}.</p>" if compared else ""
    return f'{said}<div class="settings">{tables}</div>'


def _starts(record: RunRecord) -> str:
    parts = []
    for place, start in enumerate(record.starts):
        command = start.get("command")
        found = {
            "begun": start.get("started"),
            "command": " ".join(map(str, command)) if isinstance(command, list) else None,
            "commit": start.get("commit"),
            "system": start.get("system"),
            "devices": _pairs(start.get("devices")),
            "processes": start.get("processes"),
            "versions": _pairs(start.get("versions")),
            "environment": _pairs(start.get("environment")),
        }
        rows = [[name, str(value)] for name, value in found.items() if value]
        parts.append(f"<h3>Start {place + 1} of {len(record.starts)}</h3>{table([], rows)}")
    return "".join(parts)


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>" if lines else ""


def _interval(estimate: object, name: str) -> str:
    ends = entry(estimate, "ci95")
    found = [entry(estimate, "mean"), *(ends if isinstance(ends, list) and len(ends) == 2 else ())]
    rate = name == "win_rate"
    texts = [f"{100 * number(each):.1f}" if rate else f"{number(each):.2f}" for each in found]
    if texts[0] == "nan":
        return "-"
    mean = texts[0] + ("%" if rate else "")
    if "nan" in texts or len(texts) == 1:
        return mean
    return f"{mean} <span>[{texts[1]}, {texts[2]}]</span>"


def _times(count: int) -> str:
    return ("never", "once", "twice")[count] if count < 3 else f"{count} times"


def _minute(time: object) -> str:
    """A time of `versions.json` up to the minute; it is in UTC."""
    return f"{time[:16].replace('T', ' ')} UTC" if isinstance(time, str) else ""


def _pairs(content: object) -> str:
    if not isinstance(content, Mapping):
        return ""
    return ", ".join(f"{name} {value}" for name, value in content.items())


def _count(value: object, whole: object = None) -> str:
    found, most = number(value), number(whole)
    if found != found:
        return ""
    return f"{found:,.0f}" + ("" if most != most else f" of {most:,.0f}")


def _number(value: object) -> str:
    found = number(value)
    return "-" if found != found else f"{found:,.0f}" if abs(found) >= 1000 else f"{found:.4g}"
