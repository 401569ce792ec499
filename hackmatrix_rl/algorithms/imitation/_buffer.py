"""The buffer of labelled positions, on the devices."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree, Shaped, UInt32

from hackmatrix_rl.agent import Batch, ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import EnvSpec, Symmetry
from hackmatrix_rl.training import empty_ring, write_ring
from hackmatrix_rl.training.sharding import BY_ENVIRONMENT, BY_STEP_AND_ENVIRONMENT, on_each_device


class Labelled(eqx.Module):
    """Positions with the teacher's labels.

    `observation` has the axes of the other fields, then its own. `action` is the teacher's. `done`
    is whether the episode ended with the action that was played. `value_target` is in units of
    reward. `probabilities` are the teacher's; `None` without soft labels.
    """

    observation: PyTree[Array]
    mask: Bool[Array, "*axes mask_size"]
    action: Shaped[Array, "*axes_and_action"]
    done: Bool[Array, "*axes"]
    value_target: Float32[Array, "*axes"]
    probabilities: Float32[Array, "*axes num_actions"] | None = None


class Buffer(eqx.Module):
    """The positions of the newest rollouts, in a ring per environment.

    Each environment is sampled separately, so sampling needs no communication and does not depend
    on the number of devices.

    Attributes:
        positions: each leaf `[num_envs, slots * num_steps, ...]`.
        carries: the student's memory before each rollout; each leaf `[num_envs, slots, ...]`.
        written: number of rollouts written so far.
    """

    positions: Labelled
    carries: PyTree[Array]
    written: UInt32[Array, ""]

    @classmethod
    def empty(
        cls,
        spec: EnvSpec,
        policy: ActorCritic,
        *,
        num_envs: int,
        num_steps: int,
        slots: int,
        soft: bool = False,
    ) -> "Buffer":
        """An empty buffer."""
        shape = (num_envs, slots * num_steps)
        positions = Labelled(
            observation=empty_ring(spec.observation, *shape),
            mask=jnp.zeros((*shape, spec.actions.mask_size), bool),
            action=spec.actions.zeros(*shape),
            done=jnp.zeros(shape, bool),
            value_target=jnp.zeros(shape, jnp.float32),
            probabilities=jnp.zeros((*shape, spec.num_actions), jnp.float32) if soft else None,
        )
        carries = empty_ring(policy.initial_carry(), num_envs, slots)
        return cls(positions, carries, jnp.zeros((), jnp.uint32))

    def write(self, positions: Labelled, carry: PyTree[Array]) -> "Buffer":
        """The buffer with a new rollout over the oldest one.

        `positions` are `[num_steps, num_envs, ...]`; `carry` is the student's memory before them.
        """
        num_steps = positions.action.shape[0]
        slot = (self.written % self.slots(num_steps)).astype(jnp.int32)
        rows = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), positions)
        carry = jax.tree.map(lambda leaf: leaf[:, None], carry)
        return Buffer(
            write_ring(self.positions, rows, slot * num_steps),
            write_ring(self.carries, carry, slot),
            self.written + 1,
        )

    def slots(self, num_steps: int) -> int:
        """The capacity in rollouts of `num_steps` steps."""
        return self.positions.action.shape[1] // num_steps

    def draw(
        self,
        num_steps: int,
        mesh: Mesh,
        augment: Symmetry | None,
        value_scale: ValueScale,
        *,
        key: Key[Array, ""],
    ) -> Batch:
        """A random batch with `num_steps` positions of each environment.

        A student without memory gets independent positions. A student with memory gets full
        rollouts, each with the memory before it.
        """
        num_envs = self.positions.action.shape[0]
        filled = jnp.minimum(self.written, self.slots(num_steps)).astype(jnp.int32)

        def on_one(filled: Int32[Array, ""], augment: Symmetry | None, given: Any) -> Any:
            def each(positions: Labelled, carries: PyTree[Array], key: Array) -> Any:
                pick_key, change_key = jax.random.split(key)
                some, carry = _picked(positions, carries, filled, num_steps, pick_key)
                return _changed(some, augment, change_key), carry

            return jax.vmap(each, out_axes=(1, 0))(*given)

        found, carry = on_each_device(
            mesh,
            on_one,
            (filled, augment),
            (self.positions, self.carries, jax.random.split(key, num_envs)),
            takes=BY_ENVIRONMENT,
            returns=(BY_STEP_AND_ENVIRONMENT, BY_ENVIRONMENT),
        )
        nothing = jnp.zeros_like(found.value_target)
        return Batch(
            observation=found.observation,
            mask=found.mask,
            action=found.action,
            log_prob=nothing,
            value=nothing,
            done=found.done,
            initial_carry=carry,
            advantage=nothing,
            value_target=value_scale.normalize(found.value_target),
            teacher_log_probs=None if found.probabilities is None else jnp.log(found.probabilities),
        )


def _picked(
    positions: Labelled,
    carries: PyTree[Array],
    filled: Int32[Array, ""],
    num_steps: int,
    key: Key[Array, ""],
) -> tuple[Labelled, PyTree[Array]]:
    """Independent positions of an environment; with memory a rollout and the memory before it."""
    if not jax.tree.leaves(carries):
        places = jax.random.randint(key, (num_steps,), 0, filled * num_steps)
        return jax.tree.map(lambda leaf: leaf[places], positions), carries
    slot = jax.random.randint(key, (), 0, filled)
    some = jax.tree.map(
        lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, slot * num_steps, num_steps), positions
    )
    return some, jax.tree.map(lambda leaf: leaf[slot], carries)


def _changed(positions: Labelled, augment: Symmetry | None, key: Key[Array, ""]) -> Labelled:
    if augment is None:
        return positions

    def one(positions: Labelled, key: Key[Array, ""]) -> Labelled:
        changed = augment(positions.observation, key=key)
        return replace(
            positions,
            observation=changed.observation,
            mask=changed.of_each(positions.mask),
            action=changed.action(positions.action),
            probabilities=jax.tree.map(changed.of_each, positions.probabilities),
        )

    return jax.vmap(one)(positions, jax.random.split(key, positions.action.shape[0]))
