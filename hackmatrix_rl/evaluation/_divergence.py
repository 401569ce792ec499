"""The divergence of two policies on the same observations."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key, PyTree

from hackmatrix_rl.agent import MaskedCategorical, RolloutCollector, start_collector
from hackmatrix_rl.agent.networks import ActorCritic, evaluator_of
from hackmatrix_rl.env import Environment, env_keys


def policy_divergence(
    policy: ActorCritic,
    other: ActorCritic,
    environment: Environment,
    *,
    key: Key[Array, ""],
    num_envs: int = 128,
    num_steps: int = 64,
) -> float:
    """Mean KL(policy || other) in nats over the observations of `policy`.

    `policy` plays from the start of new episodes. Then both policies compute their
    probabilities on its observations, in float32 and under the same masks.

    Args:
        policy: the policy that plays.
        other: the policy to compare.
        environment: the environment to play in.
        key: decides all episodes and draws.
        num_envs: number of environments.
        num_steps: steps of each environment.

    Returns:
        The divergence, at least 0.
    """
    actors = start_collector(environment, policy, env_keys(key, num_envs))
    return float(_mean_divergence(policy, other, environment, actors, RolloutCollector(num_steps)))


@eqx.filter_jit
def _mean_divergence(
    policy: ActorCritic,
    other: ActorCritic,
    environment: Environment,
    actors: PyTree[Array],
    collect: RolloutCollector,
) -> Float32[Array, ""]:
    rollout, _ = collect(policy, environment, actors)

    def chances(each: ActorCritic) -> MaskedCategorical:
        first = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (rollout.done.shape[1], *leaf.shape)),
            each.initial_carry(),
        )
        logits, _ = evaluator_of(each).unroll(rollout.observation, first, rollout.done)
        return MaskedCategorical(logits, rollout.mask)

    return jnp.mean(chances(policy).divergence_from(chances(other)))
