"""The server's answers: the page, and one address for each thing that it may ask."""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from hackmatrix_rl.errors import ConfigError, first_line, printable
from hackmatrix_rl.view.replays import Json, whole_page
from hackmatrix_rl.view.ui._guard import MOST_BYTES, ASGIApp, Guard
from hackmatrix_rl.view.ui._table import Table
from hackmatrix_rl.view.ui._worker import Worker

_log = logging.getLogger(__name__)

_COUNT = 2**53
_LONGEST_NAME = 500


class _BadRequestError(Exception):
    """A request that the page never makes."""


def make_app(
    table: Table, worker: Worker, *, token: str, hosts: frozenset[str], watch: bool = False
) -> ASGIApp:
    """The whole server; only the worker touches the table.

    What a person can put right (a move that is not legal, an unknown agent, a damaged replay) is
    an answer with a line under `error`; the page shows it. Other requests are refused by status.
    """
    page, policy = whole_page({"live": True, "title": "HackMatrix", "watch": watch}, live=True)
    policy += "; frame-ancestors 'none'"

    async def index(request: Request) -> Response:
        return HTMLResponse(page, headers={"content-security-policy": policy})

    async def status(request: Request) -> Response:
        doing, seconds = worker.status
        return JSONResponse({"doing": doing, "seconds": round(seconds, 1)})

    async def answer(method: Callable[..., Json], request: Request) -> Response:
        try:
            job = partial(method, **await _arguments(method, request))
            return JSONResponse(await asyncio.wrap_future(worker.submit(job)))
        except _BadRequestError as error:
            return JSONResponse({"error": str(error)}, 400)
        except ConfigError as error:
            return JSONResponse({"error": printable(" ".join(str(error).split()))})
        except Exception as error:
            _log.exception("hackmatrix-rl ui: %s failed", request.url.path)
            said = printable(f"a fault of hackmatrix-rl: {first_line(error)}")
            return JSONResponse({"error": said}, 500)

    methods: dict[str, Callable[..., Json]] = {
        "/state": table.state,
        "/new": table.new,
        "/play": table.play,
        "/agent-move": table.agent_move,
        "/think": table.think,
        "/agent": table.agent,
        "/branch": table.branch,
        "/open": table.open,
        "/replay": table.replay,
    }
    routes = [Route("/", index), Route("/status", status)]
    routes += [
        Route(path, partial(answer, method), methods=["POST"]) for path, method in methods.items()
    ]
    return Guard(Starlette(routes=routes), token=token, hosts=hosts)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _COUNT


def _is_have(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"game", "moments", "shapes"}:
        return False
    return all(each is None or _is_count(each) for each in value.values())


_FITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "have": (_is_have, "numbers of game, moments and shapes"),
    "number": (_is_count, "a whole number from 0"),
    "action": (_is_count, "a whole number from 0"),
    "seed": (
        lambda value: value is None or (_is_count(value) and value < 2**32),
        "null or a whole number from 0 to 4294967295",
    ),
    "name": (
        lambda value: (
            isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable()
        ),
        "a short printable text",
    ),
    "replay": (lambda value: isinstance(value, dict), "a JSON object"),
}
"""The fields of requests: what fits, in code and in words."""


async def _arguments(method: Callable[..., Json], request: Request) -> dict[str, Any]:
    """The arguments of a method from the body of a request."""
    try:
        given = json.loads(await _body(request))
    except (ValueError, RecursionError) as error:
        raise _BadRequestError(f"the request is no JSON: {first_line(error)}") from error
    names = list(inspect.signature(method).parameters)
    if not isinstance(given, dict) or set(given) != set(names):
        raise _BadRequestError(f"a request with other fields than {', '.join(names)}")
    for name in names:
        fits, expected = _FITS[name]
        if not fits(given[name]):
            raise _BadRequestError(f"{name} is not {expected}")
    return given


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise _BadRequestError(f"the request is longer than {MOST_BYTES:,} bytes")
    return b"".join(parts)
