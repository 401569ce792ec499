"""Checks of the shapes and dtypes of an environment by tracing alone."""

from typing import Any

import jax
import numpy as np

from hackmatrix_rl.env._environment import (
    Encoder,
    Environment,
    EnvSpec,
    EpisodeStatistics,
    Features,
    Timestep,
)
from hackmatrix_rl.env._single_game import Batched, Played, SingleGame
from hackmatrix_rl.env._spaces import ActionSpace, Discrete
from hackmatrix_rl.env._start_states import BLOCK, StartStates
from hackmatrix_rl.system.errors import (
    ConfigError,
    check_array,
    described,
    difference,
    first_line,
    is_ours,
    path_in_words,
    place,
    same_structure,
    summary,
)

# Size of the traced batch. Few other axes have this size, so a wrong axis is found.
TRIED = 3

_BATCH = "give it a leading axis of environments; jax.vmap makes a batch of what plays one game"


def check_is_environment(environment: Any) -> None:
    """Raises a TypeError unless the argument is an instance of `Environment`."""
    if isinstance(environment, Environment):
        return
    is_class = isinstance(environment, type)
    if issubclass(environment if is_class else type(environment), SingleGame):
        game = f"{environment.__name__}()" if is_class else "game"
        raise TypeError(
            f"environment is {described(environment)}, one game; expected many of it side by side: "
            f"hm.Batched({game}, max_steps=1000)"
        )
    if is_class:
        raise TypeError(
            f"environment is the class {environment.__name__}; expected an instance: "
            f"{environment.__name__}()"
        )
    said = f"environment is {described(environment)}; expected an instance of hm.Environment"
    if callable(getattr(environment, "reset", None)) and callable(
        getattr(environment, "step", None)
    ):
        raise TypeError(
            f"{said}. It has reset and step as environments of gymnax and gymnasium have: "
            "hm.from_gymnax, hm.from_pgx and hm.from_gymnasium make one of them"
        )
    raise TypeError(f"{said}, such as hm.HackMatrix()")


def check_own_shapes(environment: Environment) -> None:
    """`check_shapes` of an environment that is, or contains, a class from outside this package.

    `StartStates` is always checked: it contains functions. The package's tests check its own
    classes, and HackMatrix takes seconds to trace.
    """

    def is_foreign(node: Any) -> bool:
        return isinstance(node, Environment | SingleGame) and not is_ours(node)

    parts = jax.tree.leaves(environment, is_leaf=is_foreign)
    if isinstance(environment, StartStates) or any(map(is_foreign, parts)):
        check_shapes(environment)


def check_spec(spec: Any, owner: str = "spec") -> None:
    """Raises unless a spec is complete and consistent; `owner` is its name in messages."""
    if not isinstance(spec, EnvSpec):
        hint = "use env.spec" if isinstance(spec, Environment) else "make it by EnvSpec(...)"
        raise TypeError(f"{owner} is {described(spec)}; expected an EnvSpec: {hint}")
    _check_observation_spec(spec.observation, owner)
    if not isinstance(spec.terms, tuple) or not all(isinstance(name, str) for name in spec.terms):
        raise TypeError(
            f"{owner}: terms is {described(spec.terms)}; expected a tuple of names, such as "
            'terms=("damage", "score")'
        )
    _check_encode(spec, owner)


def check_discrete(spec: EnvSpec, who: str) -> None:
    """Raises a ConfigError unless the actions are `Discrete`; `who` needs them."""
    if not isinstance(spec.actions, Discrete):
        raise ConfigError(
            f"{who} needs Discrete actions, and this environment has {spec.actions}. PPO with the "
            "network mlp, residual, conv, gru, lstm or mpn acts in any space."
        )


def _check_observation_spec(observation: Any, owner: str) -> None:
    leaves = jax.tree.leaves_with_path(observation)
    if not leaves:
        raise ValueError(
            f"{owner}: observation is {described(observation)}, without any array; expected "
            "jax.ShapeDtypeStruct((4,), jnp.float32), say"
        )
    if _is_shape(observation):
        shape = observation if isinstance(observation, tuple | list) else (observation,)
        raise TypeError(
            f"{owner}: observation={observation!r} is a shape alone; expected its dtype, too: "
            f"observation=jax.ShapeDtypeStruct({tuple(shape)}, jnp.float32)"
        )
    for path, leaf in leaves:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            raise TypeError(
                f"{owner}: {path_in_words('observation', path)} is {described(leaf)}; expected a "
                "jax.ShapeDtypeStruct: observation=jax.eval_shape(lambda: one_observation)"
            )


def _is_shape(observation: Any) -> bool:
    numbers = observation if isinstance(observation, tuple | list) else [observation]
    return all(isinstance(number, int) for number in numbers)


def _check_encode(spec: EnvSpec, owner: str) -> None:
    if not callable(spec.encode):
        raise TypeError(
            f"{owner}: encode is {described(spec.encode)}; expected a function from one "
            "observation to Features"
        )
    encode = spec.encode.function if isinstance(spec.encode, Encoder) else spec.encode
    said = place(encode, "__call__")
    try:
        features = jax.eval_shape(spec.encode, spec.observation)
    except Exception as error:
        raise ValueError(
            f"{said} fails on one observation as {owner} describes it "
            f"({summary(spec.observation)}): {first_line(error)}"
        ) from error
    if not isinstance(features, Features):
        raise TypeError(
            f"{said}, which is {owner}.encode, returns {described(features)}; expected "
            "Features(flat=...)"
        )
    check_array(f"{said} returns Features whose flat is", features.flat, "float32", axes=1)
    if features.grid is not None:
        check_array(f"{said} returns Features whose grid is", features.grid, "float32", axes=3)


def check_shapes(environment: Any) -> None:
    """Raises unless the shapes and dtypes of an environment's spec, `reset` and `step` agree.

    It traces `reset` and `step` once. It compiles nothing and draws no random numbers.
    """
    check_is_environment(environment)
    if starts := isinstance(environment, StartStates):
        check_own_shapes(environment.inner)
    if isinstance(environment, Batched):
        _check_game(environment.game)
    spec = environment.spec
    check_spec(spec, place(environment, "spec"))
    if not isinstance(environment.truncates, bool):
        raise TypeError(
            f"{place(environment, 'truncates')} is {described(environment.truncates)}; expected "
            "True or False"
        )
    size = BLOCK if starts else TRIED
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), size))
    actions = jax.eval_shape(lambda: spec.actions.zeros(size))
    state, first = _tried(environment, "reset", keys)
    if not starts:
        _check_state(state, place(environment, "reset"))
        _check_timestep(first, spec, place(environment, "reset"))
    after, timestep = _tried(environment, "step", state, actions, keys)
    if not starts:
        _check_timestep(timestep, spec, place(environment, "step"))
    changed = difference("state", state, after)
    if changed:
        raise ValueError(
            f"{place(environment, 'step')} returns a state of another kind than it was handed: "
            f"{changed}"
        )
    names = [sorted(shown.episode.extra) for shown in (first, timestep)]
    if names[0] != names[1]:
        raise ValueError(
            f"{place(environment, 'step')} returns a Timestep whose episode.extra has {names[1]}; "
            f"expected the names that reset gives, {names[0]}"
        )


def _check_game(game: SingleGame[Any]) -> None:
    """Checks the methods of one game, so that messages name these instead of `Batched`'s."""
    count: Any = game.num_actions if type(game).actions is SingleGame.actions else 1
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(
            f"{place(game, 'num_actions')} is {described(count)}; expected a whole number, of a "
            "property or a field"
        )
    space: Any = game.actions
    if not isinstance(space, ActionSpace):
        raise TypeError(
            f"{place(game, 'actions')} is {described(space)}; expected hm.Discrete(n), "
            "hm.MultiDiscrete((n, m)) or hm.Box(low, high)"
        )
    key, action = jax.eval_shape(lambda: (jax.random.key(0), space.zeros()))
    state = _called(game, "start", key=key)
    said, mask = place(game, "legal"), _called(game, "legal", state)
    hint = "a True for each legal action"
    check_array(f"{said} returns", mask, "bool", (space.mask_size,), hint=hint)
    said, played = place(game, "play"), _called(game, "play", state, action, key=key)
    if not isinstance(played, Played):
        raise TypeError(
            f"{said} returns {described(played)}; expected an hm.Played: return "
            "hm.Played(state, reward, terminated)"
        )
    if changed := difference("state", state, played.state):
        raise ValueError(f"{said} returns a state of another kind than `start`: {changed}")
    if played.reward.shape:
        raise ValueError(f"{said} returns a reward of shape {played.reward.shape}; expected ()")
    for name in ("terminated", "truncated"):
        check_array(f"{said} returns {name}", getattr(played, name), "bool", ())


def _called(owner: Any, method: str, *given: Any, on: str = "", **named: Any) -> Any:
    try:
        return jax.eval_shape(getattr(owner, method), *given, **named)
    except Exception as error:
        raise ValueError(f"{place(owner, method)} fails{on}: {first_line(error)}") from error


def _tried(environment: Environment, method: str, *given: Any) -> tuple[Any, Timestep]:
    said = place(environment, method)
    on = f" on a batch of {jax.tree.leaves(given)[-1].shape[0]} environments"
    found = _called(environment, method, *given, on=on)
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(
            f"{said} returns {described(found)}; expected two things: return state, timestep"
        )
    if not isinstance(found[1], Timestep):
        raise TypeError(
            f"{said} returns {described(found[1])} in second place; expected an hm.Timestep: "
            "return state, hm.Timestep(...)"
        )
    return found


def _check_state(state: Any, said: str) -> None:
    for path, leaf in jax.tree.leaves_with_path(state):
        if leaf.shape[:1] != (TRIED,):
            raise ValueError(
                f"{said} returns a state whose {path_in_words('state', path)} is "
                f"{described(leaf)} for {TRIED} environments; expected {TRIED} as its first "
                f"axis: {_BATCH}"
            )


def _check_timestep(timestep: Timestep, spec: EnvSpec, said: str) -> None:
    where = f"{said}, tried with {TRIED} environments, returns a Timestep whose"
    size = spec.actions.mask_size
    every_action = f"jnp.ones((num_envs, {size}), bool) where all actions are legal"
    for name in ("mask", "last_mask"):
        shape = (TRIED, size)
        value = getattr(timestep, name)
        batched = getattr(value, "shape", None) != shape[1:]
        hint = every_action if batched else _BATCH
        check_array(f"{where} {name} is", value, "bool", shape, hint=hint)
    check_array(f"{where} reward is", timestep.reward, "float32", (TRIED,), hint=_BATCH)
    for name in ("terminated", "truncated"):
        check_array(f"{where} {name} is", getattr(timestep, name), "bool", (TRIED,), hint=_BATCH)
    for name in ("observation", "last_observation"):
        _check_observation(where, name, getattr(timestep, name), spec)
    _check_named(f"{where} terms", timestep.terms, spec)
    episode = timestep.episode
    if not isinstance(episode, EpisodeStatistics):
        raise TypeError(f"{where} episode is {described(episode)}; expected EpisodeStatistics(...)")
    numbers = {"total_reward": "float32", "length": "int32"}
    for name, dtype in numbers.items():
        check_array(
            f"{where} episode.{name} is", getattr(episode, name), dtype, (TRIED,), hint=_BATCH
        )
    _check_named(f"{where} episode.extra", episode.extra)


def _check_observation(where: str, name: str, observation: Any, spec: EnvSpec) -> None:
    if not same_structure(observation, spec.observation):
        raise ValueError(
            f"{where} {name} is {summary(observation)}; expected the structure of "
            f"spec.observation, {summary(spec.observation)}"
        )
    pairs = zip(
        jax.tree.leaves_with_path(observation), jax.tree.leaves(spec.observation), strict=True
    )
    for (path, leaf), one in pairs:
        batched = (TRIED, *one.shape)
        hint = _BATCH if leaf.shape == one.shape else "or let spec.observation say what is there"
        said = f"{where} {path_in_words(name, path)}"
        if leaf.shape == batched and leaf.dtype != one.dtype:
            raise ValueError(
                f"{said} is {described(leaf)}; expected {one.dtype}, as spec.observation says: "
                f"add .astype(jnp.{one.dtype}), or change the spec"
            )
        check_array(f"{said} is", leaf, str(one.dtype), batched, hint=hint)


def _check_named(said: str, values: Any, spec: EnvSpec | None = None) -> None:
    if not isinstance(values, dict):
        raise TypeError(f"{said} is {described(values)}; expected a dict of arrays by name")
    if spec is not None and set(values) != set(spec.terms):
        names = ", ".join(f'"{name}"' for name in values)
        raise ValueError(
            f"{said} has the names {sorted(values)}; expected the names of spec.terms, "
            f"{sorted(spec.terms)}: EnvSpec(..., terms=({names}{',' if len(values) == 1 else ''}))"
        )
    for name, value in values.items():
        check_array(f"{said}[{name!r}] is", value, "float32", (TRIED,), hint=_BATCH)
