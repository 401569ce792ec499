"""The state of a batch of environments between two rollouts."""

import dataclasses
from dataclasses import replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key, PyTree, UInt32

from hackmatrix_rl.agent.networks import ActorCritic, reset_carry
from hackmatrix_rl.env import Environment, Timestep

_AXIS = "environments"

PER_ENVIRONMENT = {_AXIS: 0}
"""Metadata of a field whose leaves are `[num_envs, ...]`."""
SHARED = {_AXIS: None}
"""Metadata of a field without an axis of environments."""


class OfEnvironments(eqx.Module):
    """Arrays with an axis of environments: axis `AXIS`, unless a field's metadata names another."""

    AXIS: ClassVar[int] = 1

    @classmethod
    def environment_axes(cls) -> dict[str, int | None]:
        """The axis of environments of each field; `None` for a field without this axis."""
        return {each.name: each.metadata.get(_AXIS, cls.AXIS) for each in dataclasses.fields(cls)}


class CollectorState(OfEnvironments):
    """The state of a batch of environments between two rollouts.

    Every field but `step` has a leading axis of environments, along which the batch can be
    sharded.
    """

    AXIS = 0

    environment: PyTree[Array]  #: State of the environments.
    observation: PyTree[Array]  #: The observation for the next action.
    mask: Bool[Array, "num_envs mask_size"]  #: The legal actions of `observation`.
    carry: PyTree[Array]  #: Carry of the policy before the next action.
    #: One random key for each environment. Keys never change: every random draw depends on the
    #: environment's key and on `step`.
    keys: Key[Array, " num_envs"]
    #: Number of steps that each environment has taken.
    step: UInt32[Array, ""] = eqx.field(metadata=SHARED)
    choice_state: PyTree[Array] = ()  #: State of the collector's `ActionChoice`.

    def draw_keys(self) -> tuple[Key[Array, " num_envs"], Key[Array, " num_envs"]]:
        """The keys of this step: for the actions, and for the environment."""
        # Number 0 was the key of the first reset.
        here = jax.vmap(jax.random.fold_in, in_axes=(0, None))(self.keys, self.step + 1)
        pair = jax.vmap(jax.random.split)(here)
        return pair[:, 0], pair[:, 1]

    def after(
        self,
        environment: PyTree[Array],
        timestep: Timestep,
        carry: PyTree[Array],
        initial_carry: PyTree[Array],
    ) -> "CollectorState":
        """The state after a step of all environments; new episodes start with `initial_carry`."""
        return replace(
            self,
            environment=environment,
            observation=timestep.observation,
            mask=timestep.mask,
            carry=reset_carry(carry, initial_carry, timestep.done),
            step=self.step + 1,
        )


def start_collector(
    environment: Environment, policy: ActorCritic, keys: Key[Array, " num_envs"]
) -> CollectorState:
    """Starts one environment for each key (see `env_keys`); its later draws depend on this key."""
    num_envs = keys.shape[0]
    first = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 0)
    state, timestep = environment.reset(first)
    carry = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf[None], (num_envs, *leaf.shape)), policy.initial_carry()
    )
    return CollectorState(
        environment=state,
        observation=timestep.observation,
        mask=timestep.mask,
        carry=carry,
        keys=keys,
        step=jnp.zeros((), jnp.uint32),
    )
