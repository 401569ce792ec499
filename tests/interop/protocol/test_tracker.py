"""The tracker sees, through the protocol's JSON, what `tactical` sees of the true position."""

import json
from collections import deque

import jax
import numpy as np
import pytest
from play_exported import Eyes

from hackmatrix_rl.env import CELL, HackMatrix, Memory
from hackmatrix_rl.games.hackmatrix import Action, Content, GameConfig, Program, to_arrays
from hackmatrix_rl.interop.protocol import Server, Step, Tracker, seen_of

pytestmark = pytest.mark.processes

LEAGUES = [GameConfig(), GameConfig.of_league("no-rewind")]


class Beside:
    """A tracker, and the eyes of the example, beside a server, compared at every step."""

    def __init__(self, config, seed):
        self.server = Server(seed, config)
        self.tracker = Tracker(
            history=config.history, rewind_across_stages=config.rewind_across_stages
        )
        environment = HackMatrix(config, observation="tactical")
        self.true = jax.jit(environment.observe)
        self.seen = set()
        contract = {"observation": {"cell": {name: field.shift for name, field in CELL.items()}}}
        contract |= {"actions": {"names": [each.name for each in Action]}, "league": config.league}
        self.eyes = Eyes(contract)
        self.eyes.past = deque(maxlen=config.history)

    def ask(self, action, **more):
        return json.loads(json.dumps(self.server.answer({"action": action, **more})))

    def begin(self):
        self.look(self.ask("reset"))
        self.compare()

    def look(self, answer):
        """A game begins with this answer."""
        self.tracker.begin(seen_of(answer["observation"]))
        self.eyes.begin(answer["observation"])

    def enrich(self, rng):
        """Gives the player of a new game all programs, and more than they cost."""
        self.put(resources=rng.integers(3, 60, 3))

    def put(self, cells=None, cell=None, resources=(90, 90, 90)):
        """Begins anew from the position, with all programs and perhaps another board."""
        arrays = to_arrays(self.server.engine.state)
        arrays["owned"][:] = 1
        arrays["player"][3:6] = resources
        if cells is not None:
            cells[35, 0] = Content.EXIT
            arrays["cells"] = cells
            arrays["game"][2:4] = 5, 5
            arrays["player"][:2] = divmod(cell, 6)
            arrays["num_transmissions"] = 0 * arrays["num_transmissions"]
        self.server.engine.put(arrays)
        self.look(self.ask("step", actionIndex=-1))
        self.compare()

    def step(self, action):
        answer = self.ask("step", actionIndex=int(action))
        step = Step.from_answer(answer)
        self.tracker.follow(int(action), step)
        self.eyes.follow(int(action), answer)
        self.compare()
        return step

    def compare(self):
        expected, found = self.true(self.server.engine.state), self.tracker.observation()
        without_package = self.eyes.observation()
        for name in ("numbers", "programs", "grid", "memory"):
            right = getattr(expected, name)
            np.testing.assert_array_equal(getattr(found, name), right, name)
            np.testing.assert_array_equal(without_package[name], right[None], name)
        internal = self.ask("getInternalState")
        assert internal["scheduledTaskInterval"] == self.tracker.interval
        assert internal["nextScheduledTaskTurn"] == self.tracker.next_task
        assert internal["pendingSiphonTransmissions"] == self.tracker.pending
        self.seen |= {each for each in Memory if found.memory[each]}

    def play(self, rng, moves):
        """A game at random, which prefers what matters to the tracker."""
        for _ in range(moves):
            legal = self.ask("getValidActions")["validActions"]
            wanted = [each for each in legal if each in (4, 10, 14, 15, 25, 26)]
            choices = wanted if wanted and rng.random() < 0.4 else legal
            if not choices or self.step(rng.choice(choices)).done:
                break


def play_beside(config, *, seed, games, moves):
    """Games at random, three of four of them with all programs; what was seen in them."""
    rng = np.random.default_rng(seed)
    beside = Beside(config, seed=seed)
    for game in range(games):
        beside.begin()
        if game % 4:
            beside.enrich(rng)
        beside.play(rng, moves)
    return beside.seen


@pytest.mark.parametrize("config", LEAGUES, ids=lambda config: config.league)
def test_the_tracked_observation_is_the_true_one_at_every_step(config):
    assert play_beside(config, seed=8, games=8, moves=60) == set(Memory)


@pytest.mark.statistical  # half an hour
@pytest.mark.parametrize("config", LEAGUES, ids=lambda config: config.league)
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_games_are_tracked_to_their_end(config, part):
    assert play_beside(config, seed=100 + part, games=250, moves=1000) == set(Memory)


def on_board(cells, cell, config=None):
    """A game that begins on a cell of a board with these contents, with all programs."""
    beside = Beside(config or GameConfig(), seed=2)
    beside.begin()
    board = np.zeros((36, 7), np.int8)
    for place, content in cells.items():
        board[place, : len(content)] = content
    beside.put(cells=board, cell=cell)
    return beside


def test_what_a_siphon_calls_while_step_is_active_is_known_of_question_blocks_too():
    cells = {14: (Content.HIDDEN_DATA, 6, 6), 2: (Content.HIDDEN_PROGRAM, Program.STEP, 4)}
    cells |= {9: (Content.DATA, 1, 1), 7: (Content.HIDDEN_DATA, 1, 1)}
    beside = on_board(cells, 8)
    for action in (Action.REDUC, Action.REDUC, Action.STEP, Action.SIPHON):
        beside.step(action)
    assert beside.tracker.pending == 4 + 2
    beside.step(Action.UNDO)
    beside.step(Action.WAIT)
    assert beside.tracker.pending == 0


def test_a_block_that_was_siphoned_calls_nothing_again():
    # No play leaves a spawn count there, but `setState` does, and another program may.
    siphoned = (Content.PROGRAM, Program.STEP, 4, 0, 0, True)
    beside = on_board({14: (Content.DATA, 6, 6), 2: siphoned}, 8)
    for _ in range(2):
        beside.step(Action.STEP)
        beside.step(Action.SIPHON)
        assert beside.tracker.pending == 6


@pytest.mark.parametrize("config", LEAGUES, ids=lambda config: config.league)
def test_a_new_stage_begins_anew_and_undo_may_reach_behind_it(config):
    beside = on_board({0: (Content.DATA, 1, 1)}, 34, config)
    for action in (Action.CALM, Action.ATK_PLUS, Action.REDUC, Action.WAIT, Action.ATK_PLUS):
        beside.step(action)
    beside.step(Action.STEP)
    assert beside.tracker.step_active
    assert beside.step(Action.RIGHT).completed
    tracker = beside.tracker
    assert (tracker.step_active, tracker.attack_uses, tracker.reductions) == (False, 0, 0)
    assert len(tracker.snapshots) == config.rewind_across_stages
    if config.rewind_across_stages:
        beside.step(Action.UNDO)
        assert (tracker.attack_uses, tracker.reductions) == (1, 1)


def test_no_scheduled_task_comes_while_calm_is_active():
    beside = on_board({}, 0)
    for action in (Action.CALM, *[Action.WAIT] * 13):
        beside.step(action)
    assert beside.tracker.next_task == 12


def test_the_interval_of_scheduled_tasks_has_a_least_value():
    beside = on_board({}, 0)
    for _ in range(10):
        beside.step(Action.SIPHON)
    assert beside.tracker.interval == 4


def test_an_illegal_action_is_nothing_to_remember():
    beside = Beside(GameConfig(), seed=1)
    beside.begin()
    assert not beside.step(27).legal
    beside.compare()
