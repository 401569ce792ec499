"""Compiling the program of a training in a background thread."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from jaxtyping import Array, Key

from hackmatrix_rl.system import in_background, is_single_process
from hackmatrix_rl.training._debug import reports_of
from hackmatrix_rl.training._program import CompiledProgram, LoweredProgram, Starter


class CompilingAhead:
    """Compiles the programs of a trainer in a background thread, while this one does other work.

    A trainer of the same settings takes them (`Trainer.compile_ahead`). XLA releases Python's
    lock while it compiles.

    On a GPU the compiler measures kernels on the device, which a running training would disturb:
    there the program of a dispatch is only lowered ahead.
    """

    @staticmethod
    def can(trainer: Any) -> bool:
        """Whether the programs of such a trainer may be compiled ahead.

        Several processes compile in the same order, which threads would not keep. A game that
        Python plays and the reports of `--debug` belong to the trainer that was traced.
        """
        own = (
            trainer.eager
            or not trainer.environment.pure
            or reports_of(trainer.algorithm) is not None
        )
        return is_single_process() and not own

    def __init__(self, make: Callable[[], tuple[Any, Key[Array, "*members"] | None]]) -> None:
        """Begins.

        `make` is called in the thread. It returns the trainer, and the key for its `start` if the
        program of the first state is to be compiled, too.
        """
        self._make = make
        self._cancelled = threading.Event()
        self._starter: Future[Starter | None] = Future()
        self._program: Future[LoweredProgram | CompiledProgram | None] = Future()
        in_background(self._work)

    def cancel(self) -> None:
        """Ends it after its current step: nobody will ask for its results."""
        self._cancelled.set()

    def starter(self) -> Starter | None:
        """Waits for the program of the first state; `None` without a key, or if none can be.

        Raises:
            Exception: an error of the thread.
        """
        return self._starter.result()

    def program(self) -> CompiledProgram | None:
        """Waits for the compiled program of a dispatch; `None` if none can be.

        Raises:
            Exception: an error of the thread.
        """
        found = self._program.result()
        return found.compile() if isinstance(found, LoweredProgram) else found

    def _work(self) -> None:
        results: tuple[Future[Any], ...] = self._starter, self._program
        try:
            for result, found in zip(results, self._compile(), strict=False):
                result.set_result(found)
        except BaseException as error:  # raised again for who waits
            for result in results:
                if not result.done():
                    result.set_exception(error)

    def _compile(self) -> Iterator[Any]:
        """The results, in order, until it is cancelled."""
        trainer, key = self._make()
        if not self.can(trainer):
            yield from (None, None)
            return
        measures = trainer.mesh.devices.flat[0].platform == "gpu"
        yield None if key is None else trainer.starter(None if measures else key)
        if self._cancelled.is_set():
            return
        found = trainer.lower_program()
        if not self._cancelled.is_set():
            yield found if measures else found.compile()
