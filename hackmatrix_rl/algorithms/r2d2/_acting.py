"""Acting: each environment explores as much as its own epsilon says."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from hackmatrix_rl.agent import CollectorState, EpisodeSums, MaskedCategorical, epsilon_greedy
from hackmatrix_rl.agent.networks import ActorCritic, evaluator_of
from hackmatrix_rl.algorithms.r2d2._q_values import q_values
from hackmatrix_rl.env import Environment
from hackmatrix_rl.system.errors import finite, share


class EpsilonGreedy(eqx.Module):
    """Takes a random legal action with some probability, else the best one.

    The probability is another one in each environment, from `epsilon` in the first down to
    `epsilon ** (1 + spread)` in the last, evenly in its logarithm. So some explore and others show
    what was learned, and nothing needs a schedule.

    Source: Horgan et al. 2018, "Distributed prioritized experience replay".

    Raises:
        TypeError: one of them is no number.
        ValueError: `epsilon` is not from 0 to 1, or `spread` is negative.
    """

    epsilon: float = eqx.field(static=True, default=0.4)
    spread: float = eqx.field(static=True, default=7.0)

    def __check_init__(self) -> None:
        share("epsilon", self.epsilon)
        if not finite("spread", self.spread) >= 0:
            raise ValueError(f"spread must be 0 or more, not {self.spread}")

    def of_each(self, num_envs: int) -> Float32[Array, " num_envs"]:
        """The exploration probability of each environment."""
        place = np.arange(num_envs) / max(num_envs - 1, 1)
        return jnp.asarray(self.epsilon ** (1 + self.spread * place), jnp.float32)


class LastPosition(eqx.Module):
    """The observation and the legal actions to which an action led, before any reset."""

    observation: PyTree[Array]
    mask: Bool[Array, "*axes num_actions"]


class Steps(eqx.Module):
    """Transitions of some steps in some environments.

    `observation` has the axes of the other fields, then its own. `last` is the position that the
    action led to; `None` in an environment that never truncates, where the next step shows it or
    nothing follows.
    """

    observation: PyTree[Array]
    mask: Bool[Array, "*axes num_actions"]
    action: Int32[Array, "*axes"]
    reward: Float32[Array, "*axes"]
    terminated: Bool[Array, "*axes"]
    truncated: Bool[Array, "*axes"]
    last: LastPosition | None

    @property
    def done(self) -> Bool[Array, "*axes"]:
        """Whether an episode ended with this action."""
        return self.terminated | self.truncated


class NewSteps(eqx.Module):
    """The results of the steps of an update.

    `memory` is the network's before the first of them, `collector` has the environments after the
    last one, `steps` is as `play_steps` returns it, and `episodes` sums over those that ended.
    """

    memory: PyTree[Array]
    collector: CollectorState
    steps: Steps
    episodes: EpisodeSums


def play_steps(
    policy: ActorCritic,
    environment: Environment,
    collector_state: CollectorState,
    epsilons: Float32[Array, " num_envs"],
    count: int,
    *,
    dueling: bool,
) -> tuple[CollectorState, Steps, EpisodeSums]:
    """Takes `count` steps in each environment, with the network in the dtype in which it computes.

    Returns:
        The state after the steps; the steps, each leaf `[num_envs, count, ...]`; and sums over
        the episodes that ended.
    """
    evaluator = evaluator_of(policy)

    def step(state: Any, _: None) -> tuple[Any, Any]:
        collector_state, cache = state
        action_keys, environment_keys = collector_state.draw_keys()
        seen, mask = collector_state.observation, collector_state.mask
        logits, value, carry, cache = evaluator.act_step(seen, collector_state.carry, cache)
        values = q_values(logits, value, dueling=dueling)
        pi = MaskedCategorical(values, mask)
        action = jax.vmap(epsilon_greedy)(pi, epsilons, action_keys)
        board, timestep = environment.step(collector_state.environment, action, environment_keys)
        last = LastPosition(timestep.last_observation, timestep.last_mask)
        happened = Steps(
            observation=seen,
            mask=mask,
            action=action,
            reward=timestep.reward,
            terminated=timestep.terminated,
            truncated=timestep.truncated,
            last=last if environment.truncates else None,
        )
        after = collector_state.after(board, timestep, carry, policy.initial_carry())
        return (after, cache), (happened, EpisodeSums.of(timestep))

    start = collector_state, evaluator.init_cache(collector_state.observation)
    (collector_state, _), (steps, sums) = jax.lax.scan(step, start, None, length=count)
    return (
        collector_state,
        jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), steps),
        jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), sums),
    )
