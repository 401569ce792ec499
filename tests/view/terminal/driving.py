"""Drives the terminal's apps by keys and reads their screens."""

import asyncio
import html
import io
import re
from contextlib import asynccontextmanager

from rich.console import Console

from hackmatrix_rl.view._names import UNICODE
from hackmatrix_rl.view.replays import Match, Mind, Moment
from hackmatrix_rl.view.terminal._pages import ScoreTable
from hackmatrix_rl.view.terminal._play import PlayApp, Seat
from view.boards import CONFIG, mask_of
from view.games import Confident


def match_at(state, seed=1):
    """A game that begins at a position."""
    match = Match.start(seed, config=CONFIG)
    match.moments[0] = Moment(state, mask_of(state), 0, None, {}, None)
    return match


def seat_of(folder, make, **more):
    """A seat whose scores are in a folder."""
    given = {
        "begin": lambda report: make(),
        "again": make,
        "advise": lambda match: Mind(Confident(), match),
        "agent": "runner",
        "scores": ScoreTable(folder / "data" / "scores.json"),
    }
    return Seat(**given | more)


@asynccontextmanager
async def running(app, size=(80, 24)):
    """An app without a terminal."""
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Driver(app, pilot)
    app.background.close(Console(file=io.StringIO()))


class Driver:
    """Presses keys, waits for what they do, reads the screen."""

    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    async def settle(self):
        """Waits until nothing is compiled or thought about."""
        while self.app.background.busy:
            await asyncio.sleep(0.02)
        await self.pilot.pause()

    async def press(self, *keys):
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    @property
    def screen(self):
        """The text on the screen, line by line."""
        rows = {}
        found = re.findall(
            r'<text class="[^"]*-r\d+"[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>',
            self.app.export_screenshot(),
            re.DOTALL,
        )
        for x, y, text in found:
            plain = html.unescape(text).replace("\xa0", " ")
            rows.setdefault(float(y), []).append((float(x), plain))
        cell = 12.2  # width of a column in the picture
        lines = []
        for y in sorted(rows):
            line = ""
            for x, text in sorted(rows[y]):
                line = line.ljust(round(x / cell)) + text
            lines.append(line.rstrip())
        return "\n".join(lines)


def drive(app, act, size=(80, 24)):
    """Runs `act(driver)` in an app."""

    async def main():
        async with running(app, size) as driver:
            await driver.settle()
            await act(driver)

    asyncio.run(main())


def play(seat, act, size=(80, 24)):
    """Runs `act(driver)` in a game, and returns the app."""
    app = PlayApp(seat, UNICODE)
    drive(app, act, size)
    return app
