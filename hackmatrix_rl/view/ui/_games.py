"""An agent's games in any environment, each played to its end and then shown."""

import secrets
from collections.abc import Callable

import jax

from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import Agent
from hackmatrix_rl.view.replays import Json, Recording, page_of_games, record, recording_data
from hackmatrix_rl.view.ui._served import Served


class Games(Served):
    """An agent that plays games sequentially while people watch.

    A seed gives the same games as in `evaluate` and `watch`, in the same order.
    """

    title = "The agent's page"
    requests = ("state", "next_game", "new")

    def __init__(
        self,
        player: Agent,
        environment: Environment,
        *,
        name: str,
        seed: int | None = None,
        report: Callable[[str], None] = lambda line: None,
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._player, self._environment, self._name = player, environment, name
        self._report, self._say = report, say
        self._reported: set[str] = set()
        self._seed = secrets.randbelow(2**32) if seed is None else seed
        self._number = 0
        self._recording: Recording | None = None
        self._shown: Json = {}

    def load(self) -> None:
        """Does nothing: the player is already loaded."""

    def page(self) -> tuple[str, str]:
        return page_of_games({"live": True, "title": self._environment.title})

    def warm_up(self) -> None:
        self.state()

    def state(self) -> Json:
        """The game; the first call plays it."""
        return self._play(self._seed, self._number) if self._recording is None else self._shown

    def next_game(self) -> Json:
        """Plays the next game of the seed."""
        return self._play(self._seed, self._number + 1)

    def new(self, *, seed: int | None) -> Json:
        """Plays the first game of another seed; `None` draws one."""
        return self._play(secrets.randbelow(2**32) if seed is None else seed, 0)

    @property
    def moves(self) -> int:
        return 0 if self._recording is None else self._recording.moves

    def _play(self, seed: int, number: int) -> Json:
        scenes = []
        self._say(f"{self._name} plays")
        key, report = jax.random.key(seed), self._report_once
        for scene in record(self._player, self._environment, key, game=number, report=report):
            scenes.append(scene)
            self._say(f"{self._name} plays: step {len(scenes)}")
        place = self._environment
        recording = Recording(place.title, self._name, place.spec.actions.count, scenes)
        data = recording_data(
            recording, on_move=lambda done, total: self._say(f"Drawing: step {done} of {total}")
        )
        self._seed, self._number, self._recording = seed, number, recording
        self._shown = {**data, "which": f"seed {seed}, game {number}"}
        return self._shown

    def _report_once(self, line: str) -> None:
        if line not in self._reported:  # each game reports it again
            self._reported.add(line)
            self._report(line)
