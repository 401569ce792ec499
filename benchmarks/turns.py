"""Sides of a comparison, each in a process, that run in turns.

Other work on the machine then slows all sides equally.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Make = Callable[[int], object]
"""Makes a number of updates."""
Side = Callable[[], tuple[Make, int]]
"""Prepares a side; returns what makes its updates, and its number of parameters."""
WARMUP = 2


def serve(side: Side, updates: int) -> None:
    """Runs in the process of a side: makes updates for each input line, and prints their cost."""
    began = time.perf_counter()
    make, parameters = side()
    make(WARMUP)
    print(json.dumps({"parameters": parameters, "first": time.perf_counter() - began}), flush=True)
    for _ in sys.stdin:
        began, cpu = time.perf_counter(), time.process_time()
        make(updates)
        took = time.perf_counter() - began, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps([*(each / updates for each in took), peak]), flush=True)


def in_turns(
    commands: Mapping[str, Sequence[str]],
    rounds: int,
    environment: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, dict[str, Any]]:
    """The figures of each side: `parameters`, `first` in seconds, and `turns`.

    A turn is seconds of an update by the clock and of CPU time, and the most bytes of the process.

    Args:
        commands: of each side, which `serve`s.
        rounds: turns of each side.
        environment: environment variables of each side's process, in addition to the current ones.
    """
    variables = environment or {}
    sides = {
        name: subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables.get(name, {})},
        )
        for name, command in commands.items()
    }

    def line(process: Any) -> Any:
        return json.loads(process.stdout.readline())

    found = {name: line(process) | {"turns": []} for name, process in sides.items()}
    for _ in range(rounds):
        for name, process in sides.items():
            print(file=process.stdin, flush=True)
            found[name]["turns"].append(line(process))
    for process in sides.values():
        process.communicate()
    return found


def medians(row: Mapping[str, Any]) -> list[float]:
    """The medians over the turns: seconds, seconds of CPU time, bytes."""
    return [statistics.median(each) for each in zip(*row["turns"], strict=True)]


def ratio(ours: Mapping[str, Any], theirs: Mapping[str, Any], place: int = 0) -> str:
    """How many times as fast our side is, with the range over the turns; `place` 1 is CPU time."""
    pairs = zip(ours["turns"], theirs["turns"], strict=True)
    ratios = [there[place] / here[place] for here, there in pairs]
    return f"{statistics.median(ratios):.3g} ({min(ratios):.3g} to {max(ratios):.3g})"
