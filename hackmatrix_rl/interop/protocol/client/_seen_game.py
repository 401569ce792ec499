"""A game of an app as the client sees it, and its record on disk."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hackmatrix_rl.games.hackmatrix import LEAGUES, NUM_ACTIONS, Action, GameConfig, State
from hackmatrix_rl.interop.protocol._records import Record
from hackmatrix_rl.interop.protocol._screen import Json, seen_of
from hackmatrix_rl.interop.protocol._tracker import Step, Tracker
from hackmatrix_rl.interop.protocol.client._guessed import Guesses
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import DIED, ILLEGAL, MOST_MOVES, WON, Match, Moment

FORMAT = "hackmatrix-record-1"
_FIELDS = ("player", "league", "end", "start", "moves")


class SeenGame:
    """Follows a game of an app move by move.

    Args:
        config: sizes and league of the states that players read.

    Attributes:
        tracker: the known part of the position.
        moments: all positions so far, with a guess for what the screen hides.
        end: how the game ended; `None` while it is running.
    """

    def __init__(self, config: GameConfig) -> None:
        self._config = config
        self._guesses = Guesses(config)
        self.tracker = Tracker(rewind_across_stages=config.rewind_across_stages)
        self.moments: list[Moment] = []
        self.end: str | None = None
        self._start: Json = {}
        self._moves: list[Json] = []

    @property
    def state(self) -> State:
        """A state that matches the current position."""
        return self.moments[-1].state

    def begin(self, observation: Json) -> None:
        """Starts the game with its first screen."""
        self.tracker.begin(seen_of(observation))
        self._start = {"observation": observation, "validActions": []}
        state = self._guesses.state(self.tracker)
        self.moments = [Moment(state, np.zeros(NUM_ACTIONS, bool), 0, None, {}, None)]

    def allow(self, mask: np.ndarray) -> None:
        """Sets the legal actions of the current position."""
        self.moments[-1] = replace(self.moments[-1], mask=mask)
        latest = self._moves[-1] if self._moves else self._start
        latest["validActions"] = np.flatnonzero(mask).tolist()

    def follow(self, action: int, answer: Json) -> None:
        """Adds an action and its answer. No action is legal until `allow` is called."""
        step = Step.from_answer(answer)
        self.tracker.follow(action, step)
        if step.done:
            self.end = DIED if step.died else WON if step.completed else ILLEGAL
        moment = Moment(
            state=self._guesses.state(self.tracker),
            mask=np.zeros(NUM_ACTIONS, bool),
            number=len(self.moments),
            action=Action(action),
            terms=step.terms,
            end=self.end,
        )
        self.moments.append(moment)
        self._moves.append({"action": action, "answer": answer, "validActions": []})

    def match(self) -> Match:
        """The game as a match that cannot be continued."""
        return Match.seen(self.moments, self._config)

    def record(self, *, player: str) -> Json:
        """All answers of the game, for a JSON file."""
        league = self._config.league
        return {
            "format": FORMAT,
            "player": player,
            "league": league,
            "end": self.end,
            "start": self._start,
            "moves": self._moves,
        }

    @staticmethod
    def of_record(content: Mapping[str, Any]) -> "SeenGame":
        """Replays a record.

        Raises:
            ConfigError: a field is missing or unknown, or the answers are not a valid game.
        """
        given = Record(dict(content), "record", ("format", *_FIELDS))
        start = given.record("start", ("observation", "validActions"))
        game = SeenGame(GameConfig.of_league(LEAGUES[given.choice("league", LEAGUES)]))
        game.begin(content["start"].get("observation"))
        game.allow(mask_of(start))
        moves = given.records("moves", ("action", "answer", "validActions"))
        if len(moves) > MOST_MOVES:  # each position is kept with its history
            raise ConfigError(
                f"record.moves has {len(moves):,} moves; at most {MOST_MOVES:,} are read"
            )
        for move in moves:
            if game.end is not None:
                raise ConfigError(f"record.moves continue after the game has ended ({game.end})")
            action = move.whole("action", 0, NUM_ACTIONS - 1)
            answer = content["moves"][len(game.moments) - 1].get("answer")
            game.follow(action, answer)
            game.allow(mask_of(move))
        return game


def mask_of(record: Record) -> np.ndarray:
    """The mask of the field `validActions`."""
    mask = np.zeros(NUM_ACTIONS, bool)
    mask[record.wholes("validActions", 0, NUM_ACTIONS - 1)] = True
    return mask
