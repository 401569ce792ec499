"""Players by name: a script, a player that tries moves out, a run, a checkpoint."""

import re
import warnings

from hackmatrix_rl.agent import ValueScale, ends_of
from hackmatrix_rl.checkpoints import PRETRAINED, Loaded, Report, in_league, load
from hackmatrix_rl.config import TrainConfig, make_environment, schedule_of
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.evaluation import SCRIPTS, Agent, PolicyAgent
from hackmatrix_rl.game import LEAGUES, GameConfig
from hackmatrix_rl.search import LEAST_ROLLOUTS, Expert, NetworkGuide, RolloutSearch

EXPERT, SEARCH = "expert", "search"
ROLLOUTS, MOST_ROLLOUTS = 30, 10_000
"""Imagined games for a move: by default, and at most."""
READY = (*SCRIPTS, EXPERT, PRETRAINED, f"{SEARCH}({EXPERT}, {ROLLOUTS})")
"""Names of players that need no training."""


def find_player(
    name: str,
    *,
    network: str | None = None,
    trust_code: bool = False,
    best: bool = False,
    league: str | None = None,
    game: GameConfig | None = None,
    report: Report = warnings.warn,
) -> tuple[Agent, HackMatrix]:
    """A player, and the environment that it plays in.

    A trained policy plays under the limits of its training, a script under those of the default
    config. A policy's thoughts have a value if its run stored the units of the value.

    Args:
        name: a script (`random`, `runner`), `expert`, `pretrained`, a run, a checkpoint, or a
            search with a number of imagined games for a move: `search(expert, 30)`,
            `search(pretrained, 30)`.
        network: as for `load`.
        trust_code: whether code that the run names may be imported.
        best: whether to use the checkpoint with the highest mean return.
        league: the league to play in, one of `LEAGUES`; `None`: the one that a policy was trained
            in, and the original one for a player without training.
        game: sizes and league of the game that a player without training plays; `None`: the
            default sizes in that league.
        report: takes a message about each skipped checkpoint, or about what else is damaged.

    Raises:
        ConfigError: there is no such player, its code is not trusted, or it was trained in the
            other league.
    """
    environment = make_environment(TrainConfig(league=league or LEAGUES[0]))
    config = environment.config if game is None else game
    if name in SCRIPTS:
        return SCRIPTS[name](), environment
    if name == EXPERT:
        return Expert(config), environment
    search = _search(name)
    base = name if search is None else search[0]
    if base == EXPERT and search is not None:
        return RolloutSearch(Expert(config), search[1]), environment
    loaded = load(
        in_league(base, league), network=network, trust_code=trust_code, best=best, report=report
    )
    trained = loaded.environment.config.league
    if league not in (None, trained):
        raise ConfigError(
            f"--league {league}: {base} was trained in the league {trained}, and plays only there "
            "(a replay has its league, too). Leave --league out, or train one: hackmatrix-rl train "
            f"--league {league}"
        )
    scale = _scale(loaded, report)
    if search is None:
        gamma = ends_of(schedule_of(loaded.config.gamma, steps=loaded.config.total_timesteps))[-1]
        return PolicyAgent(loaded.policy, value_scale=scale, gamma=gamma), loaded.environment
    try:
        guide = NetworkGuide(loaded.environment, loaded.policy)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}.") from error
    return RolloutSearch(guide, search[1]), loaded.environment


def _search(name: str) -> tuple[str, int] | None:
    """Who plays the imagined games of a search, and how many; `None` for another kind of name.

    Raises:
        ConfigError: it is the name of a search, but of none that there is.
    """
    if not re.match(rf"{SEARCH}\s*(\(|$)", name):
        return None
    parts = re.fullmatch(rf"{SEARCH}\s*\(([^(),]*)(?:,([^(),]*))?\)", name)
    base = parts[1].strip() if parts else ""
    if parts is None or base in SCRIPTS or not base:
        what = f"{base} plays no imagined games" if base else "not a search"
        raise ConfigError(
            f'{name}: {what}. Write "{SEARCH}({EXPERT}, {ROLLOUTS})" or "{SEARCH}({PRETRAINED}, '
            f'{ROLLOUTS})": who plays the imagined games ({EXPERT}, {PRETRAINED}, a run or a '
            "checkpoint), and how many for a move."
        )
    number = (parts[2] or str(ROLLOUTS)).strip()
    rollouts = int(number) if re.fullmatch(r"[0-9]{1,9}", number) else 0
    if not LEAST_ROLLOUTS <= rollouts <= MOST_ROLLOUTS:
        raise ConfigError(
            f"{name}: the number of imagined games for a move must be a whole number within "
            f"{LEAST_ROLLOUTS}..{MOST_ROLLOUTS}, not {number}."
        )
    return base, rollouts


def _scale(loaded: Loaded, report: Report) -> ValueScale | None:
    """The units of the value, which nobody needs to play."""
    try:
        return loaded.value_scale()
    except ConfigError as error:
        report(f"{error}; it plays, but shows no value")
        return None
