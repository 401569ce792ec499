"""Processes that make run folders at the same moment, each way in a folder of its name.

Prints what became of each start: by way, a JSON list of rounds, each a list of
`{"path", "wandb_id", "seed", "refused"}`.
"""

import json
import os
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path

from hackmatrix_rl.runs import RunLock, make_run_folder
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system.errors import ConfigError

FOLDERS = {
    "run-dir": lambda turn, number: {"run_dir": f"{turn}/run"},
    "checkpoint-dir": lambda turn, number: {
        "run_dir": f"{turn}/run_{number}",
        "checkpoint_dir": f"{turn}/far",
    },
    "automatic": lambda turn, number: {},
}
SIZES = {"run-dir": (5, 4), "checkpoint-dir": (5, 4), "automatic": (1, 24)}
"""How many rounds, of how many processes."""


def start(mode, turn, number, barrier, results):
    config = make_config("debug", {"seed": number, **FOLDERS[mode](turn, number)})
    found = {"seed": number, "path": None, "wandb_id": None, "refused": None}
    barrier.wait()
    with RunLock() as lock:
        try:
            folder = make_run_folder(config, lock=lock, now=lambda: datetime(2030, 1, 31))
        except ConfigError as error:
            lock.withdraw()
            found["refused"] = str(error)
        else:
            found |= {"path": str(folder.path), "wandb_id": folder.wandb_id}
        barrier.wait()  # nobody lets go before all have tried
    results.put(found)
    results.close()
    results.join_thread()
    os._exit(0)


def all_rounds(mode, rounds, processes):
    context = get_context("fork")  # nothing is started yet, and importing takes seconds
    found = []
    for turn in range(rounds):
        if mode == "automatic":
            Path(str(turn)).mkdir()
            os.chdir(str(turn))
        barrier, results = context.Barrier(processes), context.Queue()
        starts = [
            context.Process(target=start, args=(mode, turn, number, barrier, results))
            for number in range(processes)
        ]
        for each in starts:
            each.start()
        found.append([results.get(timeout=60) for _ in starts])
        for each in starts:
            each.join()
        if mode == "automatic":
            os.chdir("..")
    return found


def main():
    found, here = {}, Path.cwd()
    for mode, sizes in SIZES.items():
        (here / mode).mkdir()
        os.chdir(here / mode)
        found[mode] = all_rounds(mode, *sizes)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
