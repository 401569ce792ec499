"""Collects rollouts: a fixed number of steps of a policy in a batch of environments."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float16, Float32, Key, PyTree, Shaped

from hackmatrix_rl.agent._action_choice import DRAWN, ActionChoice
from hackmatrix_rl.agent._auxiliary import stacked_terms
from hackmatrix_rl.agent._collector_state import (
    PER_ENVIRONMENT,
    SHARED,
    CollectorState,
    OfEnvironments,
    start_collector,
)
from hackmatrix_rl.agent._episode_sums import EpisodeSums
from hackmatrix_rl.agent.networks import ActorCritic, Evaluator, evaluator_of
from hackmatrix_rl.agent.precision import FLOAT32, PrecisionPolicy
from hackmatrix_rl.env import Environment, Timestep
from hackmatrix_rl.system.batching import is_dense, sparse_cond, taken

Fields = dict[str, PyTree[Array]]


class Rollout(OfEnvironments):
    """The transitions of `num_steps` steps in `num_envs` environments.

    Values are the outputs of the network, in the units of its `ValueScale`.
    """

    #: The observation of each step, with the result of `EnvSpec.precompute`; each leaf
    #: `[num_steps, num_envs, ...]`.
    observation: PyTree[Array]
    mask: Bool[Array, "num_steps num_envs mask_size"]  #: The legal actions of the observation.
    #: The raw action that the policy took (see `Distribution`).
    action: Shaped[Array, "num_steps num_envs *action"]
    #: Log-probability of the action under the policy that took it.
    log_prob: Float32[Array, "num_steps num_envs"]
    value: Float32[Array, "num_steps num_envs"]  #: Value of the observation.
    reward: Float32[Array, "num_steps num_envs"]  #: Reward of the action.
    #: The environment's rules ended the episode with this action.
    terminated: Bool[Array, "num_steps num_envs"]
    truncated: Bool[Array, "num_steps num_envs"]  #: A limit ended the episode with this action.
    #: Value of the position before the reset, if the episode was truncated there; 0 elsewhere.
    bootstrap_value: Float32[Array, "num_steps num_envs"]
    #: The policy's carry before the first step.
    initial_carry: PyTree[Array] = eqx.field(metadata=PER_ENVIRONMENT)
    #: Value of the observation after the last step, which may be the first of an episode.
    last_value: Float32[Array, " num_envs"] = eqx.field(metadata=PER_ENVIRONMENT)
    episodes: EpisodeSums = eqx.field(metadata=SHARED)  #: Sums over the episodes that ended.
    #: The terms of the reward in the form of `AuxiliaryTargets.terms`; `None` if not kept.
    terms: Float16[Array, "num_steps num_envs terms"] | None = None
    #: Log-probabilities of all actions, minus infinity for illegal ones, or the parameters of
    #: another `Distribution`; `None` unless the collector keeps them.
    log_probs: Float32[Array, "num_steps num_envs num_parameters"] | None = None
    notes: PyTree[Array] = ()  #: Notes of the collector's `ActionChoice`.

    @property
    def done(self) -> Bool[Array, "num_steps num_envs"]:
        """Whether an episode ended with this action, by termination or truncation."""
        return self.terminated | self.truncated


class Collector(eqx.Module):
    """Lets a policy act in an environment and records the steps."""

    num_steps: eqx.AbstractVar[int]  #: Steps of each environment in a rollout.
    #: Names of the terms of the reward to keep for every step, for an auxiliary loss.
    terms: eqx.AbstractVar[tuple[str, ...]]
    #: Whether to keep the log-probabilities of all actions for every step.
    keep_log_probs: eqx.AbstractVar[bool]

    @abstractmethod
    def start(
        self, policy: ActorCritic, environment: Environment, keys: Key[Array, " num_envs"]
    ) -> CollectorState:
        """Starts one environment for each key; see `start_collector`."""

    @abstractmethod
    def __call__(
        self,
        policy: ActorCritic,
        environment: Environment,
        collector_state: CollectorState,
        *,
        precision: PrecisionPolicy = FLOAT32,
    ) -> tuple[Rollout, CollectorState]:
        """Collects one rollout. Returns it, and the state after its last step."""


class RolloutCollector(Collector):
    """The collector for one device.

    Attributes:
        num_steps: steps of each environment in a rollout.
        terms: as in `Collector`; none by default.
        keep_log_probs: as in `Collector`; false by default.
        precompute: whether the rollout keeps the results of `EnvSpec.precompute`; true by default.
        choice: chooses the actions; by default they are drawn from the policy's distribution.
    """

    num_steps: int = eqx.field(static=True)
    terms: tuple[str, ...] = eqx.field(static=True, default=(), kw_only=True)
    keep_log_probs: bool = eqx.field(static=True, default=False, kw_only=True)
    precompute: bool = eqx.field(static=True, default=True, kw_only=True)
    choice: ActionChoice = eqx.field(default=DRAWN, kw_only=True)

    def __check_init__(self) -> None:
        if self.num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, not {self.num_steps}")

    def start(
        self, policy: ActorCritic, environment: Environment, keys: Key[Array, " num_envs"]
    ) -> CollectorState:
        return start_collector(environment, policy, keys)

    def __call__(
        self,
        policy: ActorCritic,
        environment: Environment,
        collector_state: CollectorState,
        *,
        precision: PrecisionPolicy = FLOAT32,
    ) -> tuple[Rollout, CollectorState]:
        evaluator = evaluator_of(precision.cast_to_compute(policy))
        initial = collector_state.carry
        precompute = environment.spec.precompute if self.precompute else None

        def step(state: Any, _: None) -> tuple[Any, Any]:
            collector_state, cache = state
            observation = collector_state.observation
            if precompute is not None:
                observation = jax.vmap(precompute)(observation)
            return self._step(evaluator, environment, observation, collector_state, cache)

        start = collector_state, evaluator.init_cache(collector_state.observation)
        (collector_state, _), (steps, sums) = jax.lax.scan(step, start, None, length=self.num_steps)
        logits, value, _ = jax.vmap(evaluator.policy)(
            collector_state.observation, collector_state.carry
        )
        rollout = Rollout(
            **steps,
            initial_carry=initial,
            last_value=self.choice.state_value(logits, value, collector_state.mask),
            episodes=jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), sums),
        )
        return rollout, collector_state

    def _step(
        self,
        evaluator: Evaluator,
        environment: Environment,
        observation: PyTree[Array],
        collector_state: CollectorState,
        cache: PyTree[Array],
    ) -> tuple[tuple[CollectorState, PyTree[Array]], tuple[Fields, EpisodeSums]]:
        choice = self.choice
        action_keys, environment_keys = collector_state.draw_keys()

        logits, value, carry, cache = evaluator.act_step(observation, collector_state.carry, cache)
        pi = evaluator.policy.distribution(logits, collector_state.mask)
        action, choice_state, notes = choice.choose(collector_state, pi, action_keys)
        played = pi.to_environment(action)
        state, timestep = environment.step(collector_state.environment, played, environment_keys)

        with taken(0):  # few episodes are truncated
            bootstrap = _bootstrap_value(choice, evaluator.policy, environment, timestep, carry)

        # The fields of a rollout that have an axis of steps.
        happened = dict(
            observation=observation,
            mask=collector_state.mask,
            action=action,
            log_prob=pi.log_prob(action),
            value=choice.state_value(logits, value, collector_state.mask),
            reward=timestep.reward,
            terminated=timestep.terminated,
            truncated=timestep.truncated,
            bootstrap_value=bootstrap,
            terms=stacked_terms(timestep.terms, self.terms) if self.terms else None,
            log_probs=pi.parameters if self.keep_log_probs else None,
            notes=notes,
        )
        after = collector_state.after(state, timestep, carry, evaluator.policy.initial_carry())
        sums = EpisodeSums.of(timestep, choice.counts(choice_state))
        choice_state = choice.begin_anew(choice_state, timestep.done, action_keys)
        return (replace(after, choice_state=choice_state), cache), (happened, sums)


def _bootstrap_value(
    choice: ActionChoice,
    policy: ActorCritic,
    environment: Environment,
    timestep: Timestep,
    carry: PyTree[Array],
) -> Float32[Array, " num_envs"]:
    """Value of the position before the reset if the episode was truncated, else 0."""
    # A second pass through the network, only in steps in which an episode is truncated; it is not
    # compiled for an environment that never truncates.
    nothing = jnp.zeros_like(timestep.reward)
    if not environment.truncates:
        return nothing
    arrays, code = eqx.partition(policy, eqx.is_array)
    seen = timestep.last_observation, timestep.last_mask, carry

    def value_of(_: Array, given: Any) -> Float32[Array, ""]:
        (observation, mask, carry), arrays = given
        logits, value, _ = eqx.combine(arrays, code)(observation, carry)
        return choice.state_value(logits, value, mask)

    if is_dense():  # there, a network pass over all environments is a noticeable part of a step

        def one(truncated: Bool[Array, ""], seen: Any, arrays: Any) -> Float32[Array, ""]:
            return sparse_cond(
                truncated, value_of, jnp.float32(0), (seen, arrays), share=32, gather=True
            )

        return jax.vmap(one, in_axes=(0, 0, None))(timestep.truncated, seen, arrays)

    def evaluate() -> Float32[Array, " num_envs"]:
        logits, value, _ = jax.vmap(policy)(timestep.last_observation, carry)
        value = choice.state_value(logits, value, timestep.last_mask)
        return jnp.where(timestep.truncated, value, 0.0)

    return jax.lax.cond(jnp.any(timestep.truncated), evaluate, lambda: nothing)
