"""A game on the screen: the board, the panel beside it, and lines below."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.text import Text
from textual.containers import Container, Horizontal
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Static

from hackmatrix_rl.view._frame import Frame
from hackmatrix_rl.view._panel import panel_of
from hackmatrix_rl.view._signs import Signs, bar, fitted, styled
from hackmatrix_rl.view._text import BOARD_HEIGHT, BOARD_WIDTH, prospects, text_of
from hackmatrix_rl.view.terminal._checks import LEAST_HEIGHT, LEAST_WIDTH

_TITLE = "H A C K M A T R I X"
_WIDEST = 120  # columns; longer lines are hard to read


@dataclass(frozen=True)
class Page:
    """The content of the screen; `history` is earlier moves, the newest first."""

    frame: Frame | None
    mask: np.ndarray | None
    lines: Sequence[Text] = ()
    message: Text = field(default_factory=Text)
    history: Sequence[Text] = ()
    keys: str = ""


class GameView(Container):
    """Shows one `Page`. A terminal that is too small shows a notice in its place."""

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
        """The parts of the screen."""
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
        """Whether there is too little room."""
        return self.has_class("small")

    def on_resize(self, event: Resize) -> None:
        """Fills the room there is."""
        small = event.size.width < LEAST_WIDTH or event.size.height < LEAST_HEIGHT
        self.set_class(small, "small")
        self._draw()

    def show(self, page: Page) -> None:
        """Shows another page."""
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
            ahead = prospects(frame, signs)
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
