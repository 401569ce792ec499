"""The server as a browser meets it: real requests, also those that it has to refuse."""

import json
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection

import pytest

pytestmark = pytest.mark.view

pytest.importorskip("starlette", reason="needs the extra ui")
uvicorn = pytest.importorskip("uvicorn", reason="needs the extra ui")

from hackmatrix_rl.view.ui._app import MOST_BYTES, make_app  # noqa: E402
from hackmatrix_rl.view.ui._serve import open_socket  # noqa: E402
from hackmatrix_rl.view.ui._table import Table, Worker  # noqa: E402

from .test_clique_table import table as clique_table  # noqa: E402
from .test_table import NOTHING, find_player  # noqa: E402

TOKEN = "the-token"


class Served:
    """A running server."""

    def __init__(self, port, worker):
        self.port = port
        self.worker = worker

    def send(self, method, path, body=None, **headers):
        """One request with the headers of the page, or other ones; `None` leaves one out."""
        given = {
            "Host": f"127.0.0.1:{self.port}",
            "Origin": f"http://127.0.0.1:{self.port}",
            "X-HackMatrix-Token": TOKEN,
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.putrequest(method, path, skip_host=True)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given["Content-Length"] = str(len(data) if body is not None else 0)
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data if body is not None else None)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response, text

    def ask(self, path, **body):
        response, text = self.send("POST", path, {"have": NOTHING} | body)
        assert response.status == 200, text
        return json.loads(text)


@contextmanager
def serving(make):
    """A server of the game that `make` makes."""
    with open_socket(0) as listening:
        port = listening.getsockname()[1]
        worker = Worker()
        hosts = frozenset({f"127.0.0.1:{port}"})
        app = make_app(make(say=worker.say), worker, token=TOKEN, hosts=hosts)
        config = uvicorn.Config(app, http="h11", lifespan="off", log_level="critical", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield Served(port, worker)
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def served():
    with serving(partial(Table, find_player, seed=3)) as found:
        found.ask("/state")
        yield found


@pytest.fixture(scope="module")
def clique():
    with serving(clique_table) as found:
        yield found


def test_the_page_comes_with_its_policy(served):
    response, text = served.send("GET", f"/?token={TOKEN}", X_HackMatrix_Token=None)
    assert response.status == 200
    policy = response.getheader("content-security-policy")
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert response.getheader("x-frame-options") == "DENY"
    assert response.getheader("referrer-policy") == "no-referrer"
    assert TOKEN not in text


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/state", {"X_HackMatrix_Token": None}),
        ("/state", {"X_HackMatrix_Token": "the-toke"}),
        ("/state", {"X_HackMatrix_Token": "\xe9"}),
        (f"/state?token={TOKEN}", {"X_HackMatrix_Token": None}),
        ("/state", {"Host": "evil.example"}),
        ("/state", {"Host": "127.0.0.1"}),
        ("/state", {"Origin": "http://evil.example"}),
        ("/state", {"Origin": "null"}),
        ("/state", {"Origin": "http://127.0.0.1:1"}),
        ("/state", {"Sec_Fetch_Site": "cross-site"}),
        ("/state", {"Sec_Fetch_Site": "same-site"}),
        ("/nothing", {"X_HackMatrix_Token": None}),
    ],
)
def test_others_are_refused(served, path, headers):
    response, text = served.send("POST", path, {"have": NOTHING}, **headers)
    assert response.status == 403
    assert "moments" not in text
    assert response.getheader("access-control-allow-origin") is None


def test_the_page_opens_from_a_link_elsewhere_with_the_token_and_never_without_a_host(served):
    # Without a body: uvicorn closes on what is no HTTP, and a body that comes then is a reset.
    response, text = served.send("POST", "/state", Host=None)
    assert response.status == 400
    assert "moments" not in text
    there = {"Origin": None, "X_HackMatrix_Token": None, "Sec_Fetch_Site": "cross-site"}
    assert served.send("GET", f"/?token={TOKEN}", **there)[0].status == 200
    assert served.send("GET", "/?token=other", **there)[0].status == 403


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=%C3%A9", "?token"])
def test_the_page_needs_the_token(served, query):
    response, text = served.send("GET", f"/{query}", X_HackMatrix_Token=None)
    assert response.status == 403
    assert "<" not in text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/state", b""),
        ("/state", b"{"),
        ("/state", b"\xff\xfe"),
        ("/state", b"[" * 100_000),
        ("/state", []),
        ("/state", {}),
        ("/state", {"have": NOTHING, "more": 1}),
        ("/state", {"have": 1}),
        ("/state", {"have": {"game": -1, "moments": 0, "shapes": 0}}),
        ("/play", {"have": NOTHING, "number": 0}),
        ("/play", {"have": NOTHING, "number": 0, "action": "UP"}),
        ("/play", {"have": NOTHING, "number": 0, "action": True}),
        ("/play", {"have": NOTHING, "number": 0, "action": 1e400}),
        ("/play", {"have": NOTHING, "number": 10**30, "action": 0}),
        ("/new", {"have": NOTHING, "seed": -1}),
        ("/new", {"have": NOTHING, "seed": 2**32}),
        ("/agent", {"have": NOTHING, "name": ""}),
        ("/agent", {"have": NOTHING, "name": "x" * 501}),
        ("/agent", {"have": NOTHING, "name": "\ud800"}),
        ("/open", {"have": NOTHING, "replay": []}),
    ],
)
def test_a_request_that_the_page_never_makes_is_refused_in_a_line(served, path, body):
    response, text = served.send("POST", path, body)
    assert response.status == 400, text
    assert "\n" not in json.loads(text)["error"]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/new", {"seat": "third"}, "seat is not one of first, second, both"),
        ("/new", {"seat": []}, "seat is not one of"),
        ("/new", {}, "other fields than seat"),
        ("/strength", {"simulations": -1}, "simulations is not a whole number from 0"),
        ("/play", {"number": 0, "action": "0-1"}, "action is not a whole number from 0"),
        ("/state", {"have": NOTHING}, "a request with other fields than none"),
    ],
)
def test_a_board_refuses_what_its_page_never_asks(clique, path, body, said):
    response, text = clique.send("POST", path, body)
    assert response.status == 400, text
    assert said in json.loads(text)["error"]


def test_a_board_is_as_guarded_as_the_game_and_has_no_other_requests(clique):
    response, text = clique.send("GET", f"/?token={TOKEN}", X_HackMatrix_Token=None)
    assert (response.status, "The clique game" in text, TOKEN in text) == (200, True, False)
    assert clique.send("POST", "/state", {}, X_HackMatrix_Token="wrong")[0].status == 403
    assert clique.send("POST", "/agent", {"name": "runner"})[0].status == 404
    response, text = clique.send("POST", "/play", {"number": 0, "action": 99})
    assert (response.status, json.loads(text)) == (200, {"error": "edge 99 does not exist"})
    huge = {"number": 0, "action": 2**40}
    assert "does not exist" in json.loads(clique.send("POST", "/play", huge)[1])["error"]


def test_longer_requests_other_methods_and_other_addresses_are_refused(served):
    response, _ = served.send("POST", "/state", b" " * (MOST_BYTES + 1))
    assert response.status == 413
    assert served.send("GET", "/state")[0].status == 405
    assert served.send("GET", "/nothing")[0].status == 404
    assert served.send("GET", "/../pyproject.toml")[0].status == 404


@pytest.mark.parametrize(
    ("token", "size", "status"), [(TOKEN, MOST_BYTES + 1, 413), ("another", 1, 403), (None, 1, 403)]
)
def test_a_body_without_an_end_is_refused_and_its_connection_closed(served, token, size, status):
    given = f"Host: 127.0.0.1:{served.port}\r\nTransfer-Encoding: chunked\r\n"
    if token is not None:
        given += f"X-HackMatrix-Token: {token}\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=120) as connection:
        connection.sendall(f"POST /state HTTP/1.1\r\n{given}\r\n".encode())
        connection.sendall(f"{size:x}\r\n".encode() + b" " * size + b"\r\n")  # and no more
        with connection.makefile("rb") as answer:
            assert int(answer.readline().split()[1]) == status
            assert b"connection: close\r\n" in iter(answer.readline, b"\r\n")
            with suppress(ConnectionResetError):  # where the server closes before it reads all
                answer.read()  # to its end


def test_a_connection_is_kept_for_the_next_request(served):
    for method, body in (("GET", None), ("POST", {"have": NOTHING})):
        response, _ = served.send(method, "/status" if body is None else "/state", body)
        assert response.status == 200
        assert response.getheader("connection") is None


def test_what_a_person_can_put_right_is_a_line(served):
    served.ask("/new", seed=3)
    assert "not legal" in served.ask("/play", number=0, action=27)["error"]
    assert "does not exist" in served.ask("/play", number=0, action=99)["error"]
    assert "no player nobody" in served.ask("/agent", name="nobody")["error"]
    assert "not a replay" in served.ask("/open", replay={})["error"]
    assert r"format is \ud800" in served.ask("/open", replay={"format": "\ud800"})["error"]
    assert "does not exist" in served.ask("/branch", number=99)["error"]


def test_of_many_moves_at_once_one_counts(served):
    served.ask("/new", seed=3)
    action = served.ask("/state")["moments"][0]["legal"][0]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: served.ask("/play", number=0, action=action), range(8)))
    assert sum("error" not in each for each in answers) == 1
    assert all("moved on" in each["error"] for each in answers if "error" in each)
    assert len(served.ask("/state")["moments"]) == 2


def test_it_says_what_it_does_while_it_does_it(served):
    going = threading.Event()

    def job():
        served.worker.say("Thinking hard")
        going.wait(60)

    future = served.worker.submit(job)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(served.ask, "/state")
        doing = ""
        while doing != "Thinking hard":
            doing = json.loads(served.send("GET", "/status")[1])["doing"]
            time.sleep(0.01)
        assert not waiting.done()
        going.set()
        assert waiting.result()["moments"]
    assert future.result() is None


def test_a_fault_is_a_line_and_the_server_goes_on(served, monkeypatch):
    def logged(message, *arguments):
        shown.append(sys.exception())

    shown = []

    def broken(*arguments, **named):
        raise RuntimeError("broken \ud800\nin two lines")

    monkeypatch.setattr("hackmatrix_rl.view.ui._table.Replay.from_match", broken)
    # Not pytest's record of the log: what is in it must be UTF-8.
    monkeypatch.setattr("hackmatrix_rl.view.ui._app._log.exception", logged)
    response, text = served.send("POST", "/replay", {"have": NOTHING})
    assert response.status == 500
    assert json.loads(text)["error"] == (r"a fault of hackmatrix-rl: RuntimeError: broken \ud800")
    (error,) = shown
    assert isinstance(error, RuntimeError), "the terminal has the traceback"
    assert served.ask("/state")["moments"]
