"""A game as JSON data, and as a self-contained HTML page."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from hackmatrix_rl.games.hackmatrix import FIRST_PROGRAM, SIPHON, SPECS, Action, Program
from hackmatrix_rl.view._board_drawing import draw, place_of
from hackmatrix_rl.view._document import content_policy
from hackmatrix_rl.view._drawing import Drawing
from hackmatrix_rl.view._frame import Frame
from hackmatrix_rl.view._names import KEYS, UNICODE, why_not
from hackmatrix_rl.view._svg import FONT, css_variables, svg_fragments
from hackmatrix_rl.view.replays._match import Match, Mind, Moment, number_data, opinion_data
from hackmatrix_rl.view.replays._recording import Recording, Scene, action_name
from hackmatrix_rl.view.replays._replay import Replay

Json = dict[str, Any]

_SCRIPTS = ("words.js", "panels.js", "timeline.js", "page.js")
_PLACES = ("head", "tools", "stage", "side", "dialogs")
"""Places of the page that only a live page fills."""
_LIVE_SCRIPTS = ("programs.js", "server.js", "live.js")


class Film:
    """The pictures of a game; `shapes` stores each SVG element once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def shapes(self) -> list[str]:
        """The SVG elements by number."""
        return list(self._numbers)

    def moment(self, moment: Moment, *, reasons: bool = False) -> Json:
        """A position as data; with `reasons`, also why actions are illegal."""
        frame = moment.frame
        seen = frame.seen()
        data: Json = {
            "action": moment.action,
            "terms": {name: number_data(term) for name, term in moment.terms.items() if term},
            "reward": number_data(moment.reward),
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

    def scene(self, scene: Scene, drawing: Drawing, player: str) -> Json:
        """A position of a recording as data; it has no `facts`, which are HackMatrix's."""
        data: Json = {
            "action": scene.action,
            "terms": {name: number_data(term) for name, term in (scene.terms or {}).items()},
            "reward": number_data(scene.reward),
            "facts": None,
            "legal": list(scene.legal),
            "end": scene.end,
            "all": self._drawn(drawing),
        }
        if scene.opinion is not None:
            data["opinions"] = {player: opinion_data(scene.opinion)}
        return data

    def _picture(self, frame: Frame) -> Json:
        return self._drawn(draw(frame, panel=False))

    def _drawn(self, drawing: Drawing) -> Json:
        pieces = svg_fragments(drawing)
        shapes = [self._numbers.setdefault(piece, len(self._numbers)) for piece in pieces]
        return {"shapes": shapes, "words": drawing.title}


def rules_data(match: Match) -> Json:
    """The constants of a game: names, keys and costs of actions, and places of cells."""
    drawing = draw(match.now.frame, panel=False)
    return {
        "actions": [_action_data(action) for action in Action],
        "board": {"width": drawing.width, "height": drawing.height},
        "places": [place_of(cell) for cell in range(len(match.now.frame.cells))],
    }


def _action_data(action: Action) -> Json:
    key = UNICODE.arrows[action] if action < SIPHON else KEYS[action]
    data: Json = {"name": action.label, "key": key}
    if action >= FIRST_PROGRAM:
        spec = SPECS[Program(action - FIRST_PROGRAM)]
        data |= {"credits": spec.credits, "energy": spec.energy, "does": spec.does}
    return data


def _facts(frame: Frame) -> Json:
    names = ("stage", "turn", "hp", "score", "credits", "energy", "data_siphons")
    return {
        **{name: getattr(frame, name) for name in names},
        "attack": frame.attack_damage,
        "cell": frame.player_cell,
        "task": None if frame.scheduled_tasks_disabled else frame.next_scheduled_task_turn,
        "undo": frame.snapshots,
        "active": [name for name, on in frame.flags.items() if on],
    }


def page_of(
    match: Match,
    *,
    minds: Mapping[str, Mind] | None = None,
    player: str = "",
    title: str = "",
    saved: Json | None = None,
    on_move: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """A game as a self-contained HTML page.

    The page plays the game and shows for each move its name, its reward by term, and the opinions
    of `minds`. The title is by default the summary of the replay. `saved` is the file that the page
    offers for download, by default the replay. `on_move` is called with the number of positions
    written and the total.
    """
    film = Film()
    moments = []
    for number, moment in enumerate(match.moments):
        asked = (minds or {}) if moment.end is None else {}
        opinions = {name: opinion_data(mind.opinion(number)) for name, mind in asked.items()}
        moments.append(film.moment(moment) | ({"opinions": opinions} if opinions else {}))
        on_move(number + 1, len(match.moments))
    replay = Replay.from_match(match, player=player)
    saved = replay.as_dict() if saved is None else saved
    head = {"title": title or replay.summary(), "player": player, "replay": saved}
    game = {**rules_data(match), **head, "shapes": film.shapes, "moments": moments}
    return whole_page(game)[0]


def page_of_recording(
    recording: Recording, *, on_move: Callable[[int, int], None] = lambda done, total: None
) -> str:
    """A game of any environment as a page like `page_of`, without a download."""
    return whole_page(recording_data(recording, on_move=on_move))[0]


def recording_data(
    recording: Recording, *, on_move: Callable[[int, int], None] = lambda done, total: None
) -> Json:
    """The data of a page for a game of any environment."""
    film = Film()
    moments = []
    drawings = recording.drawings()
    numbers: dict[int | str, int] = {each: each for each in range(recording.num_actions)}
    for number, (scene, drawing) in enumerate(zip(recording.scenes, drawings, strict=True)):
        moments.append(film.scene(_numbered(scene, numbers), drawing, recording.player))
        on_move(number + 1, len(drawings))
    return {
        "title": f"{recording.environment}: {recording.summary()}",
        "player": recording.player,
        "actions": [{"name": action_name(each)} for each in numbers],
        "board": {"width": drawings[0].width, "height": drawings[0].height},
        "shapes": film.shapes,
        "moments": moments,
    }


def _numbered(scene: Scene, numbers: dict[int | str, int]) -> Scene:
    """The scene with numbers for the texts of actions, each new one the next number."""

    def number(action: int | str) -> int:
        return numbers.setdefault(action, len(numbers))

    opinion = scene.opinion
    if opinion is not None:
        opinion = replace(opinion, action=number(opinion.action))
    action = None if scene.action is None else number(scene.action)
    return replace(scene, action=action, opinion=opinion)


def page_of_games(data: Mapping[str, Any]) -> tuple[str, str]:
    """The live page for an agent's games in any environment, and its policy.

    The server sends each game as `recording_data`.
    """
    parts = {"tools": "games_tools.html", "dialogs": "live_dialogs.html"}
    return assembled(
        data,
        "page.html",
        scripts=(*_SCRIPTS, "server.js", "games.js", "start.js"),
        styles=("page.css", "toast.css"),
        live=True,
        parts={
            f"live-{place}": _text(parts[place]).strip() if place in parts else ""
            for place in _PLACES
        },
    )


def whole_page(data: Mapping[str, Any], *, live: bool = False) -> tuple[str, str]:
    """The page of a game, and its Content-Security-Policy.

    The policy allows only the page's script and style, by their hashes, and no requests. With
    `live`, the page may send requests to its server.
    """
    parts = {
        f"live-{place}": _text(f"live_{place}.html").strip() if live else "" for place in _PLACES
    }
    styles = ("page.css", *(("toast.css", "live.css") if live else ()))
    return assembled(
        data, "page.html", scripts=_scripts(live=live), styles=styles, live=live, parts=parts
    )


def assembled(
    data: Mapping[str, Any],
    frame: str,
    *,
    scripts: Sequence[str],
    styles: Sequence[str],
    live: bool,
    parts: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, str]:
    """A page from files of the folder `page`, and its policy; see `whole_page`.

    `frame` is the HTML file, with placeholders such as `{{script}}` and those of `parts`.
    """
    script = _joined(scripts)
    style = f"{_colours()}\n{_joined(styles)}"
    connect = "connect-src 'self'" if live else "connect-src 'none'"
    policy = content_policy(_hash(script), _hash(style), connect)
    parts = {
        **parts,
        "title": html.escape(str(data["title"])),
        "policy": html.escape(policy),
        "style": style,
        "data": as_script(data),
        "script": script,
    }
    # One pass: placeholders in the inserted text are not replaced.
    return re.sub(r"\{\{([a-z-]+)\}\}", lambda name: parts[name[1]], _text(frame)), policy


def script_source() -> str:
    """The script of a recorded game, as a source of a Content-Security-Policy."""
    return _hash(_joined(_scripts()))


def _scripts(*, live: bool = False) -> tuple[str, ...]:
    return (*_SCRIPTS, *(_LIVE_SCRIPTS if live else ()), "start.js")


def as_script(data: Any) -> str:
    """Data as JSON that cannot end the `<script>` around it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _colours() -> str:
    light, dark = css_variables("light"), css_variables("dark")
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media(prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n"
        f':root[data-theme="light"]{{color-scheme:light;{light}}}\n'
        f':root[data-theme="dark"]{{color-scheme:dark;{dark}}}\n'
        f".board svg{{font-family:{FONT}}}"
    )


def _joined(names: Sequence[str]) -> str:
    return "\n".join(_text(name).strip() for name in names)


def _text(name: str) -> str:
    return files("hackmatrix_rl.view.replays").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source of a script or style in a policy: the hash of the text between its tags."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
