"""`hackmatrix-rl ui` from the outside: how it starts, ends, and refuses."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from http.client import HTTPConnection
from importlib.util import find_spec

import pytest

from hackmatrix_rl.view.ui import _serve

from .commands import assert_refused, invoke

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


def test_without_the_extra_it_names_the_extra(monkeypatch):
    monkeypatch.setattr(_serve, "find_spec", lambda name: None)
    assert_refused(invoke("ui"), "pip install 'hackmatrix-rl[ui]'")


def test_an_unknown_flag_has_advice():
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
    _serve._open_browser("http://127.0.0.1/", lines.append)
    (line,) = lines
    assert "No browser found" in line
    assert bool(opened) == (found == "fails")


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
