"""Looking for what went wrong: checks inside of the program, or no program at all.

`jax_debug_nans` is of no use here: it looks at what a compiled program returns, which is a
whole dispatch later, and then computes that again, from a state that was given away. So the
checks are put into the program, around the modules that it is made of.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
from jax.experimental import checkify
from jaxtyping import Array, Bool, Float, Float32, PyTree

from hackmatrix_rl.agent import (
    IDENTITY_SCALE,
    AdvantageEstimator,
    Batch,
    LossMetrics,
    Rollout,
    Targets,
    ValueScale,
)
from hackmatrix_rl.agent.networks import (
    ActorCritic,
    Evaluator,
    TrunkEvaluator,
    evaluator_of,
    plain_evaluator,
)
from hackmatrix_rl.agent.precision import path_name
from hackmatrix_rl.training._gradients import (
    Loss,
    PreparedLoss,
)
from hackmatrix_rl.training._trainer import Trainer

NANS, CHECKS, NOJIT = "nans", "checks", "nojit"
COLLECTED, IN_LOSS, IN_GRADIENT = "collected", "loss", "gradient"

_ERRORS = {
    NANS: checkify.nan_checks,
    CHECKS: checkify.nan_checks | checkify.div_checks | checkify.index_checks,
}

# Whose lines say nothing about the network or the loss.
_LIBRARIES = (
    "<",
    __file__,
    *(os.path.dirname(str(module.__file__)) for module in (jax, eqx, jaxtyping)),
)


class Reports:
    """What the checks of a program found, on the host: the first few of each part.

    Args:
        room: lines that are kept of each part of an update.
    """

    def __init__(self, room: int = 6) -> None:
        self._room = room
        # In the order in which one leads to the next, whichever arrives first.
        self._found: dict[str, list[str]] = {COLLECTED: [], IN_LOSS: [], IN_GRADIENT: []}

    def add(self, part: str, message: str) -> None:
        """Takes a line about a part of an update; one that is there already only once."""
        found = self._found[part]
        if message not in found and len(found) < self._room:
            found.append(message)

    def take(self) -> list[str]:
        """What was found since the last call, once everything that was begun is done."""
        jax.effects_barrier()
        found = [message for messages in self._found.values() for message in messages]
        for messages in self._found.values():
            messages.clear()
        return found


class CheckedLoss(eqx.Module):
    """A loss that reports where its first NaN comes from, and which gradients hold one.

    Attributes:
        loss: to check.
        kind: `nans`; or `checks` for divisions by zero and indices out of bounds too.
        reports: takes what was found.
    """

    loss: Loss
    kind: str = eqx.field(static=True)
    reports: Reports = eqx.field(static=True)

    @property
    def auxiliary(self) -> Any:
        """The auxiliary part of the loss, if it has one."""
        return getattr(self.loss, "auxiliary", None)

    @property
    def needs_old_log_probs(self) -> bool:
        """Whether the loss asks for the log-probabilities of all actions."""
        return bool(getattr(self.loss, "needs_old_log_probs", False))

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: Batch
    ) -> tuple[Float32[Array, ""], LossMetrics]:
        """The loss as it is."""
        policy = _watch_gradients(_checkable(evaluator_of(policy)), self.reports)
        arrays, code = eqx.partition((self.loss, policy, batch), eqx.is_array)

        def plain(arrays: Any) -> Any:
            loss, policy, batch = eqx.combine(arrays, code)
            return loss(policy, batch)

        error, found = checkify.checkify(plain, errors=_ERRORS[self.kind])(arrays)
        leaves, structure = jax.tree.flatten(error)

        def tell(*leaves: Any) -> None:
            found = jax.tree.unflatten(structure, leaves).get_exception()
            if found is not None:
                said = " ".join(str(found).split()).rstrip(".")
                self.reports.add(IN_LOSS, f"in the loss: {said}, {_place(found.traceback_info)}")

        jax.debug.callback(tell, *leaves)
        value, metrics = found
        return value, metrics


class CheckedPreparedLoss(CheckedLoss):
    """The same of a loss that sees a minibatch as a whole before it is cut."""

    def prepare(self, batch: Batch) -> tuple[CheckedLoss, Batch]:
        """What the loss does with a whole minibatch before it is cut."""
        assert isinstance(self.loss, PreparedLoss)
        loss, batch = self.loss.prepare(batch)
        return CheckedLoss(loss, self.kind, self.reports), batch


class CheckedEstimator(AdvantageEstimator):
    """An estimator of advantages that reports NaN in what it gets and in what it returns.

    Attributes:
        estimate: to check.
        reports: takes what was found.
    """

    estimate: AdvantageEstimator
    reports: Reports = eqx.field(static=True)

    def __call__(self, rollout: Rollout, value_scale: ValueScale = IDENTITY_SCALE) -> Targets:
        """The targets as they are."""
        targets = self.estimate(rollout, value_scale)
        for part in (rollout, targets, value_scale):
            _report_nans(part, type(part).__name__, self.reports)
        return targets


def checked(
    loss: Loss, estimate: AdvantageEstimator, kind: str
) -> tuple[CheckedLoss, CheckedEstimator]:
    """The modules with checks put around them, which share their reports.

    Args:
        loss: of the trainer.
        estimate: of the trainer's advantages.
        kind: `nans` or `checks`.
    """
    reports = Reports()
    around = CheckedPreparedLoss if isinstance(loss, PreparedLoss) else CheckedLoss
    return around(loss, kind, reports), CheckedEstimator(estimate, reports)


def reports_of(trainer: "Trainer[Any]") -> Reports | None:
    """Where a trainer's checks report to; `None` where it has none."""
    loss = getattr(trainer.algorithm, "loss", None)
    return loss.reports if isinstance(loss, CheckedLoss) else None


def _place(trace: Any) -> str:
    """Where an operation was asked for: the innermost lines that are not the libraries'."""
    lines = [
        f"{frame.file_name}:{frame.line_num} ({frame.function_name})"
        for frame in trace.frames
        if not frame.file_name.startswith(_LIBRARIES)
    ]
    return "at " + ", called from ".join(lines[:3])


def _report_nans(tree: PyTree, name: str, reports: Reports) -> None:
    for path, leaf in jax.tree.leaves_with_path(tree):
        if eqx.is_inexact_array(leaf):
            where = f"{name}{jax.tree_util.keystr(path)}"
            jax.debug.callback(
                partial(_tell_nan, reports, COLLECTED, where), jnp.any(jnp.isnan(leaf))
            )


def _tell_nan(reports: Reports, part: str, where: str, found: Bool[Any, ""]) -> None:
    if found:
        reports.add(part, f"NaN in {where}")


def _checkable(evaluator: Evaluator) -> Evaluator:
    """An evaluator of the same policy that checkify can check.

    It takes no gradient of a checked function that holds a custom rule of differentiation.
    """
    if not evaluator.custom_gradients:
        return evaluator
    plain = plain_evaluator(evaluator.policy)
    if isinstance(evaluator, TrunkEvaluator) and isinstance(plain, TrunkEvaluator):
        return replace(plain, auxiliary=evaluator.auxiliary)
    return plain


def _watch_gradients(evaluator: Evaluator, reports: Reports) -> Evaluator:
    """The evaluator itself; when it is differentiated, NaN in a gradient is reported by name."""

    def watch(path: Any, leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf):
            return leaf
        name = path_name(path).removeprefix(".policy")
        return _watched(f"the gradient of {name}", reports)(leaf)

    watched: Evaluator = jax.tree.map_with_path(watch, evaluator)
    return watched


def _watched(where: str, reports: Reports) -> Callable[[Float[Array, "..."]], Float[Array, "..."]]:
    @jax.custom_vjp
    def same(leaf: Array) -> Array:
        return leaf

    def forward(leaf: Array) -> tuple[Array, None]:
        return leaf, None

    def backward(_: None, gradient: Array) -> tuple[Array]:
        jax.debug.callback(
            partial(_tell_nan, reports, IN_GRADIENT, where), jnp.any(jnp.isnan(gradient))
        )
        return (gradient,)

    same.defvjp(forward, backward)
    return same
