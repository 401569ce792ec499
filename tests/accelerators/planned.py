"""Prints what the TPU's compiler makes of a training, as JSON: `python planned.py SLICE SETTINGS`.

A process of its own, with a user's flags: libtpu ends a process whose XLA_FLAGS name a CPU's.
"""

import json
import re
import sys

from hackmatrix_rl.runs import config_here
from hackmatrix_rl.runs._compose import compose, run_keys
from hackmatrix_rl.runs._plan import make_plan
from hackmatrix_rl.system import target

if __name__ == "__main__":
    chosen = target(sys.argv[1])
    games = {"num_envs": 256 * len(chosen.devices)}
    config = config_here(None, games | json.loads(sys.argv[2]), target=chosen)
    trainer = compose(config, key=run_keys(0)[0], target=chosen)
    plan = make_plan(config, trainer, chosen)
    program = trainer.lower().as_text()
    told = {
        "lines": plan.lines(),
        "bytes": plan.program_bytes,
        "memory": plan.memory_limit,
        "kinds": sorted({each.kind for each in plan.sent}),
        "times": max(each.times for each in plan.sent),
        "gradient_steps": config.num_minibatches * config.update_epochs,
        "float64": "xf64>" in program,
        "host": re.findall(r"callback|infeed|outfeed", program),
    }
    print(json.dumps(told))
