"""The app in which a person plays in the terminal."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rich.text import Text

from hackmatrix_rl.games.hackmatrix import Action
from hackmatrix_rl.system.errors import shortened
from hackmatrix_rl.view._names import KEYS, STYLES, Signs, styled, why_not
from hackmatrix_rl.view.replays import Match, Mind, Opinion, Replay
from hackmatrix_rl.view.terminal._app import TerminalApp
from hackmatrix_rl.view.terminal._layout import Page, move_line, opinion_line
from hackmatrix_rl.view.terminal._pages import Score, ScoreTable, end_screen

ARROWS = {"up": Action.UP, "down": Action.DOWN, "left": Action.LEFT, "right": Action.RIGHT}
ACTIONS = {key: action for action, key in KEYS.items()}
OWN_KEYS = (
    ("arrows", "move, or hit the first enemy in that direction"),
    ("s", "siphon"),
    ("letters", "a program: its letter is in the panel; (p) cannot be used now"),
    ("u", "UNDO: takes the last turn back, if you own it"),
    ("h", "what the agent would do here, and why"),
    ("S", "save a replay"),
    ("N", "a new game"),
    ("q", "quit"),
)
_KEYS = " arrows move  s siphon  letters programs  h hint  ? rules  S save  N new  q quit"
_SPINNER = "|/-\\"
PLAYER = "a person"


@dataclass(frozen=True)
class Seat:
    """The settings of a person's games."""

    #: Makes the first game; its argument receives progress messages.
    begin: Callable[[Callable[[str], None]], Match]
    again: Callable[[], Match]  #: Makes each later game.
    advise: Callable[[Match], Mind]  #: Makes the agent that gives hints in a game.
    agent: str  #: The agent's name.
    scores: ScoreTable
    #: The file for the replay of a game that ends or is abandoned; `None` writes none.
    save: Path | None = None
    #: The initial `Score.help`.
    help: str = ""


class PlayApp(TerminalApp):
    """A person's game in a full-screen terminal."""

    def __init__(self, seat: Seat, signs: Signs) -> None:
        super().__init__(signs, OWN_KEYS)
        self.seat = seat
        self.match: Match | None = None
        self.notes: list[str] = []
        self._mind: Mind | None = None
        self._message = Text()
        self._work = "Loading"
        self._since = time.monotonic()
        self._asked: Callable[[], None] | None = None
        self._help = seat.help

    def on_mount(self) -> None:
        self.set_interval(0.25, self._tick)
        self._start(lambda: self.seat.begin(self._report))

    # Games.

    def _start(self, make: Callable[[], Match]) -> None:
        """Makes a game and compiles its step."""
        self.match = self._mind = None
        self._message = Text()
        self._work, self._since = "Setting up the game", time.monotonic()
        self._show()

        def prepared() -> Match:
            match = make()
            match.prepare(self._report)
            return match

        self.background.do(prepared, self._begin)

    def _begin(self, match: Match) -> None:
        self.match = match
        self._mind = self.seat.advise(match)
        self._say("")
        if match.now.end is not None:
            self._finish(match)

    def _again(self) -> None:
        self._save_if_asked()
        self._help = ""
        self._start(self.seat.again)

    def _finish(self, match: Match) -> None:
        position = match.now.frame
        mine = Score(
            score=position.score,
            stage=position.stage,
            end=match.now.end or "",
            moves=match.now.number,
            total_reward=round(match.total_reward, 4),
            date=date.today().isoformat(),
            seed=" ".join(map(str, match.seed)),
            help=self._help,
        )
        known, said = self.seat.scores.add(mine)
        screen = end_screen(match, mine, known, [said] if said else [], self.signs)
        self.push_screen(screen, self._after_the_end)

    def _after_the_end(self, answer: str | None) -> None:
        acts = {"N": self._again, "q": self._leave, "S": self._save}
        if answer in acts:
            acts[answer]()

    # Keys.

    def pressed(self, said: str) -> None:
        """Plays a move, or runs another command of the key."""
        if self._asked is not None:
            asked, self._asked = self._asked, None
            self._say("")
            if said in ("y", "Y"):
                asked()
            return
        if said in ("q", "?"):
            super().pressed(said)
        elif self.match is not None and not self._view.is_small:
            self._command(self.match, said)

    def action_leave(self) -> None:
        """Quits; asks first during a game."""
        self._ask("Leave this game?", self._leave)

    def _command(self, match: Match, said: str) -> None:
        if said == "N":
            self._ask("Give this game up for a new one?", self._again)
        elif said == "S":
            self._save()
        elif said == "h":
            self._think(match)
        elif said in ARROWS:
            self._play(match, ARROWS[said])
        elif said.lower() in ACTIONS:
            self._play(match, ACTIONS[said.lower()])
        else:
            self._say(f"{shortened(said)} is not a key of this game; ? lists them.", "aim")

    def _play(self, match: Match, action: Action) -> None:
        now = match.now
        if now.end is not None:
            self._say("The game is over: N for a new one, q to quit.", "title")
            return
        why = why_not(now.frame.seen(), now.mask, action)
        if why is not None and now.mask.any():
            self._say(f"{action.label} is not possible: {why}.", "aim")
            return
        after = match.play(action)
        stage = after.frame.stage
        self._say(f"Stage {stage}!" if stage > now.frame.stage else "", "gain")
        if after.end is not None:
            self._finish(match)

    def _think(self, match: Match) -> None:
        if match.now.end is not None or self._mind is None:
            self._say("The game is over: there is nothing to advise.")
            return
        if self.background.busy:
            return
        mind, asked_at = self._mind, match.now.number
        self._help = self._help or "hints"
        self._say("")
        self._work, self._since = f"{self.seat.agent} thinks", time.monotonic()
        self.background.do(lambda: mind.opinion(asked_at), lambda said: self._told(asked_at, said))
        self._show()

    def _told(self, asked_at: int, opinion: Opinion[Action]) -> None:
        if self.match is not None and self.match.now.number == asked_at:
            self._message = opinion_line(self.seat.agent, opinion, self.signs, most=8)
        self._show()

    def _ask(self, question: str, then: Callable[[], None]) -> None:
        match = self.match
        if match is None or match.now.end is not None or match.now.number == 0:
            then()
            return
        self._asked = then
        self._say(f"{question} y: yes, any other key: no", "title")

    # Replays.

    def _save(self) -> None:
        if self.match is not None:
            self._say(self._saved(self.match, self.seat.save or _free_name(self.match)), "title")

    def _save_if_asked(self) -> None:
        if self.match is not None and self.seat.save is not None:
            self.notes.append(self._saved(self.match, self.seat.save))

    def _saved(self, match: Match, file: Path) -> str:
        try:
            Replay.from_match(match, player=PLAYER).save(file)
        except OSError as error:
            return f"The replay is not saved: {file}: {error.strerror or error}."
        return f"Saved: {file}"

    def _leave(self) -> None:
        self._save_if_asked()
        self.exit()

    # Drawing.

    def _report(self, progress: str) -> None:
        self._work = progress

    def _say(self, message: str, style: str = "") -> None:
        self._message = styled(message, STYLES.get(style, ""))
        self._show()

    def _tick(self) -> None:
        if self.background.busy:
            self._show()

    def _working(self) -> Text:
        seconds = time.monotonic() - self._since
        turn = _SPINNER[int(seconds * 4) % len(_SPINNER)]
        return styled(f"{turn} {self._work} ... {int(seconds)} s", STYLES["title"])

    def _show(self) -> None:
        match, said = self.match, self._message
        if self.background.busy:
            said = said + styled("   " if said else "") + self._working()
        if match is None:
            self._view.show(Page(None, None, message=said, keys=" ? rules  q quit"))
            return
        newest, *earlier = [move_line(each, self.signs) for each in reversed(match.moments[-60:])]
        self._view.show(Page(match.now.frame, match.now.mask, (newest,), said, earlier, _KEYS))


def _free_name(match: Match) -> Path:
    """An unused file name in the working directory."""
    stem, number = f"hackmatrix_{match.seed[1]}_move{match.now.number}", 1
    file = Path(f"{stem}.json")
    while file.exists():
        number += 1
        file = Path(f"{stem}_{number}.json")
    return file
