"""The app in which a person watches an agent in the terminal."""

import time

from rich.text import Text

from hackmatrix_rl.games.hackmatrix import Action
from hackmatrix_rl.view._names import STYLES, Signs, styled
from hackmatrix_rl.view.replays import Match, Mind, Moment, Opinion
from hackmatrix_rl.view.terminal._app import TerminalApp
from hackmatrix_rl.view.terminal._layout import Page, move_line, opinion_line

OWN_KEYS = (
    ("space", "pause, resume"),
    ("arrows", "left and right: one move back, one move forward"),
    ("+ -", "faster, slower"),
    ("v", "show only what the agent sees, or everything (hidden things in lower case)"),
    ("q", "quit"),
)
_KEYS = " space pause  arrows step  + - speed  v agent's view  ? rules  q quit"
_FASTEST, _SLOWEST = 0.05, 10.0
_REDRAW = 0.5  # seconds between updates while the agent thinks


class WatchApp(TerminalApp):
    """An agent's game in a full-screen terminal."""

    def __init__(
        self,
        match: Match,
        mind: Mind | None,
        name: str,
        seconds_per_move: float,
        signs: Signs,
        *,
        plays: bool = True,
    ) -> None:
        super().__init__(signs, OWN_KEYS, complete=True)
        self.match = match
        self.at = 0
        self.paused = False
        self.seconds = min(max(seconds_per_move, _FASTEST), _SLOWEST)
        self._mind, self._agent, self._plays = mind, name, plays and mind is not None
        self._opinions: dict[int, Opinion[Action]] = {}
        self._since = self._drawn = time.monotonic()

    def on_mount(self) -> None:
        self.set_interval(_FASTEST, self._tick)
        self._arrive(0)

    def pressed(self, said: str) -> None:
        """Pauses, steps, or changes the speed."""
        super().pressed(said)
        if said == " ":
            self.paused = not self.paused
        elif said == "left":
            self.paused = True
            self._arrive(max(0, self.at - 1))
        elif said == "right":
            self.paused = True
            self._step()
        elif said in ("+", "="):
            self.seconds = max(_FASTEST, self.seconds / 2)
        elif said == "-":
            self.seconds = min(_SLOWEST, self.seconds * 2)
        elif said == "v":
            self._view.complete = not self._view.complete
        self._show()

    @property
    def _moment(self) -> Moment:
        return self.match.moments[self.at]

    def _tick(self) -> None:
        if not self.paused and time.monotonic() - self._since >= self.seconds:
            self._step()
        elif self.background.busy and time.monotonic() - self._drawn >= _REDRAW:
            self._show()

    def _step(self) -> None:
        """Shows the next move; plays it if it is new."""
        if self.at + 1 < len(self.match.moments):
            self._arrive(self.at + 1)
        elif self._plays and self.at in self._opinions and not self.background.busy:
            action = self._opinions[self.at].action
            self.background.do(
                lambda: self.match.play(action), lambda after: self._arrive(after.number)
            )

    def _arrive(self, number: int) -> None:
        """Shows a position, and requests the agent's opinion of it."""
        self.at, self._since = number, time.monotonic()
        mind = self._mind
        if mind is not None and self._moment.end is None and number not in self._opinions:
            self.background.do(lambda: mind.opinion(number), lambda said: self._told(number, said))
        self._show()

    def _told(self, number: int, opinion: Opinion[Action]) -> None:
        self._opinions[number] = opinion
        self._show()

    def _thoughts(self) -> Text:
        if self._moment.end is not None:
            frame = self._moment.frame
            said = f"{self._moment.end} in stage {frame.stage} with score {frame.score}"
            return styled(f"{said}, return {self.match.total_reward:.2f}", STYLES["gain"])
        if self._mind is None:
            return styled("")
        if self.at in self._opinions:
            return opinion_line(self._agent, self._opinions[self.at], self.signs, most=8)
        seconds = int(time.monotonic() - self._since)
        return styled(f"{self._agent} thinks ... {seconds} s", STYLES["title"])

    def _show(self) -> None:
        self._drawn = time.monotonic()
        state = "paused" if self.paused else f"{self.seconds:.2g} s"
        shown, keys = self.match.moments[max(0, self.at - 60) : self.at + 1], f"{_KEYS}  {state}"
        here, *earlier = [move_line(each, self.signs) for each in reversed(shown)]
        now = self._moment
        self._view.show(Page(now.frame, now.mask, (here,), self._thoughts(), earlier, keys))
