"""Looks for input that ends in a traceback, an abort or a hang: `nox -s fuzz`.

Each fuzzer runs in a process of its own for its share of the time, so that one that dies is
told of. Its input comes from one seed; what fails is made small and shown, with the command
that finds it again.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FUZZERS = (
    *("positions", "cli", "toml", "run_folders", "forged_runs", "checkpoints", "replays"),
    *("demonstrations", "journals", "npz", "records", "app_answers"),
)
SECONDS = 600.0
GRACE = 420.0
"""Beyond its share a fuzzer may take so long: to start, to end a round, to shrink a failure."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s fuzz --", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="in all, beside starting")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6, help="of the input")
    parser.add_argument("--only", choices=FUZZERS, action="append", help="these fuzzers alone")
    given = parser.parse_args()
    chosen = given.only or list(FUZZERS)
    print(f"Fuzzing {', '.join(chosen)} for {given.seconds:g} s, seed {given.seed}.", flush=True)
    with tempfile.TemporaryDirectory(prefix="fuzz_") as room:
        share = given.seconds / len(chosen)
        failed = [each for each in chosen if not fuzz(each, given.seed, share, Path(room))]
    if failed:
        print(f"FAILED: {', '.join(failed)}; the inputs and commands are above.")
        return 1
    print("Nothing was found.")
    return 0


def fuzz(name: str, seed: int, seconds: float, room: Path) -> bool:
    """Runs one fuzzer; whether it found nothing."""
    again = room / f"{name}.repeat"
    worker = [sys.executable, "-m", "fuzz.worker", name, str(seed), str(seconds), str(room)]
    process = subprocess.Popen(worker, start_new_session=True)
    try:
        status = process.wait(timeout=seconds + GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
        print(f"{name}: no answer within {seconds + GRACE:g} s; ended.")
    if status == 0:
        return True
    if (last := room / f"{name}.last").exists():
        print(f"{name} ended with status {status}. The last input: {last.read_text()}")
    at = again.read_text() if again.exists() else str(seed)
    print(f"Again: nox -s fuzz -- --only {name} --seconds 1 --seed {at}", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
