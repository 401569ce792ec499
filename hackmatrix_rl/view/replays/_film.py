"""A game as data for the page: pictures as lists of numbers of shapes, and what goes with them."""

import math
from collections.abc import Mapping
from typing import Any

from hackmatrix_rl.game import FIRST_PROGRAM, SPECS, Action, Program
from hackmatrix_rl.view._board_drawing import draw, place_of
from hackmatrix_rl.view._frame import Frame
from hackmatrix_rl.view._keys import KEYS
from hackmatrix_rl.view._reasons import why_not
from hackmatrix_rl.view._svg import svg_fragments
from hackmatrix_rl.view.replays._match import Match, Moment
from hackmatrix_rl.view.replays._mind import Opinion

Json = dict[str, Any]


class Film:
    """The pictures of a game; `shapes` holds each piece of SVG that they share once."""

    def __init__(self) -> None:
        self.shapes: list[str] = []
        self._numbers: dict[str, int] = {}

    def moment(self, moment: Moment, *, reasons: bool = False) -> Json:
        """A position as data; with `reasons` it tells why actions are not legal."""
        frame = moment.frame
        seen = frame.seen()
        data: Json = {
            "action": moment.action,
            "terms": {name: _number(term) for name, term in moment.terms.items() if term},
            "reward": _number(moment.reward),
            "facts": _facts(frame),
            "owned": [FIRST_PROGRAM + program for program in frame.owned],
            "legal": list(moment.legal),
            "end": moment.end,
            "all": self._picture(frame),
            "seen": self._picture(seen),
        }
        if data["seen"] == data["all"]:
            del data["seen"]
        if reasons:
            data["why"] = {each: why_not(seen, moment.mask, each) for each in Action}
        return data

    def _picture(self, frame: Frame) -> Json:
        drawing = draw(frame, panel=False)
        shapes = [self._numbers_of(piece) for piece in svg_fragments(drawing)]
        return {"shapes": shapes, "words": drawing.title}

    def _numbers_of(self, piece: str) -> int:
        if piece not in self._numbers:
            self._numbers[piece] = len(self.shapes)
            self.shapes.append(piece)
        return self._numbers[piece]


def opinion_data(opinion: Opinion) -> Json:
    """An agent's opinion of a position, as data."""
    lists: dict[str, Mapping[Action, float]] = {
        "probabilities": opinion.probabilities,
        "values": opinion.search_values,
        "visits": opinion.search_visits,
    }
    return {
        "action": opinion.action,
        "value": None if opinion.value is None else _number(opinion.value),
        "win": None if opinion.win_probability is None else _number(opinion.win_probability),
        **{
            name: [[action, _number(number)] for action, number in found.items()]
            for name, found in lists.items()
            if found
        },
    }


def rules_data(match: Match) -> Json:
    """The constants of a game: names, keys and costs of actions, places of cells."""
    drawing = draw(match.now.frame, panel=False)
    return {
        "actions": [_action_data(action) for action in Action],
        "board": {"width": drawing.width, "height": drawing.height},
        "places": [place_of(cell) for cell in range(len(match.now.frame.cells))],
    }


def _action_data(action: Action) -> Json:
    arrows = {Action.UP: "\N{UPWARDS ARROW}", Action.DOWN: "\N{DOWNWARDS ARROW}"}
    arrows |= {Action.LEFT: "\N{LEFTWARDS ARROW}", Action.RIGHT: "\N{RIGHTWARDS ARROW}"}
    data: Json = {"name": action.label, "key": arrows.get(action) or KEYS[action]}
    if action >= FIRST_PROGRAM:
        spec = SPECS[Program(action - FIRST_PROGRAM)]
        data |= {"credits": spec.credits, "energy": spec.energy, "does": spec.does}
    return data


def _facts(frame: Frame) -> Json:
    flags: Mapping[str, bool] = {
        "SHOW": frame.show_activated,
        "CALM": frame.scheduled_tasks_disabled,
        "STEP": frame.step_active,
    }
    return {
        **{
            name: getattr(frame, name)
            for name in ("stage", "turn", "hp", "score", "credits", "energy", "data_siphons")
        },
        "attack": frame.attack_damage,
        "cell": frame.player_cell,
        "task": None if frame.scheduled_tasks_disabled else frame.next_scheduled_task_turn,
        "undo": frame.snapshots,
        "active": [name for name, on in flags.items() if on],
    }


def _number(number: float) -> float | int | str:
    """A number with as many digits as anybody reads; JSON has no NaN and no infinity."""
    if not math.isfinite(number):
        return str(number)
    return round(number, 4)
