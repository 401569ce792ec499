"""Checks of the arguments of `evaluate`, before it traces or plays anything."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from hackmatrix_rl.agent import check_policy_shapes
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import (
    KINDS,
    Environment,
    EnvSpec,
    HackMatrix,
    Kind,
    check_is_environment,
    check_own_shapes,
)
from hackmatrix_rl.evaluation._player import Agent, PolicyAgent, StateAgent
from hackmatrix_rl.system.errors import (
    check_array,
    described,
    difference,
    first_line,
    is_ours,
    place,
    summary,
)


def check_environment_and_players(environment: Any, players: Any) -> None:
    """Raises unless the shapes of each player fit the environment, and no player contains NaN."""
    check_is_environment(environment)
    check_own_shapes(environment)
    for player in players:
        check_is_player(player)
        network = player.policy if isinstance(player, PolicyAgent) else player
        if isinstance(player, StateAgent):
            if (wrong := player.mismatch(environment)) is not None:
                raise ValueError(wrong)
        elif isinstance(network, ActorCritic):
            _check_network(network, environment)
        elif not is_ours(player):
            _check_shapes(player, environment)
        _check_numbers(player)


def check_player(player: Any, environment: Any) -> None:
    """Raises unless a player fits an environment; see `check_environment_and_players`."""
    check_environment_and_players(environment, [player])


def check_is_player(player: Any) -> None:
    """Raises a TypeError unless this is an instance of a network or of a scripted player."""
    if isinstance(player, ActorCritic | Agent):
        return
    if isinstance(player, type):
        takes = "env.spec, key=jax.random.key(0)" if issubclass(player, ActorCritic) else ""
        raise TypeError(
            f"policy is the class {player.__name__}; expected an instance: "
            f"{player.__name__}({takes})"
        )
    raise TypeError(
        f"policy is {described(player)}; expected an instance of hm.ActorCritic, or of "
        "hackmatrix_rl.evaluation.Agent, such as RandomAgent()"
    )


def _check_numbers(player: ActorCritic | Agent) -> None:
    """Raises a ValueError if a player contains NaN, as the network of a diverged training does."""
    for path, leaf in jax.tree.leaves_with_path(player):
        if eqx.is_inexact_array(leaf) and np.isnan(leaf).any():
            raise ValueError(
                f"policy is a {type(player).__name__} whose {jax.tree_util.keystr(path)} holds "
                "NaN, so its actions are undefined. Use a checkpoint from before its training "
                "diverged"
            )


def _check_network(network: ActorCritic, environment: Environment) -> None:
    """Raises unless a network accepts the observations; names the kind that it accepts."""
    try:
        check_policy_shapes(network, environment.spec)
    except ValueError as error:
        if not isinstance(environment, HackMatrix):
            raise
        for kind in KINDS:
            if kind != environment.observation and _takes(network, environment, kind):
                raise ValueError(
                    f"{type(network).__name__} was built for observation={kind!r}, and this "
                    f"environment has observation={environment.observation!r}. Play in "
                    f"HackMatrix(..., observation={kind!r}), or in the environment of hm.load"
                ) from error
        raise


def _takes(network: ActorCritic, environment: HackMatrix, kind: Kind) -> bool:
    """Whether a network accepts another kind of observation of the game."""
    try:
        check_policy_shapes(network, replace(environment, observation=kind).spec)
    except (TypeError, ValueError):
        return False
    return True


def _check_shapes(player: Agent, environment: Environment) -> None:
    """Raises unless a custom player returns an action and a carry of the right shapes."""
    spec: EnvSpec = environment.spec
    said = place(player, "act")

    def act(player: Agent, observation: Any) -> Any:
        carry = player.initial_carry()
        chosen = player.act(observation, spec.actions.every(), carry, key=jax.random.key(0))
        return carry, chosen

    try:
        carry, chosen = eqx.filter_eval_shape(act, player, spec.observation)
    except Exception as error:
        raise ValueError(
            f"{said} fails on one observation of this environment ({summary(spec.observation)}): "
            f"{first_line(error)}"
        ) from error
    if not isinstance(chosen, tuple) or len(chosen) != 2:
        raise TypeError(f"{said} returns {described(chosen)}; expected: return action, carry")
    one = jax.eval_shape(spec.actions.zeros)
    hint = f"one action, jnp.{one.dtype}"
    check_array(f"{said} returns as action", chosen[0], str(one.dtype), one.shape, hint=hint)
    changed = difference("carry", carry, chosen[1])
    if changed:
        raise ValueError(f"{said} returns another kind of carry than it received: {changed}")
