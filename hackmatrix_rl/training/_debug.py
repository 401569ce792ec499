"""`--debug`: checks inside the compiled program, around the loss and the advantage estimator.

`jax_debug_nans` does not work here. It checks the result of a compiled program, a full dispatch,
and then repeats the computation from the previous state, which was donated.
"""

import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
from jax.experimental import checkify
from jaxtyping import Array, Bool, Float32

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
    evaluator_of,
    without_custom_gradients,
)
from hackmatrix_rl.agent.precision import path_name
from hackmatrix_rl.training._algorithm import Algorithm
from hackmatrix_rl.training._mean_gradient import Loss, PreparedLoss

NANS, CHECKS, NOJIT = "nans", "checks", "nojit"
COLLECTED, IN_LOSS, IN_GRADIENT = "collected", "loss", "gradient"

_ERRORS = {
    NANS: checkify.nan_checks,
    CHECKS: checkify.nan_checks | checkify.div_checks | checkify.index_checks,
}

# Reports leave out lines of these files, which are not code of the network or the loss.
_LIBRARIES = (
    "<",
    __file__,
    *(os.path.dirname(str(module.__file__)) for module in (jax, eqx, jaxtyping)),
)


class Reports:
    """The findings of the checks of a program, on the host: the first `room` of each part."""

    def __init__(self, room: int = 6) -> None:
        self._room = room
        # In causal order: findings may arrive in another order.
        self._found: dict[str, list[str]] = {COLLECTED: [], IN_LOSS: [], IN_GRADIENT: []}

    def add(self, part: str, message: str) -> None:
        """Adds a finding about a part of an update, unless it is already there."""
        found = self._found[part]
        if message not in found and len(found) < self._room:
            found.append(message)

    def take(self) -> list[str]:
        """Waits until the device has finished, and returns the findings since the last call."""
        jax.effects_barrier()
        found = [message for messages in self._found.values() for message in messages]
        for messages in self._found.values():
            messages.clear()
        return found


class CheckedLoss(eqx.Module):
    """A loss that reports the origin of its first NaN, and the gradients that contain NaN.

    `kind` is `nans`, or `checks` for divisions by zero and indices out of bounds as well.
    """

    loss: Loss
    kind: str = eqx.field(static=True)
    reports: Reports = eqx.field(static=True)

    @property
    def auxiliary(self) -> Any:
        """The auxiliary loss of the checked loss; `None` without one."""
        return getattr(self.loss, "auxiliary", None)

    @property
    def needs_old_log_probs(self) -> bool:
        """Whether the checked loss needs the log-probabilities of all actions."""
        return bool(getattr(self.loss, "needs_old_log_probs", False))

    @property
    def needs_teacher(self) -> bool:
        """Whether the checked loss needs the log-probabilities of a teacher."""
        return bool(getattr(self.loss, "needs_teacher", False))

    def __call__(
        self, policy: Evaluator | ActorCritic, batch: Batch
    ) -> tuple[Float32[Array, ""], LossMetrics]:
        """The value and the metrics of the checked loss, unchanged."""
        # Checkify cannot differentiate a function with a custom gradient.
        policy = _watch_gradients(without_custom_gradients(evaluator_of(policy)), self.reports)
        arrays, code = eqx.partition((self.loss, policy, batch), eqx.is_array)

        def plain(arrays: Any) -> Any:
            loss, policy, batch = eqx.combine(arrays, code)
            return loss(policy, batch)

        error, found = checkify.checkify(plain, errors=_ERRORS[self.kind])(arrays)
        leaves, structure = jax.tree.flatten(error)

        def report(*leaves: Any) -> None:
            found = jax.tree.unflatten(structure, leaves).get_exception()
            if found is not None:
                said = " ".join(str(found).split()).rstrip(".")
                self.reports.add(IN_LOSS, f"in the loss: {said}, {_place(found.traceback_info)}")

        jax.debug.callback(report, *leaves)
        value, metrics = found
        return value, metrics


class CheckedPreparedLoss(CheckedLoss):
    """A `CheckedLoss` around a loss with `prepare`, called before a minibatch is split."""

    def prepare(self, batch: Batch) -> tuple[CheckedLoss, Batch]:
        """Calls `prepare` of the checked loss, and wraps the loss that it returns."""
        assert isinstance(self.loss, PreparedLoss)
        loss, batch = self.loss.prepare(batch)
        return CheckedLoss(loss, self.kind, self.reports), batch


class CheckedEstimator(AdvantageEstimator):
    """An advantage estimator that reports NaN in its arguments and its result."""

    estimate: AdvantageEstimator
    reports: Reports = eqx.field(static=True)

    def __call__(self, rollout: Rollout, value_scale: ValueScale = IDENTITY_SCALE) -> Targets:
        targets = self.estimate(rollout, value_scale)
        for part in (rollout, targets, value_scale):
            for path, leaf in jax.tree.leaves_with_path(part):
                if eqx.is_inexact_array(leaf):
                    where = f"{type(part).__name__}{jax.tree_util.keystr(path)}"
                    _report_nan(leaf, COLLECTED, where, self.reports)
        return targets


def checked(
    loss: Loss, estimate: AdvantageEstimator, kind: str
) -> tuple[CheckedLoss, CheckedEstimator]:
    """Wraps a loss and an estimator in checks (`nans` or `checks`) that share one report."""
    reports = Reports()
    around = CheckedPreparedLoss if isinstance(loss, PreparedLoss) else CheckedLoss
    return around(loss, kind, reports), CheckedEstimator(estimate, reports)


def reports_of(algorithm: Algorithm[Any]) -> Reports | None:
    """The reports of an algorithm's checks; `None` without checks."""
    loss = getattr(algorithm, "loss", None)
    return loss.reports if isinstance(loss, CheckedLoss) else None


def _place(trace: Any) -> str:
    """The source of an operation: the three innermost frames outside of libraries."""
    lines = [
        f"{frame.file_name}:{frame.line_num} ({frame.function_name})"
        for frame in trace.frames
        if not frame.file_name.startswith(_LIBRARIES)
    ]
    return "at " + ", called from ".join(lines[:3])


def _report_nan(leaf: Array, part: str, where: str, reports: Reports) -> None:
    def report(found: Bool[Any, ""]) -> None:
        if found:
            reports.add(part, f"NaN in {where}")

    jax.debug.callback(report, jnp.any(jnp.isnan(leaf)))


def _watch_gradients(evaluator: Evaluator, reports: Reports) -> Evaluator:
    """The evaluator, with a backward pass that reports each parameter whose gradient has NaN."""

    def watch(path: Any, leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf):
            return leaf
        where = f"the gradient of {path_name(path).removeprefix('.policy')}"

        def backward(_: None, gradient: Array) -> tuple[Array]:
            _report_nan(gradient, IN_GRADIENT, where, reports)
            return (gradient,)

        same = jax.custom_vjp(lambda leaf: leaf)
        same.defvjp(lambda leaf: (leaf, None), backward)
        return same(leaf)

    return jax.tree.map_with_path(watch, evaluator)
