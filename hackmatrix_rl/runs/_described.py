"""Describes a training that was composed in Python by the settings of a run."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import equinox as eqx
import jax

from hackmatrix_rl.agent.networks import NETWORKS, ActorCritic, MLPActorCritic, unwrapped
from hackmatrix_rl.env import Environment, HackMatrix
from hackmatrix_rl.runs.checkpoints import MODULES, SAVED_BY
from hackmatrix_rl.runs.config import (
    ENVIRONMENTS,
    HACKMATRIX,
    TrainConfig,
    algorithms,
    baseline_algorithm,
    config_class,
    make_environment,
)
from hackmatrix_rl.system.errors import ConfigError, shortened
from hackmatrix_rl.training import (
    Algorithm,
    Constant,
    Population,
    Trainer,
    first_policy,
    leaves_by_path,
)


def describe_training(trainer: Trainer[Any], agent: str | None) -> dict[str, Any]:
    """The `config.json` of a run of `hm.SaveRun`.

    It names the environment and the network if they equal built-in ones, and has the numbers of the
    algorithm that are settings.
    """
    algorithm, environment = trainer.algorithm, trainer.environment
    policy = first_policy(algorithm, algorithm.initial_policy)
    found: dict[str, Any] = {
        "saved_by": SAVED_BY,
        "agent": agent,
        "environment": shortened(_in_words(environment)),
        "policy": type(policy).__name__,
        "greedy": algorithm.greedy,
        **_algorithm(algorithm),
    }
    if isinstance(algorithm, Population):
        found["trainings"] = _trainings(algorithm)
    known = next((each for each in _environments(environment) if _is(each, environment)), {})
    return found | known | (_network(known, policy) if known else {})


def _in_words(environment: Environment) -> str:
    game = getattr(environment, "game", None)
    name = type(environment).__name__
    return name if game is None else f"{name} of {type(game).__name__}"


def _algorithm(algorithm: Algorithm[Any]) -> dict[str, Any]:
    """The algorithm by name, and its numbers."""
    one = algorithm.algorithm if isinstance(algorithm, Population) else algorithm
    spelled = type(one).__name__.lower()
    name = next((each for each in algorithms() if each.replace("-", "") == spelled), None)
    if name is None:
        return {"learns_by": type(one).__name__}
    fields = config_class(name).__dataclass_fields__.keys() - set(MODULES)
    # Some settings are fields of a part, such as the collector or the loss.
    parts = [one, *(part for part in vars(one).values() if is_dataclass(part))]
    found = {each: part for part in reversed(parts) for each in fields if hasattr(part, each)}
    numbers = {each: getattr(part, each) for each, part in found.items()}
    numbers |= {each: n.value for each, n in numbers.items() if isinstance(n, Constant)}
    plain = {each: n for each, n in numbers.items() if type(n) in (bool, int, float)}
    if (rate := plain.get("learning_rate")) is not None:
        plain["learning_rate"] = f"constant:{rate!r}"
    return {"algorithm": name, **plain}


def _trainings(population: Population[Any]) -> list[str]:
    """The varied settings of each training: `learning_rate=0.001`."""
    varied = {
        name.removesuffix(".value").rpartition(".")[2]: numbers.tolist()
        for name, numbers in leaves_by_path(population.varied).items()
    }
    return [
        ", ".join(f"{name}={numbers[k]:.6g}" for name, numbers in varied.items())
        for k in range(population.size)
    ]


def _environments(environment: Environment) -> Iterator[dict[str, Any]]:
    """The settings of each built-in environment that `environment` may equal."""
    steps = getattr(environment, "max_steps", None)
    if isinstance(environment, HackMatrix):
        league = "original" if environment.config.rewind_across_stages else "no-rewind"
        yield {
            "env": HACKMATRIX,
            "league": league,
            "observation": environment.observation,
            "max_steps": steps,
        }
        return
    for name in ENVIRONMENTS:
        if name.isidentifier() and name != HACKMATRIX:
            yield {"env": name}
            yield {"env": name, "env_args": f"max_steps={steps}".lower()}


def _is(settings: dict[str, Any], environment: Environment) -> bool:
    try:
        if settings["env"] != HACKMATRIX:
            made = make_environment(settings["env"], settings.get("env_args"))
            return type(made) is type(environment) and bool(made == environment)
        return bool(_config(**settings, network="mlp").environment() == environment)
    except ConfigError:
        return False


def _network(known: dict[str, Any], policy: ActorCritic) -> dict[str, Any]:
    """The settings of the built-in network with the same shapes; empty if there is none."""
    network, settings = unwrapped(policy), dict[str, Any]()
    if isinstance(network, MLPActorCritic):
        settings = {"width": network.layers[-1].bias.shape[0], "depth": len(network.layers)}
    if policy is not network:
        settings["normalize_observations"] = True
    for name in NETWORKS:
        try:
            config = _config(**known, network=name, **settings)
            made = eqx.filter_eval_shape(config.policy, key=jax.random.key(0))
        except (ConfigError, ValueError):
            continue
        if type(unwrapped(made)) is type(network) and _shapes(made) == _shapes(policy):
            return {"network": name, **settings}
    return {}


def _config(**settings: Any) -> TrainConfig:
    given = {name: value for name, value in settings.items() if value is not None}
    kind: Any = config_class(baseline_algorithm())
    made: TrainConfig = kind(**given)
    return made


def _shapes(policy: ActorCritic) -> dict[str, Any]:
    return {name: (leaf.shape, leaf.dtype) for name, leaf in leaves_by_path(policy).items()}
