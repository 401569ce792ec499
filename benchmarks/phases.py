"""The effect of each measure that saves memory, by the compilers of absent TPUs and GPUs.

    pip install '.[tpu-plan,gpu-plan]'
    python benchmarks/phases.py [--target v4-8] [--network large] [--json FILE]

It plans PPO without any measure, with each one alone and with several together (`hm.plan`). Nothing
runs. The default network plays HackMatrix, and one of 30 M parameters plays CartPole, which has no
auxiliary loss. The game is replaced by one that never changes, because the rules of HackMatrix take
longer to compile than everything else, and no measure changes them. docs/scaling.md explains how to
install the compilers.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

# A dictionary for each network: its settings, and the games of each device.
NETWORKS: dict[str, tuple[dict[str, Any], int]] = {
    "default": ({"aux_coefficient": 0.1}, 1024),
    "large": ({"env": "cartpole", "network": "residual", "width": 512, "depth": 14}, 64),
}
COMMON = {
    **{"algorithm": "ppo", "precision": "f32", "num_steps": 16, "num_minibatches": 4},
    **{"update_epochs": 1, "updates_per_dispatch": 1},
}
FSDP = "fsdp"
ALONE: dict[str, dict[str, Any]] = {
    "none": {},
    "aux-coefficient 0": {"aux_coefficient": 0.0},
    "aux-every 4": {"aux_every": 4},
    "precision bf16": {"precision": "bf16"},
    "grad-accum 4": {"grad_accum": 4},
    "remat blocks": {"remat": "blocks"},
    "remat full": {"remat": "full"},
    "offload-optimizer": {"offload_optimizer": True},
    FSDP: {"mesh": "data=1,fsdp={devices}"},
}
TOGETHER: dict[str, tuple[str, ...]] = {
    "conservative": ("aux-every 4", "precision bf16", "remat blocks"),
    "aggressive": (
        *("aux-every 4", "precision bf16", "remat blocks"),
        *("grad-accum 4", "offload-optimizer", FSDP),
    ),
}
"""The measures of `examples/conservative.toml` and `examples/aggressive.toml`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="v4-8", help="the devices; default: v4-8")
    parser.add_argument("--network", default="large", choices=NETWORKS)
    parser.add_argument("--only", nargs="+", choices=[*ALONE, *TOGETHER], help="only these rows")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    # The compilers get no devices; a machine's own are not needed.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")

    # Imported after that is set, because JAX reads it at import.
    import hackmatrix_rl as hm
    from hackmatrix_rl.system.errors import ConfigError

    try:
        target = hm.target(options.target)
    except ConfigError as error:
        parser.error(str(error))
    measures = ALONE | {name: together(name, options.network) for name in TOGETHER}
    print("measure               MiB  of that the learner  sent MiB  operations  cost", flush=True)
    rows = []
    for name in options.only or measures:
        row = {"measure": name, **planned(target, options.network, measures[name])}
        rows.append(row)
        print(shown(row), flush=True)
        if options.json:
            figures = {"target": options.target, "network": options.network, "rows": rows}
            options.json.write_text(json.dumps(figures, indent=2) + "\n")


def together(name: str, network: str) -> dict[str, Any]:
    """The settings of several measures, as far as a network has them."""
    of_network = {
        "default": {"remat blocks": "remat full"},  # it has no blocks
        "large": {"aux-every 4": "none"},
    }[network]
    return {
        key: value
        for each in TOGETHER[name]
        for key, value in ALONE[of_network.get(each, each)].items()
    }


def planned(target: Any, network: str, measures: dict[str, Any]) -> dict[str, Any]:
    """The figures of a plan with some measures, or the reason why it is refused."""
    import jax

    import hackmatrix_rl as hm
    from hackmatrix_rl.runs import compose, config_here
    from hackmatrix_rl.system.errors import ConfigError

    devices = len(target.devices)
    sizes, games = NETWORKS[network]
    settings = {"num_envs": games * devices, **COMMON, **sizes, **measures}
    if "mesh" in settings:
        settings["mesh"] = settings["mesh"].format(devices=devices)
    try:
        config = config_here(None, settings, target=target)
        trainer = compose(config, target=target)
        trainer.algorithm = standing_still(trainer.algorithm)
        plan = hm.plan(hm.Trainer(trainer.algorithm))
    except ConfigError as error:
        return {"refused": str(error)}
    by_kind: dict[str, int] = {}
    for each in plan.sent:
        by_kind[each.kind] = by_kind.get(each.kind, 0) + each.times
    return {
        "parameters": sum(x.size for x in jax.tree.leaves(trainer.policy) if hasattr(x, "size")),
        "bytes": plan.program_bytes,
        "learner_bytes": plan.learner_bytes,
        "sent_bytes": sum(each.sent_bytes for each in plan.sent),
        "operations": by_kind,
        "cycles": plan.cycles,
        "kernels": None if plan.launches is None else plan.launches.kernels,
        "compile_seconds": plan.compile_seconds,
    }


def standing_still(algorithm: Any) -> Any:
    """An algorithm whose games have the shapes of their environment, and never change."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import hackmatrix_rl as hm

    class StandingStill(hm.Environment):
        """Each step returns the timestep in the state, which no compiler can treat as constant."""

        environment: hm.Environment

        @property
        def spec(self) -> hm.EnvSpec:
            return self.environment.spec

        @property
        def truncates(self) -> bool:
            return self.environment.truncates

        def reset(self, keys: Any) -> Any:
            shapes = jax.eval_shape(lambda: self.environment.reset(keys)[1])
            timestep = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
            return timestep, timestep

        def step(self, state: Any, actions: Any, keys: Any) -> Any:
            return state, state

    return eqx.tree_at(
        lambda given: given.environment, algorithm, StandingStill(algorithm.environment)
    )


def shown(row: dict[str, Any]) -> str:
    """A row of the table."""
    if "refused" in row:
        return f"{row['measure']:20}  {row['refused']}"
    cost = f"{row['cycles']:,} cycles" if row["cycles"] else f"{row['kernels']:,} kernels"
    kinds = ", ".join(f"{times} {kind}" for kind, times in sorted(row["operations"].items()))
    return (
        f"{row['measure']:20}  {row['bytes'] / 2**20:8,.1f}  {row['learner_bytes'] / 2**20:8,.1f}  "
        f"{row['sent_bytes'] / 2**20:8,.1f}  {kinds or 'none'}  {cost}  "
        f"({row['compile_seconds']:.0f} s)"
    )


if __name__ == "__main__":
    main()
