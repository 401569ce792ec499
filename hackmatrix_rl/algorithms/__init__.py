"""The algorithms that train: each is a subpackage, and one line below.

A package holds a config, whose fields are flags (`hackmatrix_rl.runs.config.RunConfig`), a subclass
of `hackmatrix_rl.training.Algorithm`, and all that only they need. Nothing outside knows one of
them: commands and runs read this registry.
"""

from collections.abc import Mapping

ALGORITHMS: Mapping[str, str] = {
    "ppo": "hackmatrix_rl.algorithms.ppo:PPOConfig",
    "imitation": "hackmatrix_rl.algorithms.imitation:ImitationConfig",
    "r2d2": "hackmatrix_rl.algorithms.r2d2:R2D2Config",
    "pqn": "hackmatrix_rl.algorithms.pqn:PQNConfig",
    "supervised": "hackmatrix_rl.algorithms.supervised:SupervisedConfig",
    "self-play": "hackmatrix_rl.algorithms.self_play:SelfPlayConfig",
}
"""The config class of each algorithm, by the name that `--algorithm` takes."""

COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "imitate": (
        "hackmatrix_rl.algorithms.imitation._command:imitate",
        "",
        "train an agent to do what a teacher does",
    ),
    "selfplay": (
        "hackmatrix_rl.algorithms.self_play._flags:selfplay",
        "",
        "learn the clique game by playing against itself",
    ),
}
"""The commands that algorithms add: where each is, its arguments, and what it does."""

DEFAULT = "imitation"
"""The algorithm of a training that names neither algorithm nor stages: it wins most from random
weights."""

BASELINE = "ppo"
"""The algorithm that `bench` and `compare` measure, and that stored settings without one mean."""

QUICK_PRESETS = ("debug",)
"""Presets of `BASELINE`: the expert of `DEFAULT` takes longer to compile than all that they do."""

__all__ = ["ALGORITHMS", "BASELINE", "COMMANDS", "DEFAULT", "QUICK_PRESETS"]
