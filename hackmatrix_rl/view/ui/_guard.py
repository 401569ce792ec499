"""Who may speak to the server: the page that it sent, on this machine, and nobody else."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import JSONResponse

# Starlette's own names for these are spelled in ways that checkers of types warn of.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN_HEADER = "x-hackmatrix-token"
MOST_BYTES = 1_000_000
"""The longest body of a request: a replay of the most moves is a tenth of it."""

_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """Refuses requests without the token, for another host, or from another site.

    A page of another site can make a browser send requests here. It does not know the token; its
    origin is another one; and a name of its own that leads to 127.0.0.1 is not in `hosts`.
    """

    def __init__(self, app: ASGIApp, *, token: str, hosts: frozenset[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            return
        refused = self._refusal(scope)
        sending = _with_headers(send)
        if refused is not None:
            status, why = refused
            await JSONResponse({"error": why}, status)(scope, receive, sending)
        else:
            await self._app(scope, receive, sending)

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
        # The page itself may be opened from a link elsewhere, such as a terminal in a browser.
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


def _with_headers(send: Send) -> Send:
    more = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending
