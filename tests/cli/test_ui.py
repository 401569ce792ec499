"""`hackmatrix-rl ui` from the outside: how it starts, ends, and refuses."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import webbrowser
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

import pytest

from hackmatrix_rl.runs import untrained_opponent
from hackmatrix_rl.view.ui import _serve

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.view

needs_server = pytest.mark.skipif(
    find_spec("starlette") is None or find_spec("uvicorn") is None, reason="needs the extra ui"
)


@needs_server
def test_a_port_in_use_is_a_line_that_names_the_flag():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_refused(invoke("ui", "--port", port, "--no-browser"), f"--port {port}", "--port 0")


@needs_server
def test_an_unknown_agent_is_a_line_before_anything_starts():
    assert_refused(invoke("ui", "nobody", "--no-browser"), "nobody")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--clique", "pretrained"), "--clique: pretrained plays another game. Leave --clique out"),
        (("--clique", "random"), "--clique: random is no run of the clique game. Name a run of"),
        (("--vertices", 6), "--vertices 6: only for the clique game. Add --clique."),
        (("runner", "--full-board", "draw"), "--full-board draw: only for the clique game."),
        (("--agent", "my_module:make"), "--agent my_module:make: goes with a run that hm.SaveRun"),
        (("--clique", "--vertices", 99), "--vertices 99 is too large."),
        (("--clique", "--vertices", 4, "--k", 5), "--k 5 is more than the 4 vertices"),
        (("--clique", "--full-board", "x"), "--full-board x: unknown. Use draw or"),
        (("--clique", "--seed", 3), "--seed 3: the clique game draws nothing."),
    ],
)
def test_flags_that_do_not_go_together_are_a_line_before_anything_starts(flags, said, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.view.ui.serve", lambda *_, **__: pytest.fail("late"))
    assert_refused(invoke("ui", *flags), said)


@pytest.mark.parametrize(("vertices", "k", "full_board"), [(3, 3, "draw"), (14, 5, "second-wins")])
def test_any_board_is_for_two_people(monkeypatch, vertices, k, full_board):
    made = []
    monkeypatch.setattr(
        "hackmatrix_rl.view.ui.serve", lambda make, **_: made.append(make(say=print)) or True
    )
    done("ui", "--clique", "--vertices", vertices, "--k", k, "--full-board", full_board)
    (table,) = made
    assert table.state()["seat"] == "both"
    assert f'"vertices":{vertices}' in table.page()[0]


def test_the_board_without_flags_is_the_one_of_the_help():
    assert untrained_opponent({}).game.config.vertices == 6
    assert "[default: 6]" in done("ui", "--help").stdout


def test_without_the_extra_it_names_the_extra_and_an_unknown_flag_has_advice(monkeypatch):
    monkeypatch.setattr(_serve, "find_spec", lambda name: None)
    assert_refused(invoke("ui"), "pip install 'hackmatrix-rl[ui]'")
    assert_refused(invoke("ui", "--no-browsr"), "--no-browser")


@pytest.mark.parametrize("found", [None, "terminal", "fails"])
def test_without_a_browser_there_is_a_line(monkeypatch, found):
    monkeypatch.delenv("BROWSER", raising=False)

    def get():
        if found is None:
            raise webbrowser.Error("none")
        return webbrowser.GenericBrowser("w3m") if found == "terminal" else object()

    opened = []
    monkeypatch.setattr(webbrowser, "get", get)
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url))
    lines = []
    _serve._open_browser(Path("/somewhere"), lines.append)
    (line,) = lines
    assert "No browser found" in line
    assert bool(opened) == (found == "fails")


def test_no_command_line_has_the_token(monkeypatch, tmp_path):
    """A browser is given a file that only this user can read, in a folder that goes."""
    opened = []

    def serve_nothing(table, worker, listening, token):
        while not opened:
            time.sleep(0.01)
        (address,) = opened
        page = Path(urlsplit(address).path)
        assert token not in address
        assert f"/?token={token}" in page.read_text()
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        opened.append(page)

    monkeypatch.setattr(_serve, "check_installed", lambda: None)
    monkeypatch.setattr(_serve, "_has_browser", lambda: True)
    monkeypatch.setattr(_serve, "_run", serve_nothing)
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    _serve.serve(mock.Mock(), port=0, report=lambda line: None)
    assert not opened[1].parent.exists()


@needs_server
def test_ctrl_c_ends_it_while_it_compiles(tmp_path):
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-m", "hackmatrix_rl", "ui", "--port", "0", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    line = process.stdout.readline()
    port, token = re.search(r"127\.0\.0\.1:(\d+)/\?token=(\S+)", line).groups()
    connection = HTTPConnection("127.0.0.1", int(port), timeout=60)
    connection.request("GET", "/status", headers={"X-HackMatrix-Token": token})
    status = json.loads(connection.getresponse().read())
    connection.close()
    assert status["doing"] == "Compiling the game", "the server answers while it compiles"
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.endswith("Stopped.\n")
    assert errors == ""
