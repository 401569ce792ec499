"""A self-contained HTML page with sections and tables."""

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files

from hackmatrix_rl.system.errors import printable

_NUMBER = re.compile(r"\s*([-+\d]|$)")
_FEW = 3  # columns that fit on a narrow screen


def document(
    title: str,
    sections: Mapping[str, str],
    *,
    lead: str = "",
    made_by: str,
    scripts: Collection[str] = ("'none'",),
) -> str:
    """A self-contained page: the title, the HTML `lead`, and each section that is not empty.

    The footer names the command `made_by`. `scripts` are the Content-Security-Policy sources of
    allowed scripts, also in frames.
    """
    policy = content_policy(" ".join(scripts), "'unsafe-inline'")
    shown = {heading: body for heading, body in sections.items() if body}
    links = "".join(f'<a href="#{_id(heading)}">{text(heading)}</a>' for heading in shown)
    bodies = "".join(
        f'<section><h2 id="{_id(heading)}">{text(heading)}</h2>{body}</section>'
        for heading, body in shown.items()
    )
    style = (files("hackmatrix_rl.view") / "document.css").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{text(title)}</title><style>{style}</style></head><body>"
        f"<header><h1>{text(title)}</h1>{lead}"
        f"<nav>{links}</nav></header><main>{bodies}</main>"
        f'<footer class="dim"><p>Made {datetime.now().isoformat(sep=" ", timespec="minutes")} by '
        f"{text(made_by)}.</p></footer></body></html>\n"
    )


def content_policy(scripts: str, styles: str, *more: str) -> str:
    """A Content-Security-Policy that allows only these scripts and styles, and no requests."""
    sources = (f"script-src {scripts}", f"style-src {styles}", "img-src data:", *more)
    return "; ".join(("default-src 'none'", *sources, "base-uri 'none'", "form-action 'none'"))


def facts(values: Mapping[str, str]) -> str:
    """Names and values as an HTML list; empty values are omitted."""
    items = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>"
        for name, value in values.items()
        if value
    )
    return f'<dl class="facts">{items}</dl>'


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "", escaped: bool = False
) -> str:
    """A table as HTML. Without `heads` it has no head; `escaped` rows are already HTML.

    A column, except the first, is numeric if each of its cells begins like a number. On a narrow
    screen, a wide row is shown as one line per cell, each with its heading.
    """
    show = str if escaped else text
    rows = [[*row] for row in rows]
    columns = range(len(heads) or 2)
    kinds = [
        "number" if place and heads and all(_NUMBER.match(row[place]) for row in rows) else "text"
        for place in columns
    ]
    marks = [f' data-head="{text(head)}"' for head in heads] or ["" for _ in columns]
    head = "".join(
        f"<th class={kind}>{text(name)}</th>" for kind, name in zip(kinds, heads, strict=False)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td class={kind}{mark}>{show(cell)}</td>"
            for kind, mark, cell in zip(kinds, marks, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    said = f"<p class=dim>{text(caption)}</p>" if caption else ""
    top = f"<thead><tr>{head}</tr></thead>" if heads else ""
    wide = " class=many" if len(heads) > _FEW else ""
    return f'{said}<div class="wide"><table{wide}>{top}<tbody>{body}</tbody></table></div>'


def text(value: object) -> str:
    """A value as HTML."""
    return html.escape("\n".join(map(printable, str(value).split("\n"))))


def _id(heading: str) -> str:
    return heading.lower().replace(" ", "-")
