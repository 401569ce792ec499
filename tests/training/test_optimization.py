"""How an algorithm optimizes: one argument, or its keywords, and never both."""

import inspect

import jax
import optax
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.training import Constant, OptimizationArguments
from training.states import assert_same

ENVIRONMENT = hm.CartPole()
POLICY = hm.MLPActorCritic(ENVIRONMENT.spec, width=4, key=jax.random.key(0))
SIZES = {"num_envs": 8, "num_steps": 4, "num_minibatches": 2}


def ppo(**given):
    return hm.PPO(ENVIRONMENT, POLICY, **SIZES, **given)


def test_one_argument_says_what_the_keywords_say():
    given = {"learning_rate": 0.01, "precision": "bf16", "grad_accum": 2, "ema": 0.9}
    algorithms = ppo(**given), ppo(optimization=hm.Optimization(**given))
    trainers = [hm.Trainer(each) for each in algorithms]
    for trainer in trainers:
        trainer.start(jax.random.key(1))
        trainer.dispatch(2)
    assert_same(trainers[0].state, trainers[1].state)
    assert trainers[1].state.learner.average is not None
    found = algorithms[1].optimization
    assert (found.learning_rate, found.grad_accum, found.ema) == (Constant(0.01), 2, 0.9)


def test_schedules_of_optax_are_functions_of_environment_steps():
    batch = SIZES["num_envs"] * SIZES["num_steps"]
    schedule = optax.linear_schedule(0.1, 0.0, 4 * batch)
    trainer = hm.Trainer(ppo(learning_rate=schedule))
    trainer.start(jax.random.key(1))
    rates = [float(trainer.dispatch(1).learning["learning_rate"]) for _ in range(3)]
    assert rates == pytest.approx([0.1, 0.075, 0.05])
    assert hm.Optimization(learning_rate=optax.constant_schedule(0.1)).learning_rate(0) == 0.1


def test_the_keywords_are_the_arguments():
    names = inspect.signature(hm.Optimization).parameters.keys()
    assert names == OptimizationArguments.__annotations__.keys()


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (
            {"optimization": hm.Optimization(), "ema": 0.9},
            ValueError,
            r"optimization and ema are both given.*hm\.Optimization\(ema=\.\.\.\)",
        ),
        ({"optimization": optax.adam(1e-3)}, TypeError, "expected .*hm.Optimization"),
        ({"learning_rte": 1e-3}, TypeError, "learning_rte.*Did you mean learning_rate?"),
        ({"num_env": 8}, TypeError, r"PPO\(\) got an .*num_env.*Did you mean num_envs?"),
        ({"grad_accum": 0}, ValueError, "grad_accum"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given, error, said):
    with pytest.raises(error, match=said):
        ppo(**given)
