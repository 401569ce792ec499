"""Prints what a compiler makes of a training, as JSON: `python planned.py TARGET SETTINGS`.

A process of its own, with a user's flags: libtpu ends a process whose XLA_FLAGS name a CPU's.
"""

import json
import re
import sys
from unittest import mock

import jax

from hackmatrix_rl.runs import config_here
from hackmatrix_rl.runs._compose import compose
from hackmatrix_rl.runs._plan import make_plan
from hackmatrix_rl.runs.config import algorithms
from hackmatrix_rl.system import target
from hackmatrix_rl.training.compiled._collectives import _instructions

COPY = re.compile(r"= \(?u32\[([\d,]+)\]\S* .*?copy(?:-start)?\(")


def copies_of(program: str, shape: tuple[int, ...]) -> int:
    """How often the loops of a program copy a uint32 array of a shape, its axes in any order."""
    return sum(
        times
        for line, times in _instructions(program)
        if times > 1
        and (found := COPY.search(line)) is not None
        and sorted(map(int, found[1].split(","))) == sorted(shape)
    )


def facts(slice_name: str, settings: dict[str, object]) -> dict[str, object]:
    chosen = target(slice_name)
    algorithm = str(settings.pop("algorithm"))
    if (kind := algorithms()[algorithm]).command == "train":
        config = config_here(None, settings, algorithm=algorithm, target=chosen)
    else:
        config = kind(**settings)
    trainer = compose(config, target=chosen)
    made, compile_it = [], jax.stages.Lowered.compile

    def kept(lowered, options):
        made.append((lowered.as_text(), compile_it(lowered, options)))
        return made[-1][1]

    with mock.patch.object(jax.stages.Lowered, "compile", kept):
        plan = make_plan(config, trainer, chosen)
    ((lowered, compiled),) = made
    program = compiled.as_text()
    state = jax.tree.leaves_with_path(trainer.abstract_state())
    history = [
        leaf.sharding.shard_shape(leaf.shape)
        for path, leaf in state
        if jax.tree_util.keystr(path).endswith("history.ring")
    ]
    return {
        "lines": plan.lines(),
        "bytes": plan.program_bytes,
        "memory": plan.memory_limit,
        "kinds": sorted({each.kind for each in plan.sent}),
        "times": max((each.times for each in plan.sent), default=0),
        "float64": re.findall(r"\S*\bf64\b\S*", lowered + program),
        "host": re.findall(r"callback|infeed|outfeed|SendToHost|RecvFromHost", lowered),
        "arrays": len(state),
        "in_place": len(re.findall(r"\{[\d, ]*\}: \(\d+, \{", program.partition("\n")[0])),
        "history": bool(history),
        "copies_of_history": sum(copies_of(program, shape) for shape in history),
    }


if __name__ == "__main__":
    print(json.dumps(facts(sys.argv[1], json.loads(sys.argv[2]))))
