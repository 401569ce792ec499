"""A game of HackMatrix that a person and an agent play, and the thread that runs it."""

import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import Agent
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import (
    Film,
    Json,
    Match,
    Mind,
    Replay,
    opinion_data,
    rules_data,
    whole_page,
)
from hackmatrix_rl.view.ui._served import Served

FindPlayer = Callable[[str], tuple[Agent | ActorCritic, HackMatrix]]
"""Returns a player by name; raises a `ConfigError` if there is none."""
PERSON = "a person"


class Worker:
    """One thread for all jobs, which therefore need no lock."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hackmatrix-rl ui")
        self._doing = ""
        self._since = 0.0
        self._running = False

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        """Queues a job; the future has its result or its exception."""
        return self._pool.submit(self._do, job)

    def say(self, doing: str) -> None:
        """Sets the displayed activity of the running job; empty for none."""
        if doing.split(":")[0] != self._doing.split(":")[0]:
            self._since = time.monotonic()
        self._doing = doing

    @property
    def running(self) -> bool:
        """Whether a job is running. The interpreter must not exit then: compiled code calls it."""
        return self._running

    @property
    def status(self) -> tuple[str, float]:
        """The current activity, and its duration in seconds."""
        doing = self._doing
        return doing, time.monotonic() - self._since if doing else 0.0

    def _do(self, job: Callable[[], Any]) -> Any:
        self._running = True
        try:
            return job()
        finally:
            self._running = False
            self.say("")


class Table(Served):
    """A game of HackMatrix that a person and an agent play in turn."""

    title = "HackMatrix"
    requests = (
        *("state", "new", "play", "agent_move", "think"),
        *("agent", "branch", "open", "replay"),
    )

    def __init__(
        self,
        find_player: FindPlayer,
        *,
        seed: int | None = None,
        agent: str | None = None,
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._find = find_player
        self._say = say
        self._first_seed = seed
        self._name = self._first_agent = agent
        self._found: dict[str, tuple[Agent | ActorCritic, HackMatrix]] = {}
        self._game = 0
        self._match: Match | None = None
        self._mind: Mind | None = None

    def load(self) -> None:
        if self._name is not None:
            self._player(self._name)

    def state(self, have: Mapping[str, int | None]) -> Json:
        """The game so far; the first call starts it."""
        if self._match is None:
            self._start(self._first_seed)
        return self._news(have)

    def page(self) -> tuple[str, str]:
        watch = self._first_agent is not None
        return whole_page({"live": True, "title": self.title, "watch": watch}, live=True)

    def warm_up(self) -> None:
        if self._match is None:
            self._start(self._first_seed)
        self.match.prepare(self._say)

    def new(self, have: Mapping[str, int | None], *, seed: int | None) -> Json:
        """Starts another game."""
        self._start(seed)
        return self._news(have)

    def play(self, have: Mapping[str, int | None], *, number: int, action: int) -> Json:
        """A person's move."""
        self.check_newest(number)
        self._say("Playing the move")
        self._played(PERSON, action)
        return self._news(have)

    def agent_move(self, have: Mapping[str, int | None], *, number: int) -> Json:
        """The agent's move, and its opinion of the position after it."""
        self.check_newest(number)
        name, opinion = self._opinion(number)
        self._played(name, opinion["action"])
        opinions = [[number, name, opinion]]
        if self.match.now.end is None:
            opinions.append([number + 1, *self._opinion(number + 1)])
        return self._news(have, opinions=opinions)

    def think(self, have: Mapping[str, int | None], *, number: int) -> Json:
        """The agent's opinion of a position."""
        if not 0 <= number < len(self.match.moments):
            raise ConfigError(f"move {number} does not exist; the game has {self.moves} moves")
        name, opinion = self._opinion(number)
        return self._news(have, opinions=[[number, name, opinion]])

    def agent(self, have: Mapping[str, int | None], *, name: str) -> Json:
        """Changes the agent."""
        self._player(name)
        self._name, self._mind = name, None
        return self._news(have)

    def branch(self, have: Mapping[str, int | None], *, number: int) -> Json:
        """Removes all moves after a position."""
        self._sit_down(self.match.until(number), self._players[:number], self._seed)
        return self._news(have)

    def open(self, have: Mapping[str, int | None], *, replay: Mapping[str, Any]) -> Json:
        """Continues a game from a file."""
        recorded = Replay.from_dict(replay)
        self._say("Playing the replay")
        match = recorded.match(on_move=self._counted("Playing the replay"))
        players = [recorded.player or "a replay"] * len(recorded.actions)
        self._sit_down(match, players, "a replay's seed")
        return self._news(have)

    def replay(self, have: Mapping[str, int | None]) -> Json:
        """The game as a replay."""
        players = dict.fromkeys(self._players)
        return {"replay": Replay.from_match(self.match, player=" and ".join(players)).as_dict()}

    @property
    def match(self) -> Match:
        """The game, once it has begun."""
        if self._match is None:
            raise ConfigError("the game has not begun: reload the page")
        return self._match

    @property
    def moves(self) -> int:
        return self.match.now.number

    def _start(self, seed: int | None) -> None:
        drawn = secrets.randbelow(2**32) if seed is None else seed
        config = None if self._name is None else self._player(self._name)[1].config
        self._say("Compiling the game")
        self._sit_down(Match.start(drawn, config=config), [], f"seed {drawn}")

    def _sit_down(self, match: Match, players: list[str], seed: str) -> None:
        self._match = match
        self._players = players
        self._mind = None
        self._film = Film()
        self._shown: list[Json] = []
        self._seed = seed
        self._game += 1

    def _played(self, name: str, action: int) -> None:
        self.match.play(action)
        self._players.append(name)

    def _player(self, name: str) -> tuple[Agent | ActorCritic, HackMatrix]:
        if name not in self._found:
            self._say(f"Loading {name}")
            self._found[name] = self._find(name)
        return self._found[name]

    def _opinion(self, number: int) -> tuple[str, Json]:
        if self._name is None:
            raise ConfigError("there is no agent yet: name one, such as runner")
        if self._mind is None:
            player, environment = self._player(self._name)
            self._say(f"Compiling {self._name}")
            seeing = replace(environment, config=self.match.config)
            self._mind = Mind(player, self.match, environment=seeing)
        else:
            self._say(f"{self._name} thinks")
        return self._name, opinion_data(self._mind.opinion(number))

    def _counted(self, words: str) -> Callable[[int, int], None]:
        return lambda done, total: self._say(f"{words}: move {done} of {total}")

    def _news(self, have: Mapping[str, int | None], *, opinions: list[Any] | None = None) -> Json:
        """The data that the page does not have yet; `have` counts what it has."""
        report = self._counted("Drawing")
        for moment in self.match.moments[len(self._shown) :]:
            self._shown.append(self._film.moment(moment, reasons=True))
            if len(self.match.moments) - len(self._shown) > 1:
                report(moment.number, self.moves)
        same = have["game"] == self._game
        first = min(have["moments"] or 0, len(self._shown)) if same else 0
        start = min(have["shapes"] or 0, len(self._film.shapes)) if same else 0
        return {
            "game": self._game,
            "seed": self._seed,
            "agent": self._name,
            "first": first,
            "moments": self._shown[first:],
            "from": start,
            "shapes": self._film.shapes[start:],
            "opinions": opinions or [],
            **({} if same else {"rules": rules_data(self.match)}),
        }
