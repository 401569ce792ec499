"""The local server: a socket on 127.0.0.1, a random token, and the user's browser."""

import html
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.ui._port import PORT
from hackmatrix_rl.view.ui._served import Served
from hackmatrix_rl.view.ui._table import Worker

HOST = "127.0.0.1"
TOKEN_BYTES = 24
GRACE_SECONDS = 1


def open_socket(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1; port 0 selects any free port."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Allows a port whose server has just ended, but not one with a running server.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"--port {port}: {os.strerror(error.errno or 0)}. Use another port, or --port 0 for "
            "any free one"
        ) from error
    return listening


def check_installed() -> None:
    """Raises a ConfigError unless the server's packages are installed."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"hackmatrix-rl ui needs {' and '.join(missing)}: pip install 'hackmatrix-rl[ui]'"
        )


def serve(
    make_table: Callable[..., Served],
    *,
    port: int = PORT,
    browser: bool = True,
    report: Callable[[str], None] = print,
) -> bool:
    """Serves a game on 127.0.0.1 until Ctrl-C; port 0 selects any free port.

    `make_table(say=...)` makes the game, which reports its progress to `say`. `report` receives
    lines for the user.

    Returns:
        Whether the worker is idle. Otherwise its thread still compiles or plays, and the process
        must end by `os._exit`.

    Raises:
        ConfigError: a package is missing, the port is in use, or the game cannot start.
    """
    check_installed()
    listening = open_socket(port)
    with listening:
        worker = Worker()
        table = make_table(say=worker.say)
        table.load()
        host = f"{HOST}:{listening.getsockname()[1]}"
        token = secrets.token_urlsafe(TOKEN_BYTES)
        url = f"http://{host}/?token={token}"
        report(f"{table.title} is at {url}")
        report("Ctrl-C ends it. Only this machine can reach it.")
        # Compilation starts before the browser's first request.
        worker.submit(table.warm_up)
        with TemporaryDirectory(prefix="hackmatrix_rl_") as folder:
            if browser:
                page = _redirect(Path(folder), url)
                threading.Thread(target=_open_browser, args=(page, report), daemon=True).start()
            with suppress(KeyboardInterrupt):  # uvicorn has ended, and may reraise it
                _run(table, worker, listening, token)
        report("Stopped.")
        return not worker.running


def _run(table: Served, worker: Worker, listening: socket.socket, token: str) -> None:
    import uvicorn

    from hackmatrix_rl.view.ui._app import make_app

    port = listening.getsockname()[1]
    hosts = frozenset({f"{HOST}:{port}", f"localhost:{port}"})
    app = make_app(table, worker, token=token, hosts=hosts)
    config = uvicorn.Config(
        app,
        http="h11",  # whatever else is installed: it refuses a request without a host
        access_log=False,  # it would contain the token
        lifespan="off",
        log_level="critical",  # Ctrl-C during a long answer is not an error; `_app` logs faults
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listening])


def _redirect(folder: Path, url: str) -> Path:
    """A page that redirects to `url` and that only this user can read.

    Every user of the machine can read the command line of a browser, and `url` contains the token.
    """
    page = folder / "open.html"
    page.touch(mode=0o600)
    page.write_text(
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={html.escape(url)}"><title>HackMatrix</title>'
        f'<a href="{html.escape(url)}">HackMatrix</a>\n',
        encoding="utf-8",
    )
    return page


def _open_browser(page: Path, report: Callable[[str], None]) -> None:
    if not _has_browser() or not webbrowser.open(page.as_uri()):
        report("No browser found: open the address above in one.")


def _has_browser() -> bool:
    """Whether there is a graphical browser, or one named by BROWSER."""
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    # Exactly this class: text browsers, which would take over the terminal.
    return "BROWSER" in os.environ or type(found) is not webbrowser.GenericBrowser
