"""Players by name: a script, a run, a checkpoint."""

import warnings

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.checkpoints import Report, load
from hackmatrix_rl.config import TrainConfig
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.evaluation import SCRIPTS, Agent
from hackmatrix_rl.runs._compose import make_environment


def find_player(
    name: str,
    *,
    network: str | None = None,
    trust_code: bool = False,
    best: bool = False,
    report: Report = warnings.warn,
) -> tuple[ActorCritic | Agent, HackMatrix]:
    """A player, and the environment that it plays in.

    A trained policy plays under the limits of its training, a script under those of the default
    config.

    Args:
        name: a script (`random`, `runner`), a run, or a checkpoint.
        network: as for `load`.
        trust_code: whether code that the run names may be imported.
        best: whether to use the checkpoint with the highest mean return.
        report: takes a message about each skipped checkpoint.

    Raises:
        ConfigError: there is no such player, or its code is not trusted.
    """
    if name in SCRIPTS:
        return SCRIPTS[name](), make_environment(TrainConfig())
    loaded = load(name, network=network, trust_code=trust_code, best=best, report=report)
    return loaded.policy, loaded.environment
