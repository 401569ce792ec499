"""The protocol on real streams: two commands as processes, and what they say where."""

import io
import json
import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner

from hackmatrix_rl.cli._headless import headless
from hackmatrix_rl.cli._main import main
from hackmatrix_rl.interop.protocol import Server, serve
from interop.protocol.headless import TIMEOUT, Process, headless_command

pytestmark = pytest.mark.processes

SERVE = [sys.executable, "-m", "hackmatrix_rl", "serve"]


def test_the_binary_in_its_place_answers_as_the_server_does(cache):
    process = Process([*headless_command(), "--headless-cli", "--info", "--seed", "4"], cache)
    beside = Server(4)
    assert process.ask("reset") == beside.answer({"action": "reset"})
    for _ in range(20):
        legal = process.ask("getValidActions")
        assert legal == beside.answer({"action": "getValidActions"})
        step = {"action": "step", "actionIndex": legal["validActions"][-1]}
        answer = process.ask(**step)
        assert answer == beside.answer(step)
        if answer["done"]:
            break
    for _ in range(20):  # more than a pipe holds, before the first is read
        process.child.stdin.write(b'{"action": "reset"}\n')
    process.child.stdin.flush()
    for _ in range(20):
        expected = json.loads(json.dumps(beside.answer({"action": "reset"})))
        assert json.loads(process.child.stdout.readline()) == expected
    assert process.send(b"\x00nonsense") == {"error": "Invalid command"}
    state = {"player": {"row": 1, "col": 2}}
    seen = process.ask("setState", state=state)["observation"]
    assert (seen["playerRow"], seen["playerCol"]) == (1, 2)
    status, said, errors = process.end()
    assert (status, said) == (0, "")
    assert '"reward": ' in errors


def test_serve_says_which_seed_it_drew_and_ends_when_nobody_reads_its_answers(cache):
    process = Process(SERVE, cache)
    seen = process.ask("reset")
    process.child.stdout.close()
    process.child.stdin.write(b'{"action": "getActionSpace"}\n')
    process.child.stdin.flush()
    assert process.child.wait(TIMEOUT) == 0
    said = process.child.stderr.read().decode()
    assert "nobody reads the answers" in said
    seed = int(said.partition("--seed ")[2].split()[0])
    assert seen == Server(seed).answer({"action": "reset"})
    process.child.stdin.close()
    process.child.stderr.close()


@pytest.mark.parametrize(
    ("command", "where", "said"),
    [(headless_command(), "> /dev/full", "hackmatrix-headless: "), (SERVE, ">&-", "Error: ")],
)
def test_an_answer_that_cannot_be_written_is_one_line_and_status_4(command, where, said):
    line = f"{shlex.join([*command, '--seed', '1'])} {where}"
    request = '{"action": "getActionSpace"}'
    done = subprocess.run(
        ["bash", "-c", line], input=request, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 4
    assert done.stderr.startswith(f"{said}standard output cannot be written: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("flag", ["--visual-cli", "--debug-scenario"])
def test_what_the_package_does_not_have_is_refused_by_name(flag):
    done = subprocess.run([*headless_command(), flag], capture_output=True, text=True, timeout=99)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"hackmatrix-headless: {flag}: " in done.stderr


@pytest.mark.parametrize("command", [headless, main.get_command(None, "serve")])
def test_the_help_names_the_flags_of_the_binary(command):
    told = CliRunner().invoke(command, ["--help"]).output
    for flag in ("--headless-cli", "--visual-cli", "--debug-scenario", "--debug", "--info"):
        assert flag in told


def test_a_line_that_is_too_long_has_one_answer(monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.interop.protocol._server.LONGEST", 40)
    lines = b"x" * 1000 + b"\n" + b'{"action": "getActionSpace"}\n' + b"y" * 1000
    told = []
    serve(Server(0), io.BytesIO(lines), answers := io.BytesIO(), say=told.append, debug=True)
    found = [json.loads(line) for line in answers.getvalue().splitlines()]
    wrong = {"error": "Invalid command"}
    assert found == [wrong, {"actionSpaceSize": 28}, wrong]
    assert '{"action": "getActionSpace"}' in told
