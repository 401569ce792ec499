"""Acting: epsilon-greedy, with a different epsilon in each environment."""

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
    """Takes a random legal action with some probability, else the greedy one.

    The probability differs between environments: from `epsilon` in the first to
    `epsilon ** (1 + spread)` in the last, evenly spaced in its logarithm. So exploration needs no
    schedule.

    Source: Horgan et al. 2018, "Distributed prioritized experience replay".

    Raises:
        TypeError: an argument is not a number.
        ValueError: `epsilon` is not in [0, 1], or `spread` is negative.
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
    """The observation and the legal actions after an action, before any reset."""

    observation: PyTree[Array]
    mask: Bool[Array, "*axes num_actions"]


class Steps(eqx.Module):
    """Transitions.

    `observation` has the axes of the other fields, then its own. `last` is the position after the
    action. It is `None` in an environment that never truncates: there the next step has it, unless
    the episode terminated.
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
    """The steps of an update.

    `memory` is the network's memory before the first step, `collector` the environments after the
    last step. `steps` and `episodes` are as `play_steps` returns them.
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
    """Takes `count` steps in each environment. The network is already in its compute dtype.

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
