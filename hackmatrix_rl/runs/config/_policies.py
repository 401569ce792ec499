"""Builds the network of a config, and checks that its code is trusted."""

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from pathlib import PurePath

import equinox as eqx
import jax
from jaxtyping import Array, Key

from hackmatrix_rl.agent.networks import (
    NETWORKS,
    ActorCritic,
    add_auxiliary_head,
    add_normalization,
    build_network,
    module_of,
    with_value_head,
)
from hackmatrix_rl.env import EnvSpec
from hackmatrix_rl.runs.config._environments import env_code
from hackmatrix_rl.runs.config._known_code import Code
from hackmatrix_rl.runs.config._run_config import RunConfig
from hackmatrix_rl.runs.config._traits import Heads
from hackmatrix_rl.system import available_memory, bytes_of, format_bytes, state_folder
from hackmatrix_rl.system.errors import ConfigError, UntrustedCodeError, flag, refusing, shortened

# Folded into the network's key; splitting the key uses only small numbers.
AUXILIARY_KEY, VALUE_KEY = 2**31 + 1, 2**31 + 2


def build_named(
    config: RunConfig, spec: EnvSpec, *, key: Key[Array, ""], copies: int = 1
) -> ActorCritic:
    """The network of a config, without heads; `copies` is the number of parameter copies."""
    presets = *type(config).presets.values(), getattr(config, "elsewhere", {})
    chosen = config.width not in [each.get("width") for each in presets]
    build = partial(
        build_network,
        config.network,
        spec,
        width=config.width,
        depth=config.depth,
        optional=() if chosen else ("width",),
    )
    try:
        if config.network in NETWORKS and (config.width or config.depth):
            _check_room(config, copies * bytes_of(eqx.filter_eval_shape(build, key=key)))
        return build(key=key)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"--network {config.network}: {error}") from error


def build_policy(
    config: RunConfig, spec: EnvSpec, heads: Heads, *, key: Key[Array, ""], copies: int = 1
) -> ActorCritic:
    """The network of `build_named` with its heads. An auxiliary head changes no other weights."""
    named = f"--network {config.network}"
    policy = build_named(config, spec, key=key, copies=copies)
    if heads.value != "scalar":
        advice = ". Use --value-head scalar, or a network of this package."
        with refusing(f"--value-head {heads.value}: {named} cannot do that: ", advice):
            policy = with_value_head(policy, heads.value, key=jax.random.fold_in(key, VALUE_KEY))
    if heads.normalized:
        policy = add_normalization(policy, spec)
    if not heads.auxiliary:
        return policy
    advice = ". Use --aux-coefficient 0, or a network of this package."
    with refusing(f"--aux-coefficient: {named} cannot do that: ", advice):
        own_key = jax.random.fold_in(key, AUXILIARY_KEY)
        return add_auxiliary_head(policy, spec, wins=heads.victory, key=own_key)


def code_of(config: RunConfig) -> dict[str, Code]:
    """The custom code that settings name, by setting."""
    named = {"network": module_of, "env": env_code, "teacher": module_of}
    found = {name: getattr(config, name, None) for name in named}
    return {
        name: Code(name, text, module, from_here=module_of(text) is not None)
        for name, text in found.items()
        if text is not None and (module := named[name](text)) is not None
    }


def check_trusted(
    config: RunConfig, source: PurePath, *, trust_code: bool, named: Collection[str] = ("teacher",)
) -> None:
    """Refuses a stored config that names code, unless the user trusts it.

    Code is trusted if the user has trained with it on this machine, or with `trust_code`, which
    also remembers it. `named` are settings to skip: their code is not imported, or the user has
    named it.
    """
    for name, each in code_of(config).items():
        if name not in named:
            check_code(each, source, trust_code=trust_code)


def check_code(code: Code, source: PurePath, *, trust_code: bool) -> None:
    """`check_trusted` for one setting."""
    if trust_code:
        with suppress(OSError):  # then the user must trust it again
            code.remember()
    elif (found := code.look()) != "known":
        shown, python = shortened(code.text), " or network=..." if code.setting == "network" else ""
        kind = "environment" if code.setting == "env" else code.setting
        changed = ", which has changed since you trained with it" if found == "changed" else ""
        raise UntrustedCodeError(
            f"{source}: its {kind} {shown} is code of the module {shortened(code.module)}{changed},"
            " which would be imported and run. ",
            f"If you trust it, use --trust-code, or name it yourself: {flag(code.setting)} {shown} "
            f"(in Python, trust_code=True{python}).",
        )


def remember_code(config: RunConfig) -> str | None:
    """Remembers the code of a new training, named by its user; returns a line if that fails."""
    for stage in config.stages:
        for each in code_of(stage).values():
            try:
                each.remember()
            except OSError as error:
                return (
                    f"could not remember {each.text} in {state_folder()} "
                    f"({error.strerror or error}): commands that play this run need --trust-code"
                )
    return None


def _check_room(config: RunConfig, needed: int) -> None:
    """Refuses a network that cannot fit into memory, because XLA would end the process."""
    available = available_memory()
    if available is not None and needed > available[0]:
        given = [f"--{name} {getattr(config, name)}" for name in ("width", "depth")]
        named = " ".join(each for each in given if not each.endswith("None"))
        raise ConfigError(
            f"--network {config.network} {named} needs {format_bytes(needed)} for itself "
            f"alone, but there are {format_bytes(available[0])} of {available[1]}. Use a smaller "
            "--width or --depth."
        )
