"""The plan of a run that is not done."""

import itertools

import jax
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.ppo import PPO, PPOConfig
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs import _plan, make_plan
from hackmatrix_rl.system import memory_limit
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Trainer

SIZES = {"num_envs": 32, "num_steps": 16, "num_minibatches": 2, "update_epochs": 3}
SETTINGS = {**SIZES, "mesh": "data=2,fsdp=2"}
WEIGHTS = 4 * 64 + 64 + 64 * 64 + 64 + 64 * 2 + 2 + 64 + 1


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    environment = CartPole()
    policy = hm.MLPActorCritic(environment.spec, width=64, key=jax.random.key(0))
    return Trainer(PPO(environment, policy, **SETTINGS))


@pytest.fixture(scope="module")
def plan(trainer):
    config = PPOConfig(**SETTINGS, total_timesteps=1000, network="mlp")
    return make_plan(config, trainer, clock=itertools.count(0, 3).__next__)


def test_it_says_what_the_run_is_made_of(plan):
    rows = dict(line.strip().split("  ", 1) for line in plan.lines())
    assert rows["mesh"] == "data=2,fsdp=2: 4 x cpu"
    assert rows["games"].startswith("32, 8 on each device; 16 steps")
    assert rows["observation"] == "float32[4]"
    assert rows["minibatches"] == "2 of 16 games x 16 steps, 4 games on each device; 3 epochs"
    assert rows["network"] == f"mlp, {WEIGHTS:,} parameters, f32"
    assert rows["steps"] == "1,024 in 2 updates of 512; 12 gradient steps"
    assert rows["schedule"] == "learning rate 0.001 falling to 0 over 1,024 steps"
    assert rows["compiled"] == "in 3.0 s"


def test_it_counts_the_memory_of_one_device(plan):
    # Parameters and both moments, of which the 64 x 64 weights are cut in two.
    floats = 3 * (WEIGHTS - 64 * 64 // 2)
    assert plan.learner_bytes == pytest.approx(4 * floats, abs=100)
    # Of 8 games: physics, length, observation, mask, key; and the number of steps.
    assert plan.games_bytes == 8 * (4 * 4 + 4 + 4 * 4 + 2 + 8) + 4
    assert plan.program_bytes > plan.learner_bytes + plan.games_bytes
    assert "on each device: learner" in "\n".join(plan.lines())


def test_it_tells_what_is_sent_in_an_update_and_nothing_was_started(plan, trainer):
    sent = sum(each.sent_bytes for each in plan.sent)
    # In each of 6 gradient steps the gradient is added up: 2 x 3/4 of its bytes on a ring of 4.
    # The cut weights are gathered 7 times, half of them from the other device.
    expected = 6 * 1.5 * 4 * WEIGHTS + 7 * 0.5 * 4 * 64 * 64
    assert sent == pytest.approx(expected, rel=0.01)
    with pytest.raises(ValueError, match="training has not started"):
        _ = trainer.state


def test_a_trainer_without_settings_has_the_same_plan(plan, trainer):
    composed = hm.plan(trainer)
    assert f"{composed}".splitlines() == composed.lines()
    ours, theirs = ({line.split()[0]: line for line in each.lines()} for each in (composed, plan))
    for topic in ("mesh", "observation", "memory", "communication"):
        assert ours[topic] == theirs[topic]
    assert ours["steps"].endswith("  512 in an update")
    assert ours["network"].endswith(f"  MLPActorCritic, {WEIGHTS:,} parameters")


def test_a_trainer_that_does_not_fit_is_refused(trainer, monkeypatch):
    monkeypatch.setattr(_plan, "memory_limit", lambda device: 1000)
    with pytest.raises(ConfigError, match=r"does not fit: a device needs .* of 1000 bytes. Use fe"):
        hm.plan(trainer)
    with pytest.raises(TypeError, match="trainer"):
        hm.plan(trainer.algorithm)


class Elsewhere:
    """A device of another process, or the description of one."""

    def __init__(self, kind):
        self.device_kind = kind

    def memory_stats(self):
        raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: only for addressable devices")


def test_the_memory_of_a_device_that_is_not_here_is_known_by_its_kind():
    assert memory_limit(Elsewhere("TPU v4")) == 32 * 2**30
    assert memory_limit(Elsewhere("TPU v5 lite")) == 16 * 2**30
    assert memory_limit(Elsewhere("something else")) is None
    assert memory_limit(jax.devices("cpu")[0]) is None
