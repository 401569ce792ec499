"""An agent plays another program's game: this package's server as a process, and broken ones."""

import functools
import json
import operator
import os
import select
import sys

import jax
import numpy as np
import pytest

from hackmatrix_rl.cli._main import main
from hackmatrix_rl.env import HackMatrix, env_keys
from hackmatrix_rl.evaluation import RandomAgent, Runner, Thought
from hackmatrix_rl.games.hackmatrix import Action, GameConfig, to_arrays
from hackmatrix_rl.interop.protocol import Engine, Server, Step
from hackmatrix_rl.interop.protocol.client import App, AppError, SeenGame, _app, coach, play_app
from hackmatrix_rl.interop.protocol.client._coach import advice, recognised
from hackmatrix_rl.search import Expert
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import Match, Mind, play_on
from interop.protocol import apps, person
from interop.protocol.headless import headless_command

pytestmark = pytest.mark.processes


@functools.cache
def true_answers():
    """What the first requests are answered with."""
    server = Server(6)
    begun = server.answer({"action": "reset"})
    legal = server.answer({"action": "getValidActions"})
    moved = server.answer({"action": "step", "actionIndex": legal["validActions"][0]})
    return {
        "BEGUN": begun,
        "LEGAL": legal,
        "MOVED": moved,
        "MOODY": {"observation": begun["observation"] | {"mood": 1}},
        "SILENT": moved | {"info": {}},
    }


@pytest.fixture
def program(tmp_path, cache):
    """`hackmatrix-headless` as one file, as an installer makes it."""
    file = tmp_path / "headless"
    code = headless_command()[-1]
    file.write_text(f"#!{sys.executable}\n{code}\n")
    file.chmod(0o755)
    return file


def test_the_runner_plays_the_game_that_it_plays_in_an_evaluation(program, tmp_path, capsys):
    record = tmp_path / "game.json"
    page = tmp_path / "game.html"
    flags = ["--app", str(program), "--seed", "4", "--save", str(record), "--html", str(page)]
    main(["play-app", "runner", *flags, "--", "--seed", "4"], standalone_mode=False)
    told = capsys.readouterr().out
    match = Match.start(4)
    play_on(match, Mind(Runner(), match))
    content = json.loads(record.read_text())
    assert [move["action"] for move in content["moves"]] == list(match.actions)
    assert content["end"] == match.now.end
    said = f"runner: {len(match.actions)} moves, stage {int(match.now.state.position.stage)}"
    assert said in told
    assert "hackmatrix-record-1" in page.read_text()
    again = tmp_path / "again.html"
    main(["replay", str(record), "--html", str(again)], standalone_mode=False)
    assert f"As it was seen: {said}" in capsys.readouterr().out
    assert again.exists()


def scripted(*answers, patience=30.0, person=False):
    """An app that answers so."""
    answers = [true_answers().get(answer, answer) for answer in answers]
    lines = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
    return App(
        [sys.executable, apps.__file__, "--headless-cli", *lines], patience=patience, person=person
    )


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["die"], "ended at reset, with exit status 3"),
        (["BEGUN", "LEGAL", "die"], "ended at step, with exit status 3"),
        (["BEGUN", "nonsense"], "answers getValidActions with 'nonsense', which is no JSON"),
        (["BEGUN", '{"error": "too\\nbusy"}'], "refuses getValidActions: "),
        (["BEGUN", "MOVED"], "answers getValidActions without validActions: "),
        (["MOODY"], "unknown field mood; "),
        (["BEGUN", "LEGAL", "SILENT"], "answer.info.invalid_action is missing"),
        (["BEGUN", '{"validActions": [99]}'], "answer.validActions is 99; "),
    ],
)
def test_what_an_app_does_wrong_is_one_line(answers, said):
    game = SeenGame(GameConfig())
    with pytest.raises(ValueError, match=said) as error, scripted(*answers) as app:
        play_app(app, RandomAgent(), HackMatrix(), game, key=jax.random.key(0))
    assert "\n" not in str(error.value)
    assert len(game.moments) == int("BEGUN" in answers)


def _changed(answer, *path):
    """An answer in which the value of a path is another, or what a function makes of it."""
    *names, last, value = path
    answer = json.loads(json.dumps(true_answers()[answer]))
    within = functools.reduce(operator.getitem, names, answer)
    within[last] = value(within[last]) if callable(value) else value
    return json.loads(json.dumps(answer))


def _cells(**more):
    """Cells with something more in each of them; exits stay where they are."""
    return lambda rows: [[cell | more for cell in row] for row in rows]


VIRUS = {"type": "virus", "hp": 2, "isStunned": False, "spawnedFromSiphon": False}
BLOCK = {"blockType": "question", "isSiphoned": False}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        *(
            (("reward", value), r"answer\.reward is .*; expected a number from -1e\+12 to 1e\+12")
            for value in (np.nan, np.inf, -(10**400), 1e308)
        ),
        (("info", "reward_breakdown", "kills", np.inf), r"reward_breakdown\.kills is inf"),
        (("observation", "credits", 10**9 + 1), "from 0 to 1000000000"),
        (("observation", "turn", 10**9), "next_scheduled_task_turn of game is 1000000012"),
        (("observation", "stage", 0), "observation.stage is 0; expected a whole number from 1 to"),
        (("observation", "stage", 9), "observation.stage is 9; expected a whole number from 1 to"),
        (("observation", "ownedPrograms", [5] * 24), "expected at most 23 entries"),
        (("observation", "cryptogHints", 37 * [{"row": 0, "col": 0}]), "at most 36 entries"),
        (("observation", "cells", _cells(enemy=VIRUS)), "num_enemies is 36, more than max_enemies"),
        (("observation", "cells", _cells(enemy=VIRUS | {"hp": 3})), "enemy.hp is 3; expected"),
        (("observation", "cells", _cells(isExit=True)), r"\[0\]\[1\].isExit is True; .* corners"),
        (("observation", "cells", _cells(credits=1, energy=1)), "cells.0. is 1, not 0"),
        *(
            (("observation", "cells", _cells(block=BLOCK | odd)), f"block.{name} is ")
            for odd in ({"points": 1e99}, {"programType": [0]}, {"programActionIndex": np.nan})
            for name in odd
        ),
    ],
)
def test_an_answer_that_no_game_has_is_one_line(path, said):
    game, legal = SeenGame(GameConfig()), true_answers()["LEGAL"]["validActions"]
    game.begin(true_answers()["BEGUN"]["observation"])
    with pytest.raises(ConfigError, match=said) as error:
        game.follow(legal[0], _changed("MOVED", *path))
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300
    if path[0] == "observation":
        with pytest.raises(ConfigError, match=said):
            SeenGame(GameConfig()).begin(_changed("MOVED", *path)["observation"])
    assert len(game.moments) == 1
    json.dumps(game.record(player="nobody"), allow_nan=False)


def test_more_hidden_cryptogs_than_there_is_room_for_are_one_line():
    hints = [{"row": row, "col": col} for row in range(6) for col in range(6)]
    seen = _changed("BEGUN", "observation", "cryptogHints", hints)["observation"]
    for row in seen["cells"]:
        row[0]["enemy"] = row[1]["enemy"] = VIRUS
    with pytest.raises(ConfigError, match="more than max_enemies=24"):
        SeenGame(GameConfig()).begin(seen)


@pytest.mark.parametrize(
    ("league", "said"), [("original", "no turn has ended$"), ("no-rewind", "ended in this stage")]
)
def test_undo_of_nothing_is_one_line(league, said):
    game = SeenGame(GameConfig.of_league(league))
    game.begin(true_answers()["BEGUN"]["observation"])
    with pytest.raises(ConfigError, match=said):
        game.follow(Action.UNDO, true_answers()["MOVED"])


@pytest.fixture
def impatient(monkeypatch):
    """Nobody waits long for an app to end by itself."""
    monkeypatch.setattr(_app, "_LEAVE_SECONDS", 0.1)


@pytest.mark.usefixtures("impatient")
def test_an_app_that_is_late_or_missing_is_named():
    late = pytest.raises(AppError, match=r"has not answered reset within 0\.5 s")
    with late, scripted("sleep", patience=0.5) as app:
        app.reset()
    long = pytest.raises(AppError, match="answers reset with a line of more than 131,072 bytes")
    with long, scripted("endless") as app:
        app.reset()
    deaf = pytest.raises(AppError, match=r"has not read reset within 0\.5 s")
    with deaf, scripted("deaf", patience=0.5) as app:
        app.ask({"action": "reset", "more": 2**20 * "x"}, "observation")
    with pytest.raises(AppError, match="the app /nowhere/app cannot be started: No such file"):
        App(["/nowhere/app"], patience=1.0)


@pytest.mark.parametrize("asked", ["reset", "next_move"])
def test_an_app_whose_child_keeps_its_output_open_is_late_and_both_are_ended(tmp_path, asked):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    end = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    def heard():
        assert select.select([end], [], [], 30)[0]
        return os.read(end, 99)

    late = pytest.raises(AppError, match=r"has not answered .* within 0\.5 s")
    with late, scripted(f"child {fifo}", patience=0.5, person=asked == "next_move") as app:
        app._pipes.write(b"\n")
        assert heard() == b"here\n"
        getattr(app, asked)()
    assert heard() == b""  # nobody holds the other end any more
    os.close(end)


def test_moves_without_end_are_one_line():
    moves = "\n".join(250 * [json.dumps(true_answers()["MOVED"] | {"observation": {}})])
    many = pytest.raises(AppError, match="answers getValidActions with 200 moves and more")
    with many, scripted(moves, person=True) as app:
        app.valid_actions()


def test_a_game_is_kept_as_far_as_it_went(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "app"
    begun, legal, moved = (true_answers()[name] for name in ("BEGUN", "LEGAL", "MOVED"))
    lines = [json.dumps(each) for each in (begun, legal, moved, legal, moved | {"reward": np.nan})]
    file.write_text(
        f"#!{sys.executable}\nimport sys\nfor line in {lines!r}:\n"
        "    sys.stdin.readline()\n    print(line, flush=True)\n"
    )
    file.chmod(0o755)
    record = tmp_path / "game.json"
    with pytest.raises(ConfigError, match=r"answer\.reward is nan; expected a number"):
        main(["play-app", "random", "--app", "./app", "--save", str(record)], standalone_mode=False)
    content = json.loads(record.read_text())
    assert content["start"] == begun | legal
    (move,) = content["moves"]
    assert (move["answer"], move["validActions"]) == (moved, legal["validActions"])
    page = tmp_path / "game.html"
    main(["replay", str(record), "--html", str(page)], standalone_mode=False)
    assert "As it was seen: random: 1 moves" in capsys.readouterr().out
    for flags in (["--move", "1"], ["--agent", "runner"], ["--save", str(tmp_path / "x.json")]):
        with pytest.raises(ConfigError, match=f"^{flags[0]} .* is a record of another program"):
            main(["replay", str(record), *flags], standalone_mode=False)
    for moves, said in (
        ([move | {"action": 28}], r"record\.moves\[0\]\.action is 28"),
        ([{}] * 20_001, r"record\.moves has 20,001 moves"),
    ):
        record.write_text(json.dumps(content | {"moves": moves}))
        with pytest.raises(ConfigError, match=said):
            main(["replay", str(record)], standalone_mode=False)


def test_states_for_searches_look_like_the_true_one_and_have_its_history():
    environment = HackMatrix(observation="tactical")
    server, game = Server(12), SeenGame(GameConfig())
    rng, observe = np.random.default_rng(0), jax.jit(environment.observe)
    game.begin(server.answer({"action": "reset"})["observation"])
    for _ in range(25):
        true, guess = observe(server.engine.state), observe(game.state)
        np.testing.assert_array_equal(guess.numbers, true.numbers)
        np.testing.assert_array_equal(guess.memory, true.memory)
        for name in ("content", "value", "enemy", "enemy_hp", "transmission", "spawn_count"):
            np.testing.assert_array_equal(guess.plane(name), true.plane(name), name)
        legal = server.answer({"action": "getValidActions"})["validActions"]
        action = int(rng.choice(legal))
        answer = server.answer({"action": "step", "actionIndex": action})
        game.follow(action, answer)
        if game.end is not None:
            break
    assert len(to_arrays(game.state)["cells"]) == 36


def test_a_person_is_advised_and_their_moves_are_recognised(program, tmp_path, capsys):
    app, log, record = (tmp_path / name for name in ("app", "log", "game.json"))
    command = [sys.executable, person.__file__, str(log), str(program), "--seed", "4"]
    app.write_text(f"#!{sys.executable}\nimport os\nos.execv({sys.executable!r}, {command!r})\n")
    app.chmod(0o755)
    flags = ["--app", str(app), "--coach", "--save", str(record)]
    main(["play-app", "runner", *flags], standalone_mode=False)
    content = json.loads(record.read_text())
    played = [int(line) for line in log.read_text().splitlines()]
    assert [move["action"] for move in content["moves"]] == played
    assert content["player"] == "a person, coached by runner"
    assert content["end"] == "died"
    *told, last = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in told] == [
        f"move {n + 1}" for n in range(len(played))
    ]
    assert {line.partition(": ")[2] for line in told} <= {each.name for each in Action}
    assert last.startswith(f"a person, coached by runner: {len(played)} moves")


def test_there_is_no_advice_for_a_position_that_the_person_has_left():
    moved, legal = (json.dumps(true_answers()[name]) for name in ("MOVED", "LEGAL"))
    game, told = SeenGame(GameConfig()), []
    died = pytest.raises(AppError, match="ended at getValidActions, with exit status 3")
    with died, scripted("BEGUN", f"{moved}\n{legal}", "die", person=True) as app:
        key = jax.random.key(0)
        coach(app, RandomAgent(), HackMatrix(), game, key=key, tell=told.append)
    assert told == []
    assert [moment.action for moment in game.moments[1:]] == [
        true_answers()["LEGAL"]["validActions"][0]
    ]


def test_an_app_that_ends_while_the_person_plays_is_one_line():
    game, told = SeenGame(GameConfig()), []
    with scripted("BEGUN", "LEGAL", person=True) as app:
        key = jax.random.key(0)
        with pytest.raises(AppError, match="ended at a person's move, with exit status 0"):
            coach(app, RandomAgent(), HackMatrix(), game, key=key, tell=told.append)
    assert len(told) == 1


def test_an_advice_has_the_likeliest_actions_of_the_legal_ones():
    mask = np.zeros(28, bool)
    mask[[0, 4]] = True
    chances = np.zeros(28)
    chances[[0, 4]] = 0.25, 0.75
    assert advice(Action.UP, Thought(probabilities=chances), mask) == "SIPHON 75%, UP 25%"
    assert advice(Action.UP, Thought(), mask) == "UP"


def test_with_a_coach_nobody_waits_before_a_move():
    flags = ["--app", "app", "--coach", "--pause", "1"]
    with pytest.raises(ConfigError, match="--pause 1: with --coach you move when you like"):
        main(["play-app", "runner", *flags], standalone_mode=False)


@pytest.mark.nightly
def test_moves_that_the_app_does_not_name_are_recognised_and_the_position_is_known():
    server, tries, rng = Server(3), Engine(0), np.random.default_rng(0)
    tries.begin()
    observe = jax.jit(HackMatrix(observation="tactical").observe)
    right, known = [], []
    for _ in range(12):
        game = SeenGame(GameConfig())
        game.begin(server.answer({"action": "reset"})["observation"])
        while game.end is None and len(game.moments) <= 60:
            legal = server.answer({"action": "getValidActions"})["validActions"]
            rare = [each for each in legal if each >= Action.SIPHON]
            action = int(rng.choice(rare if rare and rng.random() < 0.3 else legal))
            answer = server.answer({"action": "step", "actionIndex": action})
            found = recognised(tries, game.state, Step.from_answer(answer))
            right.append(found == action)
            game.follow(found, answer)
            true, tracked = observe(server.engine.state), game.tracker.observation()
            known.append(bool((np.asarray(true.memory) == np.asarray(tracked.memory)).all()))
    assert len(right) > 300
    assert np.mean(right) > 0.98
    assert np.mean(known) > 0.98


@pytest.mark.nightly
def test_a_player_that_tries_moves_out_plays_an_app(program):
    game = SeenGame(GameConfig())
    with App([str(program), "--headless-cli", "--seed", "2"], patience=240.0) as app:
        key = env_keys(jax.random.key(2), 1)[0]
        play_app(app, Expert(GameConfig()), HackMatrix(), game, key=key)
    assert game.end in ("died", "won")
    assert len(game.moments) > 20
