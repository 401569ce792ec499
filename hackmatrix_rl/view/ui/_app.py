"""The server's HTTP app: it answers only its own page on this machine."""

import asyncio
import inspect
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from hackmatrix_rl.system import parse_json
from hackmatrix_rl.system.errors import ConfigError, first_line, printable
from hackmatrix_rl.view.replays import Json
from hackmatrix_rl.view.ui._clique_table import SEATS
from hackmatrix_rl.view.ui._served import Served
from hackmatrix_rl.view.ui._table import Worker

# Starlette's types for these are imprecise under mypy's strict mode.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN_HEADER = "x-hackmatrix-token"
MOST_BYTES = 1_000_000
"""Most bytes of a request's body; the longest replay has a tenth of it."""

_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_log = logging.getLogger(__name__)
_COUNT = 2**53
_LONGEST_NAME = 500


class Guard:
    """Refuses requests without the token, for another host, or from another site.

    If the body of a request was not read to its end, the answer closes the connection, because the
    rest may be endless.

    A page of another site can make a browser send requests to this server. That page does not know
    the token, its origin differs, and if its domain resolves to 127.0.0.1 (DNS rebinding), the
    domain is not in `hosts`.
    """

    def __init__(self, app: ASGIApp, *, token: str, hosts: frozenset[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refused = self._refusal(scope)
        reading = _Body(scope, receive)
        sending = _with_headers(send, reading)
        if refused is not None:
            status, why = refused
            await JSONResponse({"error": why}, status)(scope, reading, sending)
        else:
            await self._app(scope, reading, sending)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if headers.get("host") not in self._hosts:
            names = " and ".join(sorted(self._hosts))
            return 403, f"this server answers at {names} only; with ssh -L, keep the port's number"
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return 403, "a request from another site"
        # The page may be opened from a link on another site, such as a terminal in a browser.
        ours = headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if not ours and not _is_page(scope):
            return 403, "a request from another site"
        if not secrets.compare_digest(self._given(scope, headers), self._token):
            return 403, "the token is missing or wrong: open the URL that hackmatrix-rl ui printed"
        return None

    def _given(self, scope: Scope, headers: Mapping[str, str]) -> bytes:
        if _is_page(scope):
            fields = parse_qs(scope["query_string"].decode("latin-1"))
            return fields.get("token", [""])[0].encode()
        return headers.get(TOKEN_HEADER, "").encode()


def _is_page(scope: Scope) -> bool:
    return scope["path"] == "/" and scope["method"] == "GET"


class _Body:
    """Receives the body of a request and records whether it was read to its end."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = dict(scope["headers"])
        self.is_read = b"transfer-encoding" not in headers and (
            headers.get(b"content-length", b"0") == b"0"
        )
        self._receive = receive

    async def __call__(self) -> Message:
        message = await self._receive()
        self.is_read |= not message.get("more_body", False)
        return message


def _with_headers(send: Send, body: _Body) -> Send:
    always = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = always if body.is_read else [*always, (b"connection", b"close")]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


class _BadRequestError(Exception):
    """A request that the page never makes."""

    def __init__(self, said: str, status: int = 400) -> None:
        super().__init__(said)
        self.status = status


def make_app(table: Served, worker: Worker, *, token: str, hosts: frozenset[str]) -> ASGIApp:
    """The full app; only the worker uses the table.

    An error that a person can correct (an illegal move, an unknown agent, a damaged replay) is an
    answer with a line under `error`, which the page shows. Other invalid requests get an HTTP error
    status.
    """
    page, policy = table.page()
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
            return JSONResponse({"error": str(error)}, error.status)
        except ConfigError as error:
            return JSONResponse({"error": printable(" ".join(str(error).split()))})
        except Exception as error:
            _log.exception("hackmatrix-rl ui: %s failed", request.url.path)
            said = printable(f"a fault of hackmatrix-rl: {first_line(error)}")
            return JSONResponse({"error": said}, 500)

    routes = [Route("/", index), Route("/status", status)]
    for name in table.requests:
        asked = partial(answer, getattr(table, name))
        routes.append(Route(f"/{name.replace('_', '-')}", asked, methods=["POST"]))
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
    "simulations": (_is_count, "a whole number from 0"),
    "seat": (lambda value: value in SEATS, f"one of {', '.join(SEATS)}"),
    "replay": (lambda value: isinstance(value, dict), "a JSON object"),
}
"""For each field of a request, a check of its value and the expected value in words."""


async def _arguments(method: Callable[..., Json], request: Request) -> dict[str, Any]:
    """The arguments of a method, from the body of a request."""
    try:
        given = parse_json(await _body(request))
    except ValueError as error:
        raise _BadRequestError(f"the request is no JSON: {first_line(error)}") from error
    names = list(inspect.signature(method).parameters)
    if not isinstance(given, dict) or set(given) != set(names):
        raise _BadRequestError(f"a request with other fields than {', '.join(names) or 'none'}")
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
            raise _BadRequestError(f"the request is longer than {MOST_BYTES:,} bytes", 413)
    return b"".join(parts)
