"""The tests of Q-learning notice a line that is slightly wrong.

Each mutant replaces one function of the package, and tests that are there anyway must fail then.
"""

import jax
import jax.numpy as jnp
import pytest

from hackmatrix_rl.algorithms.r2d2 import _learning, _r2d2
from hackmatrix_rl.algorithms.r2d2._acting import NewSteps

from . import test_parts, test_r2d2

pytestmark = [pytest.mark.search, pytest.mark.usefixtures("nothing_compiled"), pytest.mark.nightly]


@pytest.fixture
def nothing_compiled():
    """A program that is compiled already does not have the mutant, and one with it must not stay.

    Files of compiled programs may: a mutant's program is another one.
    """
    jax.clear_caches()
    yield
    jax.clear_caches()


def ends_at_limits(n_step_returns):
    """A limit counts as an end by the rules."""
    return lambda reward, terminated, truncated, *rest, **sizes: n_step_returns(
        reward, terminated | truncated, truncated, *rest, **sizes
    )


def leaks_at_limits(n_step_returns):
    """A limit counts as nothing: the value is that of the next episode."""
    return lambda reward, terminated, truncated, *rest, **sizes: n_step_returns(
        reward, terminated, jnp.zeros_like(truncated), *rest, **sizes
    )


def never_ends(n_step_returns):
    """An end by the rules counts as nothing."""
    return lambda reward, terminated, *rest, **sizes: n_step_returns(
        reward, jnp.zeros_like(terminated), *rest, **sizes
    )


def illegal_too(double_q):
    """The maximum is over all actions."""
    return lambda online, target, mask, scale: double_q(online, target, jnp.ones_like(mask), scale)


def no_burn_in(memory_after):
    """The memory is the one that was stored."""
    return lambda network, observation, carry, done: carry


def one_memory(memory_after):
    """The target network looks with the memory that the other network makes."""
    asked = []

    def mutant(network, *steps):
        asked.append(network)
        first = asked[(len(asked) - 1) // 2 * 2]
        return memory_after(first, *steps)

    return mutant


def judges_itself(errors):
    """The target network is the network itself."""
    return lambda loss, policy, target, *rest: errors(loss, policy, policy, *rest)


def always_synced(sync_target):
    """The target network is synced in every gradient step."""
    return lambda target, policy, due: sync_target(target, policy, jnp.ones_like(due))


def memory_after_the_steps(new_steps):
    """The memory in the buffer is that after the steps, not before them."""
    return lambda memory, collector, *rest: NewSteps(collector.carry, collector, *rest)


def not_written(with_priorities):
    """New priorities are forgotten."""
    return lambda priority, *others: priority


def trained(test):
    """The test, with a trainer of its own."""
    return lambda: test(test_r2d2.one_step())


CHECKS = {
    "loss": lambda: test_parts.test_the_loss_is_that_of_plain_python(0),
    "loss after burn-in": lambda: test_parts.test_the_loss_is_that_of_plain_python(2),
    "burn-in": test_parts.test_burn_in_makes_the_memory_and_no_gradient_goes_through_it,
    "target": trained(test_r2d2.test_the_target_network_is_what_the_network_was),
    "priorities": trained(test_r2d2.test_priorities_follow_the_errors_of_what_was_drawn),
    "memory": trained(test_r2d2.test_the_memory_is_stored_that_the_network_had_before_the_steps),
}
MUTANTS = {
    "no value beyond a limit": (_learning, "n_step_returns", ends_at_limits, "loss"),
    "a value of the next episode": (_learning, "n_step_returns", leaks_at_limits, "loss"),
    "a value beyond an end": (_learning, "n_step_returns", never_ends, "loss"),
    "illegal actions in the maximum": (_learning, "double_q", illegal_too, "loss"),
    "no burn-in": (_learning, "memory_after", no_burn_in, "burn-in"),
    "one memory for both networks": (_learning, "memory_after", one_memory, "loss after burn-in"),
    "no target network": (_learning.SequenceLoss, "errors", judges_itself, "loss"),
    "a target that does not stay": (_learning, "sync_target", always_synced, "target"),
    "priorities that are not written": (_learning, "with_priorities", not_written, "priorities"),
    "a memory of another time": (_r2d2, "NewSteps", memory_after_the_steps, "memory"),
}
for owner, name, *_ in MUTANTS.values():
    getattr(owner, name)  # a renamed function fails here, in each session, not only at night


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(monkeypatch, name):
    owner, function, mutate, check = MUTANTS[name]
    monkeypatch.setattr(owner, function, mutate(getattr(owner, function)))
    with pytest.raises(AssertionError):
        CHECKS[check]()


@pytest.mark.parametrize("check", CHECKS)
def test_without_a_mutant_the_same_checks_pass(check):
    """So that they fail for the mutant, and not for how they are called here."""
    CHECKS[check]()
