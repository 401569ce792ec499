"""Players by name: a script, a run, a checkpoint."""

import warnings

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.checkpoints import Loaded, Report, load
from hackmatrix_rl.config import TrainConfig, make_environment
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.evaluation import SCRIPTS, Agent, PolicyAgent
from hackmatrix_rl.game import LEAGUES


def find_player(
    name: str,
    *,
    network: str | None = None,
    trust_code: bool = False,
    best: bool = False,
    league: str | None = None,
    report: Report = warnings.warn,
) -> tuple[Agent, HackMatrix]:
    """A player, and the environment that it plays in.

    A trained policy plays under the limits of its training, a script under those of the default
    config. A policy's thoughts have a value if its run stored the units of the value.

    Args:
        name: a script (`random`, `runner`), a run, or a checkpoint.
        network: as for `load`.
        trust_code: whether code that the run names may be imported.
        best: whether to use the checkpoint with the highest mean return.
        league: the league to play in, one of `LEAGUES`; `None`: the one that a policy was trained
            in, and the original one for a script.
        report: takes a message about each skipped checkpoint, or about what else is damaged.

    Raises:
        ConfigError: there is no such player, its code is not trusted, or it was trained in the
            other league.
    """
    if name in SCRIPTS:
        return SCRIPTS[name](), make_environment(TrainConfig(league=league or LEAGUES[0]))
    loaded = load(name, network=network, trust_code=trust_code, best=best, report=report)
    trained = loaded.environment.config.league
    if league not in (None, trained):
        raise ConfigError(
            f"--league {league}: {name} was trained in the league {trained}, and plays only there. "
            f"Leave --league out, or train one: hackmatrix-rl train --league {league}"
        )
    return PolicyAgent(loaded.policy, value_scale=_scale(loaded, report)), loaded.environment


def _scale(loaded: Loaded, report: Report) -> ValueScale | None:
    """The units of the value, which nobody needs to play."""
    try:
        return loaded.value_scale()
    except ConfigError as error:
        report(f"{error}; it plays, but shows no value")
        return None
