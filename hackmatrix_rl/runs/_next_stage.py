"""The next stage of a run, whose programs compile while the stage before it trains."""

from dataclasses import replace
from typing import Any

from jaxtyping import Array, Key

from hackmatrix_rl.runs._compose import compose
from hackmatrix_rl.runs._folder import RunFolder
from hackmatrix_rl.runs._keys import stage_keys
from hackmatrix_rl.runs.config import RunConfig
from hackmatrix_rl.system import is_single_process
from hackmatrix_rl.training import CompilingAhead, Hook, Metrics, Trainer, updates_until


class NextStage(Hook):
    """The next stage of a run. From the first dispatch of this stage on, its programs compile.

    The first dispatch has them compile at once: a stage may end with the next one. It does nothing
    in the last stage.
    """

    def __init__(self, config: RunConfig, folder: RunFolder, *, trust_code: bool) -> None:
        """`config` is of the stage before it."""
        self._before = config
        self._folder = folder
        self._trust_code = trust_code
        self._expected: RunConfig | None = None
        self._ahead: CompilingAhead | None = None

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        """Begins to compile, for the update in which this stage will end."""
        if self._expected is not None or self._before.then is None or not is_single_process():
            return
        left = max(0, updates_until(trainer.algorithm, trainer.state, self._before.goal))
        update = int(trainer.state.update) + left
        steps = int(trainer.state.env_steps) + left * trainer.batch_size
        then = self._expected = self.config(update, steps)

        def make() -> tuple[Trainer[Any], Key[Array, "*members"]]:
            network, training = stage_keys(then, update)
            # The weights, which do not exist yet, change no program. Messages come when they do.
            made = compose(then, key=network, trust_code=self._trust_code, report=lambda _: None)
            return made, training

        self._ahead = CompilingAhead(make)

    def config(self, update: int, steps: int) -> RunConfig:
        """Its settings, if the stage before it ends at this update and after these steps."""
        assert self._before.then is not None
        # The weights are read from the checkpoint, as in a resumed run, which gets the same bits.
        # mypy sees a `RunConfig`; stages are trainings, which have both fields.
        start = str(self._folder.checkpoints / str(update))
        return replace(self._before.then, begun_at=steps, init=start)  # type: ignore[call-arg]

    def ahead(self, then: RunConfig) -> CompilingAhead | None:
        """What has begun to compile for these settings."""
        return self._ahead if then == self._expected else None

    def cancel(self) -> None:
        """Ends the compilation soon."""
        if self._ahead is not None:
            self._ahead.cancel()
