"""A server of the original game's line protocol: one line of JSON per request and answer."""

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from hackmatrix_rl.env import Number
from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS,
    SIZE,
    TERM_NAMES,
    Enemies,
    GameConfig,
    original_terms,
)
from hackmatrix_rl.interop.protocol._engine import CLOCK, Engine, Result, View
from hackmatrix_rl.interop.protocol._given_state import TYPES, arrays_of
from hackmatrix_rl.interop.protocol._screen import Json, field_of, observation_of
from hackmatrix_rl.system import parse_json
from hackmatrix_rl.system.errors import printable, shortened

BREAKDOWN = original_terms()
"""The reward terms by their names in `reward_breakdown`, which omits `step_penalty`."""

LONGEST = 2**20
"""Most bytes of a request's line; a longer one is an invalid request."""

_SPACE = {"gridSize": SIZE, "playerFeatures": 9, "cellFeatures": 20}
"""The answer to `getObservationSpace`. The original's numbers are outdated; clients ignore them."""

_MOST_NUMBER = 2**31 - 1


class Server:
    """Answers requests, one game at a time. No request ends the server.

    Args:
        seed: seed of all games. The first `reset` starts game 0 of `eval --seed SEED`, the next one
            game 1. A `setState` counts as a game. Any other request before these starts game 0.
        config: sizes and league of the games; by default `GameConfig()`.

    Attributes:
        engine: plays the games.
    """

    def __init__(self, seed: int, config: GameConfig | None = None) -> None:
        self.engine = Engine(seed, config)
        self._actions: dict[str, Callable[[Json], Json]] = {
            "reset": lambda request: {"observation": observation_of(self.engine.begin())},
            "step": self._step,
            "getValidActions": self._valid_actions,
            "getActionSpace": lambda request: {"actionSpaceSize": NUM_ACTIONS},
            "getObservationSpace": lambda request: dict(_SPACE),
            "setState": self._set_state,
            "getInternalState": lambda request: internal_state_of(self.engine.look()),
        }

    def answer_line(self, line: bytes) -> Json:
        """The answer to a line of any bytes."""
        try:
            request = parse_json(line)
        except ValueError:
            return _error("Invalid command")
        return self.answer(request)

    def answer(self, request: Any) -> Json:
        """The answer to a request, which may be any JSON value."""
        action = request.get("action") if isinstance(request, dict) else None
        if not isinstance(action, str):
            return _error("Invalid command")
        if action not in self._actions:
            return _error(f"Unknown command: {action}")
        return self._actions[action](request)

    def _step(self, request: Json) -> Json:
        index = request.get("actionIndex")
        if type(index) is not int:
            return _error("Missing actionIndex")
        view, result = self.engine.play(index if abs(index) <= _MOST_NUMBER else -1)
        return {
            "observation": observation_of(view),
            "reward": float(result.reward),
            "done": result.over,
            "info": info_of(result),
        }

    def _valid_actions(self, request: Json) -> Json:
        return {"validActions": np.flatnonzero(self.engine.look().mask).tolist()}

    def _set_state(self, request: Json) -> Json:
        if not isinstance(request.get("state"), dict):
            return _error("Missing state data for setState command")
        try:
            return {"observation": observation_of(self.engine.put(arrays_of(request["state"])))}
        except ValueError as error:
            return _error(f"setState: {printable(str(error))}")


def info_of(result: Result) -> Json:
    """The `info` of a step's answer."""
    terms = dict(zip(TERM_NAMES, result.terms.tolist(), strict=True))
    return {
        "invalid_action": not result.legal,
        "stage_complete": bool(result.completed),
        "death": bool(result.died),
        "reward_breakdown": {name: terms[term] for name, term in BREAKDOWN.items()},
    }


def internal_state_of(view: View) -> Json:
    """The answer to `getInternalState`."""
    interval, task, pending = (int(view.clock[CLOCK.index(name)]) for name in CLOCK)
    turn = int(view.seen.numbers[Number.TURN])
    read = {name: field_of(view.enemies, name, Enemies.FIELDS) for name in Enemies.FIELDS}
    return {
        "scheduledTaskInterval": interval,
        "nextScheduledTaskTurn": task,
        "pendingSiphonTransmissions": pending,
        "turnCount": turn,
        "enemies": [
            {
                "row": read["cell"][slot] // SIZE,
                "col": read["cell"][slot] % SIZE,
                "type": TYPES[read["type"][slot]],
                "hp": read["hp"][slot],
                "disabledTurns": read["disabled_turns"][slot],
                "isStunned": bool(read["stunned"][slot]),
                "spawnedFromSiphon": bool(read["spawned_from_siphon"][slot]),
                "isFromScheduledTask": bool(read["from_scheduled_task"][slot]),
            }
            for slot, present in enumerate(read["present"])
            if present
        ],
    }


def _error(message: str) -> Json:
    return {"error": message}


def serve(
    server: Server,
    requests: BinaryIO,
    answers: BinaryIO,
    *,
    say: Callable[[str], None],
    debug: bool = False,
    info: bool = False,
) -> None:
    """Answers each line with a line, until the requests end or an answer cannot be written.

    `say` receives all other messages: about compilation, each request if `debug`, and the result of
    each step if `info`.
    """
    for line in _lines(requests):
        if debug:
            say(shortened(line.decode(errors="replace").strip()))
        answer = server.answer_line(line)
        if info and "info" in answer:
            say(json.dumps({name: answer[name] for name in ("reward", "done", "info")}))
        answers.write(json.dumps(answer).encode() + b"\n")
        # Compiles the step while the client computes its next request.
        server.engine.warm_up(say)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, with an empty line for one that is too long."""
    while line := file.readline(LONGEST):
        if len(line) < LONGEST or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LONGEST)
        yield b""
