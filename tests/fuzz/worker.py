"""One fuzzer in a process of its own: `python -m fuzz.worker NAME SEED SECONDS ROOM`."""

import faulthandler
import importlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ANSWER_SECONDS = 60
"""Longer than that no single input may take: it is a hang."""

LINES = 12
"""Of a traceback that are shown."""

MOST_MEMORY = 16 * 2**30
"""Of addresses; what asks for more fails at once, in place of the machine."""


class Hang(BaseException):
    """An input got no answer. Not an `Exception`: nothing that is tested may take it for its own,
    and it is not made smaller, which would take its time at each step.
    """


class Fuzzer:
    """What a fuzzer module hands to the worker as `FUZZER`.

    Attributes:
        inputs: a strategy of Hypothesis.
        check: raises where an input is answered badly.
        examples: inputs of a round.
        shrinks: whether what fails is made smaller, which takes many inputs more.
        after: called at the end of each round with its seed.
        found: inputs that once were answered badly; they come first.
    """

    def __init__(
        self,
        inputs: Any,
        check: Callable[[Any], None],
        *,
        examples: int,
        shrinks: bool = True,
        after: Callable[[int], None] = lambda seed: None,
        found: Sequence[Any] = (),
    ) -> None:
        self.inputs, self.check, self.examples = inputs, check, examples
        self.shrinks, self.after, self.found = shrinks, after, found


@contextmanager
def answered_in_time() -> Iterator[None]:
    def too_late(number: int, frame: FrameType | None) -> None:
        raise Hang(f"no answer within {ANSWER_SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(ANSWER_SECONDS)
    # What hangs outside of Python hears no signal.
    faulthandler.dump_traceback_later(2 * ANSWER_SECONDS, exit=True)
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def run_rounds(name: str, seed: int, seconds: float, room: Path) -> None:
    """Rounds of inputs, each from a seed of its own, until the time is over."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    fuzzer: Fuzzer = importlib.import_module(f"fuzz.{name}").FUZZER
    phases = [Phase.generate, *([Phase.shrink] if fuzzer.shrinks else [])]
    begun, rounds, number = time.monotonic(), 0, 0
    while rounds == 0 or time.monotonic() - begun < seconds:
        now = seed + rounds
        (room / f"{name}.repeat").write_text(str(now))

        def check_one(each: Any) -> None:
            nonlocal number
            number += 1
            (room / f"{name}.last").write_text(ascii(each)[:2000])
            with answered_in_time():
                fuzzer.check(each)

        @seeded(now)
        @settings(
            max_examples=fuzzer.examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            phases=phases,
        )
        @given(fuzzer.inputs)
        def check(each: Any) -> None:
            check_one(each)

        try:
            for each in fuzzer.found if rounds == 0 else ():
                check_one(each)
            check()
            fuzzer.after(now)
        except Exception as error:
            # Of a recursion that went too deep the end is enough.
            print("".join(traceback.format_exception(error, limit=-LINES)), flush=True)
            print(f"{name}: found with seed {now}")
            sys.exit(1)
        rounds += 1
    print(f"{name}: {number} inputs in {rounds} rounds, seeds {seed} to {seed + rounds - 1}.")


if __name__ == "__main__":
    # Before JAX is imported, which reads these once.
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    os.environ["FUZZ_ROOM"] = sys.argv[4]
    os.environ["HACKMATRIX_RL_STATE_DIR"] = f"{sys.argv[4]}/state"
    run_rounds(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
