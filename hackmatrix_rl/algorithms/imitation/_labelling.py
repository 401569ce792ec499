"""Labels positions with the teacher's actions, while the teacher or the student plays."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Key, PyTree, Shaped

from hackmatrix_rl.agent import ActionChoice, CollectorState, Distribution
from hackmatrix_rl.agent.networks import reset_carry
from hackmatrix_rl.env import ActionSpace
from hackmatrix_rl.evaluation import Agent, RandomAgent, ThinkingAgent, read_by
from hackmatrix_rl.system.batching import select

_AT_THE_START = np.uint32(2**32 - 1)
"""Folded into an environment's key for its first episode; no step has this index."""


class Teaching(eqx.Module):
    """The teacher's memory, and whether the teacher plays the episode, by environment."""

    carry: PyTree[Array]
    taught: Bool[Array, " num_envs"]


class Label(eqx.Module):
    """The labels of a step, or of all steps of a rollout.

    `action` is the teacher's action, as a raw action of the student's distribution, `log_prob` its
    log-probability under the student, and `mode` the student's most likely action. `taught` is
    whether the teacher's action was played.
    `probabilities` are the teacher's; `None` without soft labels.
    """

    action: Shaped[Array, "*steps_and_action"]
    log_prob: Float32[Array, "*steps num_envs"]
    mode: Shaped[Array, "*steps_and_action"]
    taught: Bool[Array, "*steps num_envs"]
    probabilities: Float32[Array, "*steps num_envs num_actions"] | None = None


class Labelling(ActionChoice):
    """Labels each position with the teacher's action, while the teacher or the student plays.

    The teacher plays an episode with probability `beta`, else the student plays it. The player is
    drawn per episode, not per step: a teacher that acts in some steps of an episode corrects the
    student's errors, so positions that only the student reaches would be rare until `beta` is
    nearly 0. A fraction `random_share` of the steps has a random legal action instead. With `soft`,
    the label includes the teacher's probabilities.

    Source: Ross et al. 2011, "A reduction of imitation learning and structured prediction to
    no-regret online learning" (DAgger).
    """

    teacher: Agent
    beta: Float32[Array, ""]
    random_share: float = eqx.field(static=True)
    soft: bool = eqx.field(static=True, default=False)
    actions: ActionSpace | None = eqx.field(static=True, default=None)  #: As in `RandomAgent`.

    def start(self, keys: Key[Array, " num_envs"]) -> Teaching:
        carry = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (keys.shape[0], *leaf.shape)),
            self.teacher.initial_carry(),
        )
        first = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, _AT_THE_START)
        return Teaching(carry=carry, taught=self._is_taught(first))

    def choose(
        self, collector_state: CollectorState, pi: Distribution, keys: Key[Array, " num_envs"]
    ) -> tuple[Shaped[Array, "num_envs *action"], Teaching, Label]:
        """The raw action to play, the next state, and the label."""
        state: Teaching = collector_state.choice_state
        draw = _draws(keys)
        read = read_by(
            self.teacher, collector_state.observation, lambda: collector_state.environment.games
        )

        def ask(
            read: PyTree[Array], mask: Array, carry: PyTree[Array], key: Array
        ) -> tuple[Array, PyTree[Array], Array | None]:
            if self.soft:
                assert isinstance(self.teacher, ThinkingAgent)
                action, carry, thought = self.teacher.think(read, mask, carry, key=key)
                return action, carry, thought.probabilities
            return *self.teacher.act(read, mask, carry, key=key), None

        label, carry, probabilities = jax.vmap(ask)(
            read, collector_state.mask, state.carry, draw.teacher
        )
        own = jax.vmap(lambda one, key: one.sample(key))(pi, draw.student)
        label = pi.from_environment(label)
        chosen = jax.vmap(select)(state.taught, label, own)
        stray = RandomAgent(self.actions)
        any_legal, _ = jax.vmap(lambda mask, key: stray.act((), mask, (), key=key))(
            collector_state.mask, draw.random
        )
        strays = jax.vmap(jax.random.uniform)(draw.strays) < self.random_share
        note = Label(
            action=label,
            log_prob=pi.log_prob(label),
            mode=pi.mode(),
            taught=state.taught & ~strays,
            probabilities=probabilities,
        )
        action = jax.vmap(select)(strays, pi.from_environment(any_legal), chosen)
        return action, Teaching(carry=carry, taught=state.taught), note

    def begin_anew(
        self, state: Teaching, done: Bool[Array, " num_envs"], keys: Key[Array, " num_envs"]
    ) -> Teaching:
        """Resets the teacher's memory where an episode ended, and draws who plays the next one."""
        return Teaching(
            carry=reset_carry(state.carry, self.teacher.initial_carry(), done),
            taught=jnp.where(done, self._is_taught(_draws(keys).player), state.taught),
        )

    def counts(self, state: Teaching) -> Bool[Array, " num_envs"]:
        """Whether the student plays the episode, by environment."""
        return ~state.taught

    def _is_taught(self, keys: Key[Array, " num_envs"]) -> Bool[Array, " num_envs"]:
        return jax.vmap(jax.random.uniform)(keys) < self.beta


class _Draws(NamedTuple):
    """The keys of one step, by what they draw."""

    student: Key[Array, " num_envs"]
    teacher: Key[Array, " num_envs"]
    random: Key[Array, " num_envs"]
    strays: Key[Array, " num_envs"]
    player: Key[Array, " num_envs"]


def _draws(keys: Key[Array, " num_envs"]) -> _Draws:
    each = jax.vmap(lambda key: jax.random.split(key, len(_Draws._fields)))(keys)
    return _Draws(*(each[:, place] for place in range(len(_Draws._fields))))
