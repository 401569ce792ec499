"""The answers of the protocol's server, request by request, in this process."""

import itertools
import json

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hackmatrix_rl.env import compact_observation
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, TERM_NAMES
from hackmatrix_rl.interop.protocol import BREAKDOWN, Server, seen_of
from hackmatrix_rl.view.replays import Match

pytestmark = pytest.mark.processes

ERRORS = {
    b"": "Invalid command",
    b"nonsense": "Invalid command",
    b"[]": "Invalid command",
    b"17": "Invalid command",
    b"{}": "Invalid command",
    b'{"action": 3}': "Invalid command",
    b"\xff\xfe{": "Invalid command",
    b"[" * 100_000: "Invalid command",
    b'{"action": "fly"}': "Unknown command: fly",
    b'{"action": "step"}': "Missing actionIndex",
    b'{"action": "step", "actionIndex": "3"}': "Missing actionIndex",
    b'{"action": "step", "actionIndex": true}': "Missing actionIndex",
    b'{"action": "step", "actionIndex": 1.5}': "Missing actionIndex",
    b'{"action": "setState"}': "Missing state data for setState command",
    b'{"action": "setState", "state": []}': "Missing state data for setState command",
}


@pytest.fixture(scope="module")
def server():
    return Server(3)


def ask(server, action, **more):
    """The answer to a request, through JSON."""
    line = json.dumps({"action": action, **more}).encode()
    return json.loads(json.dumps(server.answer_line(line)))


@pytest.mark.parametrize("line", ERRORS, ids=lambda line: line.decode(errors="replace")[:40])
def test_what_is_no_request_is_answered_as_the_original_does(server, line):
    assert server.answer_line(line) == {"error": ERRORS[line]}


def test_what_is_nested_too_deeply_to_be_shown_is_no_request(server):
    for depth in range(900, 1000):  # the limits of reading and of showing it lie close together
        nested = b'{"action": "setState", "state": {"player": %b%b}}' % (b"[" * depth, b"]" * depth)
        assert server.answer_line(nested) == {"error": "Invalid command"}


def test_the_spaces_are_those_that_clients_expect(server):
    assert ask(server, "getActionSpace") == {"actionSpaceSize": 28}
    stale = {"gridSize": 6, "playerFeatures": 9, "cellFeatures": 20}
    assert ask(server, "getObservationSpace") == stale


def test_a_request_before_the_first_reset_begins_the_first_game():
    server = Server(8)
    legal = ask(server, "getValidActions")["validActions"]
    assert legal == np.flatnonzero(Match.start(8).now.mask).tolist()
    assert ask(server, "reset")["observation"] != ask(server, "reset")["observation"]


@pytest.mark.parametrize("index", [-1, 28, 10**30, -(10**30)])
def test_a_number_that_is_no_action_ends_the_episode_and_changes_nothing(server, index):
    before = ask(server, "reset")["observation"]
    answer = ask(server, "step", actionIndex=index)
    breakdown = dict.fromkeys(BREAKDOWN, 0.0)
    info = {"invalid_action": True, "stage_complete": False, "death": False}
    assert answer == {
        "observation": before,
        "reward": 0.0,
        "done": True,
        "info": info | {"reward_breakdown": breakdown},
    }


def test_the_breakdown_names_each_term_of_the_reward_but_the_step_penalty():
    assert len(BREAKDOWN) == 14
    assert [*BREAKDOWN.values()] == [name for name in TERM_NAMES if name != "step_penalty"]


def compared(server, seed, steps, rng):
    """Plays games at random, each beside the game of the environment with the same seed."""
    game, match, ends = 0, Match.start(seed), 0
    assert_shown(ask(server, "reset")["observation"], match)
    for _ in range(steps):
        legal = ask(server, "getValidActions")["validActions"]
        assert legal == np.flatnonzero(match.now.mask).tolist()
        # Programs are rare: half of the choices are among the last third of the actions.
        some = legal[-(len(legal) + 2) // 3 :] if rng.random() < 0.5 else legal
        action = int(rng.choice(some)) if legal else 0
        answer, moment = ask(server, "step", actionIndex=action), match.play(action)
        assert_shown(answer["observation"], match)
        assert answer["reward"] == pytest.approx(moment.reward, abs=1e-5)
        assert answer["done"] == (moment.end is not None)
        info = answer["info"]
        assert info["death"] == (moment.end == "died")
        told = {BREAKDOWN[name]: value for name, value in info["reward_breakdown"].items()}
        assert told | {"step_penalty": moment.terms["step_penalty"]} == moment.terms
        internal = ask(server, "getInternalState")
        position = moment.state.position
        assert internal["nextScheduledTaskTurn"] == position.next_scheduled_task_turn
        assert internal["scheduledTaskInterval"] == position.scheduled_task_interval
        assert internal["turnCount"] == position.turn
        assert len(internal["enemies"]) == position.enemies.count
        if answer["done"]:
            game, ends = game + 1, ends + 1
            match = Match.start(seed, game=game)
            assert_shown(ask(server, "reset")["observation"], match)
    return ends


screen = jax.jit(compact_observation)


def assert_shown(observation, match):
    """An observation is what the screen shows of a position, and says so in the protocol's way."""
    expected, shown = screen(match.now.state.position), seen_of(observation)
    np.testing.assert_array_equal(shown.numbers, expected.numbers)
    np.testing.assert_array_equal(shown.programs, expected.programs)
    np.testing.assert_array_equal(shown.grid, expected.grid)
    frame = match.now.frame.seen()
    assert (observation["playerHP"], observation["score"]) == (frame.hp, frame.score)
    for cell, seen in enumerate(itertools.chain(*observation["cells"])):
        coming = [each for each in frame.transmissions if each.cell == cell and each.visible]
        told = [each.turns_remaining for each in coming]
        assert told == [each["turnsUntilSpawn"] for each in [seen.get("transmission")] if each]


@pytest.mark.parametrize("steps", [200, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_the_answers_are_those_of_the_environment(steps):
    assert compared(Server(11), 11, steps, np.random.default_rng(0)) > 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
COMMANDS = st.sampled_from(["reset", "step", "setState", "getInternalState", "x"])
FIELDS = st.sampled_from(["row", "col", "hp", "type", "points", "credits", "turnsRemaining"])
THINGS = st.dictionaries(FIELDS, st.integers(-1, 9) | st.just("data") | JSON, max_size=5)
STATES = st.fixed_dictionaries(
    {"player": st.fixed_dictionaries({"row": st.integers(-1, 6), "col": st.integers(-1, 6)})},
    optional={
        "enemies": st.lists(THINGS, max_size=3),
        "blocks": st.lists(THINGS, max_size=3),
        "transmissions": st.lists(THINGS, max_size=3) | JSON,
        "resources": st.lists(THINGS, max_size=3),
        "stage": st.integers(-1, 12) | JSON,
        "turn": st.integers(-(2**40), 2**40),
        "ownedPrograms": st.lists(st.integers(0, 30)) | JSON,
    },
)
REQUESTS = st.fixed_dictionaries(
    {"action": COMMANDS | JSON},
    optional={"actionIndex": st.integers(-2, NUM_ACTIONS + 1) | JSON, "state": STATES | JSON},
)


@settings(max_examples=150, deadline=None)
@given(line=st.binary(max_size=60) | REQUESTS.map(lambda made: json.dumps(made).encode()))
def test_nothing_that_a_line_holds_ends_the_server(server, line):
    answer = server.answer_line(line)
    json.dumps(answer)
    assert {"error", "observation", "validActions"} & answer.keys() or "turnCount" in answer
    assert "\n" not in json.dumps(answer)
    assert len(ask(server, "reset")["observation"]["cells"]) == 6
