"""Callbacks: functions that the trainer calls after each dispatch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hackmatrix_rl.errors import described, number
from hackmatrix_rl.training._metrics import Metrics

Callback = Callable[[Any, Metrics], Mapping[str, float] | None]
"""A function of the trainer and the metrics of a dispatch. It may return numbers by name, or arrays
of one number, which join the metrics. It may raise `StopTraining` to end the training."""


class StopTraining(Exception):
    """A callback raises this to end the training normally after the current dispatch."""


def check_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """The callbacks as a tuple.

    Raises:
        TypeError: the argument is not a sequence of functions.
    """
    if callable(callbacks) or not isinstance(callbacks, Sequence):
        raise TypeError(
            f"callbacks is {described(callbacks)}; expected a list of functions of the trainer "
            "and the metrics: callbacks=[my_callback]"
        )
    for place, callback in enumerate(callbacks):
        if not callable(callback):
            raise TypeError(
                f"callbacks[{place}] is {described(callback)}; expected a function of the trainer "
                "and the metrics"
            )
    return tuple(callbacks)


def call_back(
    callbacks: Sequence[Callback], trainer: Any, metrics: Metrics
) -> tuple[Metrics, bool]:
    """Calls each callback in order. Each sees the numbers that earlier ones returned.

    Args:
        callbacks: the callbacks. All are called, even after one has stopped the training.
        trainer: the trainer, for the callbacks.
        metrics: the metrics of the dispatch.

    Returns:
        The metrics with the numbers of the callbacks, and whether one stopped the training.

    Raises:
        TypeError: a callback returned something other than `None` or numbers by name.
        ValueError: a callback returned a name that the metrics already have.
    """
    stop = False
    for callback in callbacks:
        try:
            found = callback(trainer, metrics)
        except StopTraining:
            stop = True
            continue
        if found is None:
            continue
        if not isinstance(found, Mapping):
            raise TypeError(
                f"the callback {_name(callback)} returns {described(found)}; expected None, or "
                "numbers by name: return {'my_number': 1.0}"
            )
        taken = sorted(found.keys() & metrics.as_dict().keys())
        if taken:
            raise ValueError(
                f"the callback {_name(callback)} returns {taken[0]!r}, which the metrics have "
                "already: use another name"
            )
        numbers = {
            name: number(f"{name!r}, which the callback {_name(callback)} returns,", value)
            for name, value in found.items()
        }
        metrics = replace(metrics, extra={**metrics.extra, **numbers})
    return metrics, stop


def _name(callback: Callback) -> str:
    return getattr(callback, "__name__", type(callback).__name__)
