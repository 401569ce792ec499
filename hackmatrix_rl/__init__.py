"""HackMatrix in JAX: the game, its environment, and agents that learn it.

    import hackmatrix_rl as hm

Public names are imported when they are first used, so that `import hackmatrix_rl` stays light
and starts no device.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hackmatrix_rl.agent import (
        GAE,
        MaskedCategorical,
        PPOLoss,
        RolloutCollector,
        check_policy,
    )
    from hackmatrix_rl.agent.networks import (
        ActorCritic,
        ConvActorCritic,
        GRUActorCritic,
        MLPActorCritic,
        build_network,
    )
    from hackmatrix_rl.agent.precision import (
        PrecisionPolicy,
        precision,
    )
    from hackmatrix_rl.checkpoints import load
    from hackmatrix_rl.config import TrainConfig
    from hackmatrix_rl.env import (
        Environment,
        HackMatrix,
        Timestep,
        check_environment,
        observe,
    )
    from hackmatrix_rl.evaluation import evaluate
    from hackmatrix_rl.game import GameConfig
    from hackmatrix_rl.runtime_types import check_types
    from hackmatrix_rl.training import Trainer
    from hackmatrix_rl.training.sharding import mesh

# In which module each public name lives.
_HOME = {
    "GAE": "hackmatrix_rl.agent",
    "ActorCritic": "hackmatrix_rl.agent",
    "ConvActorCritic": "hackmatrix_rl.agent",
    "Environment": "hackmatrix_rl.env",
    "GRUActorCritic": "hackmatrix_rl.agent",
    "GameConfig": "hackmatrix_rl.game",
    "HackMatrix": "hackmatrix_rl.env",
    "MLPActorCritic": "hackmatrix_rl.agent",
    "MaskedCategorical": "hackmatrix_rl.agent",
    "PPOLoss": "hackmatrix_rl.agent",
    "PrecisionPolicy": "hackmatrix_rl.agent",
    "RolloutCollector": "hackmatrix_rl.agent",
    "Timestep": "hackmatrix_rl.env",
    "TrainConfig": "hackmatrix_rl.config._config",
    "Trainer": "hackmatrix_rl.training",
    "build_network": "hackmatrix_rl.agent",
    "check_environment": "hackmatrix_rl.env._check",
    "check_policy": "hackmatrix_rl.agent._contract",
    "check_types": "hackmatrix_rl.runtime_types",
    "evaluate": "hackmatrix_rl.evaluation",
    "load": "hackmatrix_rl.checkpoints",
    "mesh": "hackmatrix_rl.training.sharding._mesh",
    "observe": "hackmatrix_rl.env",
    "precision": "hackmatrix_rl.agent",
}

__all__ = [
    "GAE",
    "ActorCritic",
    "ConvActorCritic",
    "Environment",
    "GRUActorCritic",
    "GameConfig",
    "HackMatrix",
    "MLPActorCritic",
    "MaskedCategorical",
    "PPOLoss",
    "PrecisionPolicy",
    "RolloutCollector",
    "Timestep",
    "TrainConfig",
    "Trainer",
    "build_network",
    "check_environment",
    "check_policy",
    "check_types",
    "evaluate",
    "load",
    "mesh",
    "observe",
    "precision",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("hackmatrix-rl")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # looked up once
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
