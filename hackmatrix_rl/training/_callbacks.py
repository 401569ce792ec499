"""What is called after each dispatch of a training, for those who prefer it to a loop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hackmatrix_rl.errors import described
from hackmatrix_rl.training._metrics import Metrics

Callback = Callable[[Any, Metrics], Mapping[str, float] | None]
"""Takes the trainer and the metrics of a dispatch. It may return further numbers by name: the
metrics have them from then on. It raises `StopTraining` to end the training."""


class StopTraining(Exception):
    """Raised by a callback: training ends after this dispatch, as if it had come to its end."""


def check_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """The callbacks as a tuple.

    Raises:
        TypeError: they are no sequence of functions.
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
    """Calls each callback in turn. Each sees the numbers of those before it.

    Args:
        callbacks: to call; all of them are called, whether one stops the training or not.
        trainer: that trains.
        metrics: of the dispatch.

    Returns:
        The metrics with what the callbacks returned, and whether one stopped the training.

    Raises:
        TypeError: a callback returned something else than numbers by name.
        ValueError: it returned a number under a name that is taken.
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
        metrics = replace(metrics, extra={**metrics.extra, **found})
    return metrics, stop


def _name(callback: Callback) -> str:
    return getattr(callback, "__name__", type(callback).__name__)
