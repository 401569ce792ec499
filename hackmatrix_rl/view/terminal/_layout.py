"""The layout of the screen: the board, the panel next to it, and lines of text below."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.text import Text
from textual.containers import Container, Horizontal
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Static

from hackmatrix_rl.games.hackmatrix import SIPHON, Action
from hackmatrix_rl.view._frame import Frame
from hackmatrix_rl.view._names import STYLES, Signs, bar, fitted, styled
from hackmatrix_rl.view._text import BOARD_HEIGHT, BOARD_WIDTH, panel_of, prospects, text_of
from hackmatrix_rl.view.replays import Moment, Opinion
from hackmatrix_rl.view.replays import action_name as named

_SMALLEST = 0.0005  # smaller terms are printed as 0
_RAREST = 0.005  # smaller probabilities are printed as 0

_TITLE = "H A C K M A T R I X"
LEAST_WIDTH, LEAST_HEIGHT = 80, 24
_WIDEST = 120  # columns; longer lines are hard to read


def action_name(action: int | str, signs: Signs) -> str:
    """The name of an action, with an arrow for a direction of HackMatrix."""
    if isinstance(action, Action) and action < SIPHON:
        return f"{signs.arrows[action]} {_label(action)}"
    return _label(action)


def _label(action: int | str) -> str:
    return action.label if isinstance(action, Action) else named(action)


def number(value: float, signs: Signs) -> str:
    """A number with its sign and two digits."""
    return f"{'+' if value >= 0 else signs.minus}{abs(value):.2f}"


def move_line(moment: Moment, signs: Signs) -> Text:
    """The move that led to a position, its reward, and the reward terms."""
    if moment.action is None:
        return styled("The game begins.")
    terms = [
        f"{name} {number(value, signs)}"
        for name, value in moment.terms.items()
        if abs(value) > _SMALLEST
    ]
    found = styled(f"{moment.number} {action_name(moment.action, signs)}", STYLES["title"])
    found += styled(f"  reward {number(moment.reward, signs)}")
    return found + styled(f" = {', '.join(terms)}" if terms else "", STYLES["faint"])


def opinion_line(name: str, opinion: Opinion[Any], signs: Signs, *, most: int = 4) -> Text:
    """An agent's opinion, with the probabilities of at most `most` actions."""
    found = styled(f"{name}: {action_name(opinion.action, signs)}", STYLES["title"])
    parts = []
    if opinion.value is not None:
        parts.append(f"value {number(opinion.value, signs)}")
    if opinion.win_probability is not None:
        parts.append(f"win {opinion.win_probability:.0%}")
    likely = [pair for pair in opinion.probabilities.items() if pair[1] >= _RAREST]
    parts += [f"{_label(action)} {chance:.0%}" for action, chance in likely[:most]]
    searched = _searched(opinion, signs)
    parts += ["search: " + ", ".join(searched[:most])] if searched else []
    return found + styled("  " + ("  ".join(parts) or "(it gives no reason)"))


def _searched(opinion: Opinion[Any], signs: Signs) -> list[str]:
    """The visits and the value of each action in a search."""
    visits, values = opinion.search_visits, opinion.search_values
    return [
        _label(action)
        + (f" {visits[action]} visits" if action in visits else "")
        + (f" {number(values[action], signs)}" if action in values else "")
        for action in visits or values
    ]


@dataclass(frozen=True)
class Page:
    """The content of the screen; `history` has earlier moves, newest first."""

    frame: Frame | None
    mask: np.ndarray | None
    lines: Sequence[Text] = ()
    message: Text = field(default_factory=Text)
    history: Sequence[Text] = ()
    keys: str = ""


class GameView(Container):
    """Shows one `Page`, or a notice in a terminal that is too small."""

    DEFAULT_CSS = f"""
    GameView {{ align-horizontal: center; }}
    GameView #inner {{ max-width: {_WIDEST}; height: 1fr; }}
    GameView #top {{ height: {BOARD_HEIGHT}; }}
    GameView #board {{ width: {BOARD_WIDTH}; height: {BOARD_HEIGHT}; }}
    GameView #panel {{ width: 1fr; height: {BOARD_HEIGHT}; margin-left: 1; }}
    GameView #below {{ height: 1fr; }}
    GameView #keys {{ height: 1; }}
    GameView #small {{ display: none; }}
    GameView.empty #board {{ width: 1fr; }}
    GameView.empty #panel {{ display: none; }}
    GameView.small #inner {{ display: none; }}
    GameView.small #small {{ display: block; }}
    """

    def __init__(self, signs: Signs, *, complete: bool = False) -> None:
        super().__init__()
        self._signs = signs
        self._page = Page(None, None)
        self.complete = complete

    def compose(self) -> Iterator[Widget]:
        with Container(id="inner"):
            with Horizontal(id="top"):
                yield Static(id="board")
                yield Static(id="panel")
            yield Static(id="below")
            yield Static(id="keys")
        yield Static(
            f"The game needs {LEAST_WIDTH} x {LEAST_HEIGHT} characters: make the window larger.",
            id="small",
        )

    @property
    def is_small(self) -> bool:
        return self.has_class("small")

    def on_resize(self, event: Resize) -> None:
        """Adapts to the size of the terminal."""
        small = event.size.width < LEAST_WIDTH or event.size.height < LEAST_HEIGHT
        self.set_class(small, "small")
        self._draw()

    def show(self, page: Page) -> None:
        self._page = page
        self._draw()

    def _draw(self) -> None:
        page, signs = self._page, self._signs
        width = min(self.size.width, _WIDEST)
        if self.is_small or width < LEAST_WIDTH:
            return
        board, panel = Text(), Text()
        ahead: tuple[Text, ...] = ()
        if page.frame is not None:
            frame = page.frame if self.complete else page.frame.seen()
            board = text_of(frame, signs=signs)
            panel = panel_of(frame, page.mask, width=width - BOARD_WIDTH - 1, signs=signs)
            ahead = prospects(frame)
        else:
            lines = [*[""] * (BOARD_HEIGHT // 2), _TITLE, "", page.message.plain]
            board = styled("\n".join(line.center(width) for line in lines), "bold")
        room = self.size.height - BOARD_HEIGHT - 1
        fixed = [] if page.frame is None else [*ahead, *page.lines, page.message]
        fixed += [styled(""), *page.history] if page.history else []
        below = [fitted(line, width, signs) for line in fixed[:room]]
        self.set_class(page.frame is None, "empty")
        self.query_one("#board", Static).update(board)
        self.query_one("#panel", Static).update(panel)
        self.query_one("#below", Static).update(Text("\n", no_wrap=True).join(below))
        self.query_one("#keys", Static).update(bar(page.keys, width, signs))
