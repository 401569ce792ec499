"""The registry of algorithms. Each algorithm is a subpackage.

A subpackage has a config, whose fields are flags (`hackmatrix_rl.runs.config.RunConfig`), a
subclass of `hackmatrix_rl.training.Algorithm`, and the code that only these two use. Commands and
runs find algorithms through this registry and import none of them directly.
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
        "train an agent to imitate a teacher",
    ),
    "selfplay": (
        "hackmatrix_rl.algorithms.self_play._flags:selfplay",
        "",
        "learn the clique game by self-play",
    ),
}
"""The commands that algorithms add, by name: module and function, arguments, short help."""

DEFAULT = "imitation"
"""The default algorithm of a training without stages: from random weights it wins most games."""

BASELINE = "ppo"
"""The algorithm that `bench` and `compare` measure, and the one of stored settings without one."""

QUICK_PRESETS = ("debug",)
"""Presets that use `BASELINE`: the expert of `DEFAULT` compiles longer than these presets run."""

__all__ = ["ALGORITHMS", "BASELINE", "COMMANDS", "DEFAULT", "QUICK_PRESETS"]
