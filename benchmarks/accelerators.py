"""What a TPU's compiler estimates for a training by PPO, on a machine without a TPU.

    pip install '.[tpu-plan]' && python benchmarks/accelerators.py [--target v4-8] [--top 20]

It compiles the program of `hackmatrix-rl train --algorithm ppo --dry-run --target v4-8` and ranks
the instructions of a rollout step (of all games on a device) and of a gradient step by estimated
cycles. Nothing runs. A loop of the game counts as one iteration. Gathers, scatters and collectives
have no estimate; the number of gathers and scatters is printed. So use it to compare two programs.

`--save FILE` keeps the text of the program, and `--program FILE` ranks such a text.
"""

import argparse
import importlib.metadata
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from hackmatrix_rl.training.compiled import Estimate, estimates, instructions

GAMES = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="v4-8", help="the slice; default: v4-8")
    parser.add_argument("--games", type=int, default=GAMES, help=f"a device; default: {GAMES}")
    parser.add_argument(
        "--set", default={}, type=json.loads, metavar="JSON", help='such as {"network": "gru"}'
    )
    parser.add_argument("--top", type=int, default=20, help="instructions of each step to print")
    parser.add_argument("--save", type=Path, help="write the text of the program here")
    parser.add_argument("--program", type=Path, help="rank this text instead")
    options = parser.parse_args()
    # The TPU's compiler gets no devices; a machine's own are not needed.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")

    # Imported after that is set, because JAX reads it at import.
    from hackmatrix_rl.runs import config_here, network_in_words
    from hackmatrix_rl.runs._compose import compose
    from hackmatrix_rl.system import target

    chosen = target(options.target)
    games = options.games * len(chosen.devices)
    settings = {"algorithm": "ppo", "num_envs": games, "num_minibatches": 8}
    config = config_here(None, settings | options.set, target=chosen)
    trainer = compose(config, target=chosen)
    if options.program is None:
        program = trainer.lower().compile().as_text() or ""
    else:
        program = options.program.read_text()
    if options.save:
        options.save.write_text(program)

    sizes = trainer.algorithm.sizes
    steps = {
        "rollout step": sizes.num_steps,
        "gradient step": sizes.num_minibatches * sizes.update_epochs,
    }
    if len(set(steps.values())) < len(steps):
        parser.error("the loops have equally many rounds; use --set with another num_steps")
    found = estimates(program, within="hackmatrix_rl/")
    if not found:
        parser.error("this program has no estimates: it is not of a TPU's compiler")
    packages = "jax", "libtpu"
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(
        f"estimated cycles of {network_in_words(config)} in {config.precision}, "
        f"{options.games:,} games on each device of {options.target}; {versions}"
    )
    for name, rounds in steps.items():
        _print_step(name, rounds, found, _without_estimate(program, rounds), options.top)


def _print_step(name: str, rounds: int, found: Sequence[Estimate], unknown: int, top: int) -> None:
    """Prints the table of one step, an iteration of the loop with `rounds` iterations."""
    inside = [each for each in found if _is_in(each.loops, rounds)]
    cycles = sum(each.total for each in inside) // rounds
    print(
        f"\n{name}: {cycles:,} cycles in {len(inside)} instructions; {unknown} gathers and scatters"
    )
    print("    cycles  loops of it  result, and where it is from")
    for each in inside[:top]:
        depth = len(each.loops) - 2
        shape = re.sub(r":T\([^}]*", "", each.result)
        operation = "/".join(each.operation.split("/")[-2:])
        source = " < ".join(each.source[:3]) or operation
        print(f"{each.total // rounds:10,d}  {depth:11d}  {shape[:40]:40}  {source}")


def _without_estimate(program: str, rounds: int) -> int:
    """The number of gathers and scatters in a step."""
    kind = re.compile(r"%(?:gather|scatter)[\w.\-]* = .* fusion\(.*kind=kCustom")
    return sum(
        1
        for line, loops in instructions(program)
        if _is_in(loops, rounds) and kind.search(line) is not None
    )


def _is_in(loops: Sequence[int], rounds: int) -> bool:
    """Whether an instruction is in the second loop from outside, which has `rounds` iterations."""
    return len(loops) > 1 and loops[1] == rounds


if __name__ == "__main__":
    main()
