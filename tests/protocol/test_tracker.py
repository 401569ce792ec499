"""The tracker sees, through the protocol's JSON, what `tactical` sees of the true position."""

import json

import jax
import numpy as np
import pytest

from hackmatrix_rl.env import HackMatrix, Memory
from hackmatrix_rl.game import GameConfig, to_arrays
from hackmatrix_rl.protocol import Server, Step, Tracker, seen_of

LEAGUES = [GameConfig(), GameConfig.of_league("no-rewind")]


class Beside:
    """A tracker beside a server, compared at every step."""

    def __init__(self, config, seed):
        self.server = Server(seed, config)
        self.tracker = Tracker(
            history=config.history, rewind_across_stages=config.rewind_across_stages
        )
        environment = HackMatrix(config, observation="tactical")
        self.true = jax.jit(environment.observe)
        self.seen = set()

    def ask(self, action, **more):
        return json.loads(json.dumps(self.server.answer({"action": action, **more})))

    def begin(self):
        self.tracker.begin(seen_of(self.ask("reset")["observation"]))
        self.compare()

    def enrich(self, rng):
        """Gives the player of a new game all programs, and more than they cost."""
        arrays = to_arrays(self.server.engine.state)
        arrays["owned"][:] = 1
        arrays["player"][3:6] = rng.integers(3, 60, 3)
        self.server.engine.put(arrays)
        self.tracker.begin(seen_of(self.ask("step", actionIndex=-1)["observation"]))
        self.compare()

    def step(self, action):
        step = Step.of(self.ask("step", actionIndex=int(action)))
        self.tracker.follow(int(action), step)
        self.compare()
        return step

    def compare(self):
        expected, found = self.true(self.server.engine.state), self.tracker.observation()
        for name in ("numbers", "programs", "grid", "memory"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
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


@pytest.mark.parametrize("config", LEAGUES, ids=lambda config: config.league)
@pytest.mark.parametrize("games", [8, pytest.param(400, marks=pytest.mark.nightly)])
def test_the_tracked_observation_is_the_true_one_at_every_step(config, games):
    rng = np.random.default_rng(games)
    beside = Beside(config, seed=5)
    for game in range(games):
        beside.begin()
        if game % 4:
            beside.enrich(rng)
        beside.play(rng, moves=60)
    assert beside.seen == set(Memory)


def test_an_illegal_action_is_nothing_to_remember():
    beside = Beside(GameConfig(), seed=1)
    beside.begin()
    assert not beside.step(27).legal
    beside.compare()
