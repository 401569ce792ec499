"""Environments by name, and their arguments (`--env`, `--env-args`)."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import Parameter
from typing import Any, get_args

from hackmatrix_rl import env as envs
from hackmatrix_rl.agent import networks
from hackmatrix_rl.env import memory_tasks as tasks
from hackmatrix_rl.interop import adapters
from hackmatrix_rl.runs.config._renamed import closest
from hackmatrix_rl.system.errors import ConfigError, refusing, shortened

HACKMATRIX = "hackmatrix"
"""The default environment; its arguments are separate flags."""
_MOST_STEPS = 1000


@dataclass(frozen=True)
class _Task:
    """Makes the environment of a memory task from the arguments of the task's config.

    Task and config are names in `hackmatrix_rl.env.memory_tasks`, because that package needs JAX.
    """

    task: str
    config: str

    @property
    def arguments(self) -> Callable[..., Any]:
        made: Callable[..., Any] = getattr(tasks, self.config)
        return made

    def __call__(self, *, max_steps: int | None = _MOST_STEPS, **sizes: Any) -> "envs.Environment":
        return envs.Batched(getattr(tasks, self.task)(self.arguments(**sizes)), max_steps=max_steps)


_CARTPOLE = "cartpole"
_TASKS = {
    "t_maze": _Task("TMaze", "TMazeConfig"),
    "n_back": _Task("NBack", "NBackConfig"),
    "delayed_match": _Task("DelayedMatch", "DelayedMatchConfig"),
    "context_decision": _Task("ContextDecision", "ContextConfig"),
    "perceptual_decision": _Task("PerceptualDecision", "PerceptualConfig"),
    "multi_sensory": _Task("MultiSensoryIntegration", "MultiSensoryConfig"),
    "go_no_go": _Task("GoNoGo", "GoNoGoConfig"),
    "delayed_comparison": _Task("DelayedComparison", "DelayedComparisonConfig"),
    "probabilistic_reasoning": _Task("ProbabilisticReasoning", "ProbabilisticReasoningConfig"),
    "interval_discrimination": _Task("IntervalDiscrimination", "IntervalDiscriminationConfig"),
    "interval_timing": _Task("IntervalTiming", "IntervalTimingConfig"),
    "ready_set_go": _Task("ReadySetGo", "ReadySetGoConfig"),
}
_MADE = (_CARTPOLE, *_TASKS)
_ADAPTERS = ("gymnax", "brax", "mjx", "pgx", "gymnasium", "neurogym")
ENVIRONMENTS = (HACKMATRIX, *_MADE, *(f"{prefix}:NAME" for prefix in _ADAPTERS), "module:factory")
"""The values of `--env`."""


def _maker(env: str) -> Callable[..., Any]:
    return envs.CartPole if env == _CARTPOLE else _TASKS[env]


def _adapter(prefix: str) -> Callable[..., Any]:
    found: Mapping[str, Callable[..., Any]] = {
        "gymnax": adapters.from_gymnax,
        "brax": adapters.from_brax,
        "mjx": adapters.from_mjx,
        "pgx": adapters.from_pgx,
        "gymnasium": adapters.from_gymnasium,
        "neurogym": adapters.from_neurogym,
    }
    return found[prefix]


def env_code(env: str) -> str | None:
    """The custom module that an environment's name would import, or `None`."""
    prefix, colon, name = env.partition(":")
    # gymnasium imports the module of an id such as `module:Name-v0`.
    if prefix in _ADAPTERS and colon:
        return name.rpartition(":")[0] or None
    return networks.module_of(env)


def env_arguments(env: str) -> str:
    """The arguments of an environment with their defaults, in words; empty if it has none."""
    return ", ".join(map(_shown, _parameters(_maker(env)).values())) if env in _MADE else ""


def check_env(env: str, arguments: str | None) -> None:
    """Raises a ConfigError if there is no such environment. This imports no custom code."""
    if env == HACKMATRIX:
        if arguments is not None:
            raise ConfigError(
                f"--env-args {shortened(arguments)}: HackMatrix has its own flags, such as "
                "--league. Leave --env-args out."
            )
    elif env in _MADE:
        make_environment(env, arguments)
    elif (env.partition(":")[0] in _ADAPTERS and env.partition(":")[2]) or networks.module_of(env):
        _pairs(arguments)
    else:
        near = closest(env, (HACKMATRIX, *_MADE))
        raise ConfigError(
            f"--env {shortened(env)}: unknown. Use {', '.join(ENVIRONMENTS[:-1])} or "
            f"{ENVIRONMENTS[-1]}. {near}".rstrip()
        )


def dependence_of(env: str, arguments: str | None) -> int | None:
    """`Environment.longest_dependence` of an environment of this package; else `None`."""
    return make_environment(env, arguments).longest_dependence if env in _MADE else None


@lru_cache(maxsize=32)
def make_environment(env: str, arguments: str | None) -> "envs.Environment":
    """The environment of `--env` and `--env-args`; its code is imported, and the result cached.

    Raises a ConfigError if it is unknown, lacks its package, or does not take these arguments.
    """
    prefix, _, name = env.partition(":")
    said = f"--env {env}"
    try:
        if env in _MADE:
            make = _maker(env)
        elif prefix in _ADAPTERS:
            make = partial(_adapter(prefix), name)
        else:
            make = networks.import_factory(env, "environment")
        given = _arguments(env, make, arguments)
        if given:
            said += f" --env-args {arguments}"
        with refusing(f"{said}: ", ". Give it as --env-args name=value.", of=TypeError):
            _bind(make, given)
        if missing := sorted(getattr(make, "__abstractmethods__", ())):
            lacks = ", ".join(missing)
            raise ConfigError(f"{said}: the class does not define {lacks}.")
        made = make(**given)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{said}: {error}.") from error
    if isinstance(made, envs.SingleGame):
        made = envs.Batched(made, max_steps=_MOST_STEPS)
    with refusing(f"{said}: ", of=(TypeError, ValueError)):
        envs.check_is_environment(made)
        envs.check_own_shapes(made)
    assert isinstance(made, envs.Environment)
    return made


def _bind(make: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raises a TypeError if a function cannot be called with these arguments."""
    function, fixed = (make.func, make.args) if isinstance(make, partial) else (make, ())
    inspect.signature(function).bind(*fixed, **given)


def _parameters(make: Callable[..., Any]) -> dict[str, Parameter]:
    """The arguments of a constructor that can be given as text."""
    found = dict(inspect.signature(make).parameters)
    if isinstance(make, _Task):
        del found["sizes"]
        found |= inspect.signature(make.arguments).parameters
    return {n: each for n, each in found.items() if _kinds(each) or each.kind is each.VAR_KEYWORD}


def _kinds(parameter: Parameter) -> tuple[type, ...]:
    """The plain types (text, number ...) that an argument may have; empty if it has none."""
    plain = (bool, int, float, str, type(None))
    if parameter.annotation is Parameter.empty or isinstance(parameter.annotation, str):
        return plain
    kinds = get_args(parameter.annotation) or (parameter.annotation,)
    return tuple(kind for kind in kinds if kind in plain)


def _pairs(text: str | None) -> dict[str, str]:
    """The texts of `--env-args` by name."""
    pairs: dict[str, str] = {}
    for part in filter(None, map(str.strip, (text or "").split(","))):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not (equals and name.isidentifier() and value) or name in pairs:
            raise ConfigError(
                f"--env-args {shortened(text)}: {shortened(part)} is no new name=value. Write "
                "--env-args name=value,other=value."
            )
        pairs[name] = value
    return pairs


def _arguments(env: str, make: Callable[..., Any], text: str | None) -> dict[str, Any]:
    """Parses the arguments in a text to the types of the constructor."""
    takes = _parameters(make)
    no_text_gives = inspect.signature(make).parameters.keys() - takes.keys()
    free = any(each.kind is each.VAR_KEYWORD for each in takes.values())
    named = {n: each for n, each in takes.items() if each.kind is not each.VAR_KEYWORD}
    found: dict[str, Any] = {}
    for name, value in _pairs(text).items():
        if name not in named and (not free or name in no_text_gives):
            there = ", ".join(map(_shown, named.values())) or "no arguments"
            raise ConfigError(
                f"--env-args {name}={shortened(value)}: --env {env} has no {name}. It has {there}. "
                f"{closest(name, named)}".rstrip()
            )
        kinds = _kinds(named.get(name, Parameter(name, Parameter.KEYWORD_ONLY)))
        found[name] = _value(f"--env-args {name}={shortened(value)}", value, kinds)
    return found


def _value(said: str, text: str, kinds: tuple[type, ...]) -> Any:
    """Parses a text to the first of these types that fits: `3` -> 3, `none` -> `None`."""
    words: dict[str, Any] = {"none": None, "true": True, "false": False}
    if text.lower() in words and type(words[text.lower()]) in kinds:
        return words[text.lower()]
    for kind in (int, float, str):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    names = {int: "a whole number", float: "a number", bool: "true or false", type(None): "none"}
    raise ConfigError(f"{said}: must be {' or '.join(names[kind] for kind in kinds)}.")


def _shown(parameter: Parameter) -> str:
    if parameter.default is Parameter.empty:
        return parameter.name
    default = parameter.default
    return f"{parameter.name}={'none' if default is None else str(default).lower()}"
