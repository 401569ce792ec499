"""Hooks: callbacks run between dispatches."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hackmatrix_rl.system.errors import described, number
from hackmatrix_rl.training._report import Metrics

Callback = Callable[[Any, Metrics], Mapping[str, Any] | None]
"""A function of the trainer and the metrics as a hook; see `Hook.after_dispatch`."""


class StopTraining(Exception):
    """A hook raises this to end the training normally."""


class Hook:
    """Callbacks run between dispatches. Override some methods, and pass an instance to `Trainer`.

        trainer = hm.Trainer(hm.PPO(environment, policy), hooks=[hm.EvaluateEvery(10), my_function])

    The trainer calls the hooks in order, between dispatches, when its state is complete. A plain
    function of the trainer and the metrics is also a hook: it is called as `after_dispatch`. A hook
    does not change the bits of the training unless it sets `trainer.state`.
    """

    def on_start(self, trainer: Any) -> None:
        """Called before the first dispatch, with a new or a restored state."""

    def before_dispatch(self, trainer: Any) -> None:
        """Called before each dispatch, and once more at the end.

        Raises:
            StopTraining: to end the training here.
        """

    def updates_until_due(self, trainer: Any) -> int | None:
        """The maximum number of updates of the next dispatch; `None`: no limit."""
        return None

    def after_dispatch(self, trainer: Any, metrics: Metrics) -> Mapping[str, Any] | None:
        """Called after each dispatch.

        Args:
            trainer: the trainer.
            metrics: the metrics of the dispatch, with the numbers of earlier hooks.

        Returns:
            Numbers, or arrays of one number, by name, to add to the metrics; or `None`.

        Raises:
            StopTraining: to end the training. The other hooks are called first.
        """
        return None

    def on_metrics(self, trainer: Any, metrics: Metrics, added: Collection[str]) -> None:
        """Called after each dispatch with the complete metrics; hooks have added the names `added`.

        It follows `after_dispatch` of the last hook, even if a hook has stopped the training.
        """

    def on_end(self, trainer: Any) -> None:
        """Called when the training has reached its goal, in reverse order of the hooks.

        It is not called if a hook stops the training.
        """

    def on_exit(self, trainer: Any) -> None:
        """Called last, even if an exception ends the training, to release resources.

        The hooks are called in reverse order, even if their `on_start` was not called.
        """


class _FunctionHook(Hook):
    def __init__(self, function: Callback) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def after_dispatch(self, trainer: Any, metrics: Metrics) -> Any:
        return self._function(trainer, metrics)


def check_hooks(hooks: Any) -> tuple[Hook, ...]:
    """The hooks as a tuple of `Hook`. Raises a TypeError for anything but hooks and functions."""
    if callable(hooks) or not isinstance(hooks, Sequence):
        raise TypeError(
            f"hooks is {described(hooks)}; expected a list of hooks, or functions of the trainer "
            "and the metrics: hooks=[hm.EvaluateEvery(10)]"
        )
    for place, hook in enumerate(hooks):
        if isinstance(hook, type) or not (isinstance(hook, Hook) or callable(hook)):
            raise TypeError(
                f"hooks[{place}] is {described(hook)}; expected a hook, or a function of the "
                "trainer and the metrics"
            )
    return tuple(hook if isinstance(hook, Hook) else _FunctionHook(hook) for hook in hooks)


def after_dispatch(hooks: Sequence[Hook], trainer: Any, metrics: Metrics) -> tuple[Metrics, bool]:
    """Calls each hook after a dispatch, in order, even if one has stopped the training.

    Returns the metrics with the numbers of the hooks, and whether a hook stopped the training.
    Raises if a hook returns something other than `None` or new numbers by name.
    """
    stop = False
    before = metrics.extra
    for hook in hooks:
        try:
            found = hook.after_dispatch(trainer, metrics)
        except StopTraining:
            stop = True
            continue
        if found is None:
            continue
        if not isinstance(found, Mapping):
            raise TypeError(
                f"the hook {_name(hook)} returns {described(found)}; expected None, or numbers by "
                "name: return {'my_number': 1.0}"
            )
        taken = sorted(found.keys() & metrics.as_dict().keys())
        if taken:
            raise ValueError(
                f"the hook {_name(hook)} returns {taken[0]!r}, which the metrics have already: use "
                "another name"
            )
        numbers = {
            name: number(f"{name!r}, which the hook {_name(hook)} returns,", value)
            for name, value in found.items()
        }
        metrics = replace(metrics, extra={**metrics.extra, **numbers})
    for hook in hooks:
        hook.on_metrics(trainer, metrics, metrics.extra.keys() - before.keys())
    return metrics, stop


def _name(hook: Hook) -> str:
    return hook.name if isinstance(hook, _FunctionHook) else type(hook).__name__
