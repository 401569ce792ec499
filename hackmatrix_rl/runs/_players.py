"""Players by name: scripts, experts, searches, runs and checkpoints."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic, RecursiveActorCritic, unwrapped
from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.evaluation import SCRIPTS, Agent, Opponent, PolicyAgent
from hackmatrix_rl.games.hackmatrix import LEAGUES, GameConfig
from hackmatrix_rl.runs._folder import run_folders
from hackmatrix_rl.runs.checkpoints import (
    PRETRAINED,
    Loaded,
    Report,
    check_playable,
    hold_checkpoint,
    in_league,
    load,
    read_metadata,
    restore,
    saved_run,
    split_member,
    to_device,
    why_member,
)
from hackmatrix_rl.runs.config import (
    RunConfig,
    algorithms,
    check_trusted,
    config_from_dict,
    default_environment,
    options_of,
)
from hackmatrix_rl.search import (
    LEAST_ROLLOUTS,
    Expert,
    Guide,
    Harvester,
    NetworkGuide,
    ReturnExpert,
    ReturnGuide,
    RolloutSearch,
    Searcher,
)
from hackmatrix_rl.system.errors import (
    ConfigError,
    NoCheckpointError,
    in_shell,
    refusing,
    shortened,
)

EXPERT, RETURN_EXPERT, SEARCH, HARVEST = "expert", "expert@return", "search", "harvest"
EXPERTS: Mapping[str, Callable[[GameConfig], Agent]] = {EXPERT: Expert, RETURN_EXPERT: ReturnExpert}
"""The players that look one move ahead."""
ROLLOUTS, MOST_ROLLOUTS = 30, 10_000
"""Rollouts (imagined games) for a move: the default, and the maximum."""
MOST_SIMULATIONS = 10_000
"""Maximum number of simulations of a tree search for a move."""
READY = (*SCRIPTS, *EXPERTS, PRETRAINED, f"{SEARCH}({EXPERT}, {ROLLOUTS})")
"""Names of players that need no training."""
IMAGINES = (EXPERT, PRETRAINED)
"""The players that can play the rollouts of a search."""

_SHOWN = 5
"""Maximum number of runs that a message lists."""


def find_hackmatrix_player(name: str, **how: Any) -> tuple[Agent, HackMatrix]:
    """`find_player` for players of HackMatrix alone."""
    player, environment = find_player(name, **how)
    if not isinstance(environment, HackMatrix):
        trusted = ["--trust-code"] if how.get("trust_code") else []
        watch = in_shell("hackmatrix-rl", "watch", name, "--html", "game.html", *trusted)
        raise ConfigError(
            f"{name} was trained in another environment, and this is for players of HackMatrix. "
            f"Use hackmatrix-rl watch, eval or report: {watch}"
        )
    return player, environment


def find_player(
    name: str,
    *,
    network: str | None = None,
    modules: str | None = None,
    trust_code: bool = False,
    best: bool = False,
    league: str | None = None,
    game: GameConfig | None = None,
    simulations: int | None = None,
    simulations_flag: str = "--search",
    cycles: tuple[int, int] | None = None,
    report: Report = warnings.warn,
) -> tuple[Agent, Environment]:
    """A player by name, and the environment that it plays in.

    A trained policy plays with the limits of its training, a script with the default ones. A
    policy reports values only if its run stored the value scale.

    `name` is one of

    - a script: `random`, `runner`;
    - an expert: `expert` plays to win, `expert@return` for the return;
    - `pretrained`, a run or a checkpoint. Of a run of several trainings in one program, `run#3` is
      the fourth, and `run#return` the one with the highest return, as without `#`;
    - a search with a number of rollouts for a move: `search(expert, 30)`, `search(pretrained, 30)`;
    - any of them with a script that collects points: `harvest(pretrained)`.

    `network`, `trust_code` and `best` are as for `load`, and `modules` is its `agent`.
    `league` is the league to play in: by default the training's, or the original one for a player
    without training, which takes its sizes from `game`. `simulations` makes a trained policy a
    `Searcher` with that many simulations for a move; messages call it `simulations_flag`.
    `cycles` are the updates of `z_H`, and of `z_L` before each of them, of a recursive network; by
    default, they are the cycles of its training. `report` takes messages about what is skipped or
    damaged.
    """
    if (inner := _harvested(name)) is not None:
        player, there = find_hackmatrix_player(
            inner, network=network, modules=modules, trust_code=trust_code, best=best,
            league=league, game=game,
            simulations=simulations, simulations_flag=simulations_flag, cycles=cycles,
            report=report,
        )  # fmt: skip
        return Harvester(there, player), there
    if simulations is not None:
        _check_simulations(name, simulations, simulations_flag)
    search = _search(name)
    base, member = split_member(name if search is None else search[0])
    if cycles is not None and base in (*SCRIPTS, *EXPERTS):
        raise _no_cycles(cycles, f"{base} has no network")
    environment = default_environment(league or LEAGUES[0])
    config = environment.config if game is None else game
    if name in SCRIPTS:
        return SCRIPTS[name](), environment
    if name in EXPERTS:
        return EXPERTS[name](config), environment
    if base == EXPERT and search is not None:
        return RolloutSearch(Expert(config), search[1]), environment
    try:
        loaded = load(
            in_league(base, league),
            network=network,
            agent=modules,
            trust_code=trust_code,
            best=best,
            member=member,
            report=report,
        )
    except NoCheckpointError as error:
        known = _listed(READY if search is None else IMAGINES)
        raise NoCheckpointError(
            f"{base}: no checkpoint there, nor a player of that name. Use {known}."
        ) from error
    if member is None and loaded.member is not None:
        other = 0 if loaded.member else 1
        report(f"{base}#{loaded.member} plays: {why_member(loaded)}. Another one: {base}#{other}")
    if cycles is not None:
        loaded = replace(loaded, policy=_with_cycles(loaded.policy, cycles, base))
    its_own = loaded.environment
    if not isinstance(its_own, HackMatrix):
        if search is not None or simulations is not None or league is not None:
            raise ConfigError(
                f"{base} was trained in another environment, which has no leagues and no search. "
                f"Name {base} alone."
            )
        return _policy_of(loaded, report), its_own
    trained = its_own.config.league
    if league not in (None, trained):
        raise ConfigError(
            f"{base} was trained in the league {trained}, and plays only there, not with --league "
            f"{league} (a replay has its league, too). Use --league {trained}, or train one: "
            f"hackmatrix-rl train --league {league}"
        )
    asked = "" if simulations is None else f" {simulations_flag} {simulations}"
    if loaded.greedy and (search is not None or simulations is not None):
        raise ConfigError(
            f"{name}{asked}: {base} learned Q-values, and "
            "a search needs a policy to draw from. Leave the search out, or use an agent that "
            "learned one."
        )
    if search is None:
        agent = _policy_of(loaded, report)
        if simulations is None:
            return agent, its_own
        return _searcher(name + asked, agent, its_own, simulations), its_own
    with refusing(f"{name}: "):
        return RolloutSearch(_guide(loaded, its_own, report), search[1]), its_own


def find_opponent(
    name: str, *, trust_code: bool = False, report: Report = warnings.warn
) -> Opponent | None:
    """The opponent in a run or checkpoint of a two-player game; `None` for any other game."""
    if saved_run(name) is not None:
        return None
    skipped: list[str] = []
    folder, _hold = hold_checkpoint(name, report=skipped.append)
    metadata = read_metadata(folder)
    config = config_from_dict(metadata["config"])
    if not config.two_players:
        return None
    for message in skipped:  # for other games, loading reports them
        report(message)
    check_playable(folder, metadata)
    check_trusted(config, folder, trust_code=trust_code)
    like = config.policy(key=jax.random.key(0))
    policy = restore(folder, "policy", like, report=report)
    return config.opponent(to_device(policy))


UNTRAINED_SIMULATIONS = 64
"""Simulations of a search with an untrained network."""


def untrained_opponent(settings: Mapping[str, Any]) -> Opponent:
    """An opponent with a small untrained network; `settings` describe the board."""
    kind = _of_two_players()
    # The preset has a small network, but also a smaller board than the command.
    board = {each.name: each.default for each in options_of(kind) if each.metadata["resume"]}
    sizes = {**board, "num_simulations": UNTRAINED_SIMULATIONS, **settings}
    config = kind.of_preset("debug", sizes)
    return config.opponent(config.policy(key=jax.random.key(config.seed)))


def two_players_command() -> str:
    """The command that trains players of a two-player game."""
    return f"hackmatrix-rl {_of_two_players().command}"


def _of_two_players() -> type[RunConfig]:
    return next(kind for kind in algorithms().values() if kind.two_players)


def _guide(loaded: Loaded, environment: HackMatrix, report: Report) -> Guide:
    """A guide for the return if the training rewarded victories; else, for the victory."""
    if environment.reward.victory > 0:
        return ReturnGuide(environment, _policy_of(loaded, report))
    return NetworkGuide(environment, loaded.policy)


def _with_cycles(policy: ActorCritic, cycles: tuple[int, int], name: str) -> ActorCritic:
    """A recursive network with these cycles; it may be wrapped."""
    network = unwrapped(policy)
    if not isinstance(network, RecursiveActorCritic):
        raise _no_cycles(cycles, f"the network of {name} is not recursive")
    return eqx.tree_at(unwrapped, policy, network.with_cycles(*cycles))


def _no_cycles(cycles: tuple[int, int], why: str) -> ConfigError:
    high, low = cycles
    return ConfigError(
        f"--cycles {high} {low}: {why}. Only agents of train --network recursive have cycles; "
        "leave --cycles out."
    )


def _policy_of(loaded: Loaded, report: Report) -> PolicyAgent:
    """A trained policy as a player, with its value scale if that can be read."""
    return PolicyAgent(
        loaded.policy, greedy=loaded.greedy, value_scale=_scale(loaded, report), gamma=loaded.gamma
    )


def _listed(ready: Sequence[str]) -> str:
    runs = [str(folder) for folder in run_folders()]
    more = "" if len(runs) <= _SHOWN else f" ({len(runs) - _SHOWN} more)"
    found = [*ready, *runs[-_SHOWN:]]
    return f"{', '.join(found)}{more}, or another run or checkpoint"


def _check_simulations(name: str, simulations: int, flag: str) -> None:
    """Refuses an impossible tree search before anything is loaded."""
    said = f"{flag} {simulations}"
    if name in (*SCRIPTS, *EXPERTS):
        raise ConfigError(
            f"{said}: {name} has no network to search with. Name a run, a checkpoint or "
            f"{PRETRAINED}: {PRETRAINED} {said}"
        )
    if _search(name) is not None:
        raise ConfigError(
            f"{said}: {name} is another search. Use one of them: {PRETRAINED} {said}, or {name} "
            f"without {flag}"
        )
    if not 1 <= simulations <= MOST_SIMULATIONS:
        raise ConfigError(
            f"{said}: the number of actions to try out for a move must be a whole number within "
            f"1..{MOST_SIMULATIONS}. Without {flag}, the network plays without a search."
        )


def _searcher(said: str, agent: PolicyAgent, environment: HackMatrix, simulations: int) -> Searcher:
    if agent.value_scale is None:
        raise ConfigError(
            f"{said}: its checkpoint has no value scale, and a search adds rewards to values. "
            "Name a run or a complete checkpoint of it."
        )
    with refusing(f"{said}: "):
        return Searcher(agent, environment, simulations)


def _search(name: str) -> tuple[str, int] | None:
    """Parses `search(PLAYER, ROLLOUTS)`; `None` for another kind of name."""
    if not re.match(rf"{SEARCH}\s*(\(|$)", name):
        return None
    parts = re.fullmatch(rf"{SEARCH}\s*\(([^(),]*)(?:,([^(),]*))?\)", name)
    base = parts[1].strip() if parts else ""
    if parts is None or base in (*SCRIPTS, RETURN_EXPERT) or not base:
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


def _harvested(name: str) -> str | None:
    """Parses `harvest(PLAYER)`; `None` for another kind of name."""
    if not re.match(rf"{HARVEST}\s*(\(|$)", name):
        return None
    parts = re.fullmatch(rf"{HARVEST}\s*\((.+)\)", name)
    inner = parts[1].strip() if parts else ""
    if not inner or inner.startswith(HARVEST):
        raise ConfigError(
            f'{shortened(name)}: write "{HARVEST}({PRETRAINED})", or another player in the '
            "brackets: the one that decides where there are no points to collect."
        )
    return inner


def _scale(loaded: Loaded, report: Report) -> ValueScale | None:
    """The value scale; a player can do without it."""
    try:
        return loaded.value_scale()
    except ConfigError as error:
        report(f"{error}; it plays, but shows no value")
        return None
