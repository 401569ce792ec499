"""Writes and reads the agent of a run of `hm.SaveRun`, whose modules were composed in Python."""

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from etils import epath
from jaxtyping import Array, Float64, Int32

from hackmatrix_rl.agent import ValueScale, check_is_policy
from hackmatrix_rl.agent.networks import ActorCritic, import_factory, module_of
from hackmatrix_rl.env import Batched, Environment, SingleGame, check_is_environment, whole_games
from hackmatrix_rl.runs.checkpoints._finder import Report, checkpoints_in
from hackmatrix_rl.runs.config import (
    MOST_MEMBERS,
    Code,
    TrainConfig,
    baseline_algorithm,
    check_code,
    check_trusted,
    config_from_dict,
)
from hackmatrix_rl.system import is_remote, read_json, typed_path
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, in_shell, refusing, shortened
from hackmatrix_rl.training import (
    MEMBER,
    Algorithm,
    Population,
    Stored,
    Trainer,
    every_policy,
    first_policy,
    read_tree,
    write_tree,
)

AGENT = "agent"
"""The kind of file that `write_agent` writes."""
AGENT_FILE = "agent.hmrl"
SAVED_BY = "hm.SaveRun"
"""`saved_by` in the `config.json` of such a run."""
MODULES = (
    *("env", "env_args", "league", "observation", "max_steps"),
    *("network", "width", "depth", "normalize_observations"),
)
"""Settings in that file from which built-in environments and networks are built."""

Agent = Trainer[Any] | Algorithm[Any] | tuple[Any, ActorCritic] | Callable[[], Any] | str
"""The modules of such a run: `hm.load(run, agent=...)`."""


class SavedAgent(eqx.Module):
    """The agent of a training; `means` are the metrics that select the best of several."""

    policy: ActorCritic
    value_scale: ValueScale | None
    update: Int32[Array, "*members"]
    means: dict[str, Float64[np.ndarray, " members"]]


def write_agent(
    folder: Path, trainer: Trainer[Any], counters: Mapping[str, float], *, write: bool = True
) -> None:
    """Writes the agent into a run's folder; each process calls it.

    `counters` are the metrics of each of several trainings, such as `member/3/return`.
    """
    state, algorithm = trainer.state, trainer.algorithm
    several = isinstance(algorithm, Population)
    size = algorithm.size if several else 0
    means: dict[str, np.ndarray] = {}
    for number, name, key in members_named(counters):
        if number < size:
            means.setdefault(name, np.full(size, np.nan))[number] = counters[key]
    scale = (algorithm.algorithm if several else algorithm).value_scale_of(state)
    made = SavedAgent(every_policy(algorithm, state), scale, state.update, means)

    def to_host(leaf: Any) -> np.ndarray:
        return leaf if isinstance(leaf, np.ndarray) else trainer.to_host(leaf)

    write_tree(folder / AGENT_FILE, AGENT, made, to_host=to_host, write=write)


def saved_run(run: str | Path) -> Path | None:
    """The folder of a run of `hm.SaveRun`, by its path or its name under `runs/`."""
    name = typed_path(run)
    if is_remote(name):
        return None
    for place in (Path(name), Path("runs") / name):
        try:
            if (place / AGENT_FILE).is_file():
                return None if checkpoints_in(epath.Path(place / "checkpoints")) else place
        except (OSError, ValueError):  # no file can have this name
            return None
    return None


def made_by(agent: Agent) -> Any:
    """The result of a factory, whose code is imported; any other agent unchanged."""
    made: Any = agent
    if isinstance(made, str):
        with refusing(_said(agent)):
            made = import_factory(made, "agent")
    return made() if callable(made) and not isinstance(made, eqx.Module) else made


def _said(agent: Agent) -> str:
    return f"--agent {agent}: " if isinstance(agent, str) else "agent: "


def modules_of(agent: Agent) -> tuple[Environment, ActorCritic, Algorithm[Any] | None]:
    """Environment, policy and, if there is one, algorithm; a factory's code is imported."""
    said, made = _said(agent), made_by(agent)
    if isinstance(made, Trainer):
        made = made.algorithm
    if isinstance(made, Algorithm):
        return whole_games(made.environment), first_policy(made, made.initial_policy), made
    if not (isinstance(made, tuple) and len(made) == 2):
        raise ConfigError(
            f"{said}makes {shortened(type(made).__name__)}; it must make an hm.Trainer, "
            "its algorithm, or a pair (environment, policy)."
        )
    environment, policy = made
    if isinstance(environment, SingleGame):
        environment = Batched(environment)
    with refusing(said, of=TypeError):
        check_is_environment(environment)
        check_is_policy(policy)
    return environment, policy, None


def settings_of_saved(folder: Path, report: Report) -> dict[str, Any]:
    """The content of such a run's `config.json`; empty if it cannot be read."""
    try:
        return read_json(folder / "config.json") or {}
    except DamagedFileError as error:
        report(f"{folder / 'config.json'}: {error}; it is skipped")
        return {}


def agent_of(
    folder: Path, settings: Mapping[str, Any], agent: Agent | None, *, trust_code: bool
) -> Agent | None:
    """The modules that the user gives, or those that the run names and the user trusts.

    Code that the user names is remembered, as for other runs (`docs/security.md`).
    """
    stored = settings.get("agent")
    named = agent if isinstance(agent, str) else stored if agent is None else None
    if not isinstance(named, str) or (module := module_of(named)) is None:
        return agent
    code = Code("agent", named, module)
    check_code(code, folder, trust_code=trust_code or agent is not None)
    return named


def saved_agent(
    folder: Path, agent: Agent | None, *, trust_code: bool = False, report: Report = warnings.warn
) -> Agent | None:
    """`agent_of` with the run's own settings."""
    return agent_of(folder, settings_of_saved(folder, report), agent, trust_code=trust_code)


def known_config(
    folder: Path, settings: Mapping[str, Any], network: str | None, *, trust_code: bool
) -> TrainConfig:
    """The settings that build the modules of such a run, as far as playing needs them."""
    known = {name: settings[name] for name in MODULES if settings.get(name) is not None}
    if network is not None:
        known["network"] = network
    if not {"env", "network"} <= known.keys():
        lacks = " and ".join(
            f"the {what} {shortened(settings.get(what, ''))}".rstrip()
            for what, name in (("environment", "env"), ("policy", "network"))
            if name not in known
        )
        example = in_shell("hackmatrix-rl", "eval", folder, "--agent", "my_module:make")
        raise ConfigError(
            f"{folder}: was trained in Python, and no setting names {lacks}. Name a function that "
            f"makes the trainer, or (environment, policy): {example} (in Python, "
            "hm.load(run, agent=make))."
        )
    with refusing(f"{folder}: ", "", of=ConfigError):
        config = config_from_dict({**known, "algorithm": baseline_algorithm()})
    assert isinstance(config, TrainConfig)
    named = ("teacher", *(["network"] if network is not None else []))
    check_trusted(config, folder, trust_code=trust_code, named=named)
    return config


def scale_of(algorithm: Algorithm[Any] | None, config: TrainConfig | None) -> ValueScale | None:
    """The value scale as shapes; `None` without an algorithm or a config."""
    if algorithm is None:
        return None if config is None else config.initial_scale()
    shapes = eqx.filter_eval_shape(algorithm.init, jax.random.key(0), algorithm.initial_policy)
    scale: ValueScale | None = algorithm.value_scale_of(shapes)
    return scale


def read_agent(folder: Path) -> Stored:
    """The arrays of `write_agent`."""
    return read_tree(folder / AGENT_FILE, AGENT)


def counters_of(stored: Stored) -> dict[str, float]:
    """The metrics of each training in the arrays of `read_agent`."""
    means = stored.under(".means").arrays
    return {
        f"{MEMBER}{number}/{name[2:-2]}": float(value)  # the name of a dictionary's entry
        for name, values in means.items()
        if values.ndim == 1
        for number, value in enumerate(values.tolist())
        if isinstance(value, float) and math.isfinite(value)
    }


def saved_trainings(settings: Mapping[str, Any]) -> list[str]:
    """The varied settings of each training of such a run; `[""]` for a single one."""
    found = settings.get("trainings")
    if not isinstance(found, list) or not 1 < len(found) <= MOST_MEMBERS:
        return [""]
    return [shortened(each) if isinstance(each, str) else "" for each in found]


def saved_members(settings: Mapping[str, Any], size: int | None) -> list[str]:
    """Each of `size` trainings in words: `training 5 (learning_rate=0.01)`."""
    said = saved_trainings(settings)
    if len(said) != size:
        said = [""] * (size or 0)
    return [f"training {k} ({each})" if each else f"training {k}" for k, each in enumerate(said)]


def members_named(numbers: Iterable[str]) -> list[tuple[int, str, str]]:
    """Number, metric and full name of each member's metric: `member/3/return`."""
    pattern = re.compile(rf"{MEMBER}([0-9]{{1,{_DIGITS}}})/(.+)")
    found = ((pattern.fullmatch(each), each) for each in numbers)
    return [(int(parts[1]), parts[2], each) for parts, each in found if parts]


_DIGITS = 9
"""Maximum number of digits in the number of a training."""
