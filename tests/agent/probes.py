"""Environments so small that their values are known, and a way to train on them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree

from hackmatrix_rl.agent import GAE, IdentityScale, MaskedCategorical, PPOLoss
from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.env import Environment, EnvSpec, EpisodeStatistics, Features, Timestep
from hackmatrix_rl.training import Trainer

NUM_STATES = 4
NUM_ACTIONS = 3
DISCOUNT = 0.9

GOES_ON, TERMINATES, TRUNCATES = 0, 1, 2


def as_board(observation: Float32[Array, " states"]) -> Features:
    return Features(flat=observation, grid=observation.reshape(2, 2, 1))


class Probe(Environment):
    """A finite decision process. What is seen is which state it is, unless told otherwise.

    All probes have the same shapes, so that all of them train by one compiled program.
    """

    leads_to: Array  # [state, action] -> state
    reward: Array  # [state, action]
    ending: Array  # [state, action] -> GOES_ON, TERMINATES or TRUNCATES
    legal: Array  # [state, action]
    starts: Array  # [state] -> chance of starting there, after an episode that ended elsewhere
    restart: Array  # [state] -> where the next episode starts, or -1 for a draw
    shown: Array  # [state, 4]
    board: bool = eqx.field(static=True)

    def __init__(
        self,
        rows: dict[tuple[int, int | None], tuple[float, int, int]],
        *,
        starts: tuple[int, ...] = (0,),
        illegal: tuple[tuple[int, int], ...] = (),
        restart: dict[int, int] | None = None,
        looks_like: dict[int, int] | None = None,
        board: bool = False,
    ) -> None:
        """`rows`: (state, action or None for all) -> (reward, next state, ending)."""
        shape = (NUM_STATES, NUM_ACTIONS)
        leads_to, ending = np.zeros(shape, np.int32), np.full(shape, TERMINATES, np.int32)
        reward, legal = np.zeros(shape, np.float32), np.ones(shape, bool)
        for (state, action), (pays, after, ends) in rows.items():
            where = (state, slice(None) if action is None else action)
            leads_to[where], reward[where], ending[where] = after, pays, ends
        for state, action in illegal:
            legal[state, action] = False
        again = np.full(NUM_STATES, -1, np.int32)
        for state, first in (restart or {}).items():
            again[state] = first
        shown = np.eye(NUM_STATES, dtype=np.float32)
        for state, other in (looks_like or {}).items():
            shown[state] = shown[other]
        chance = np.zeros(NUM_STATES, np.float32)
        chance[list(starts)] = 1 / len(starts)
        self.leads_to, self.reward = jnp.asarray(leads_to), jnp.asarray(reward)
        self.ending, self.legal = jnp.asarray(ending), jnp.asarray(legal)
        self.restart, self.shown = jnp.asarray(again), jnp.asarray(shown)
        self.starts = jnp.asarray(chance)
        self.board = board

    @property
    def spec(self) -> EnvSpec:
        seen = jax.ShapeDtypeStruct((NUM_STATES,), jnp.float32)
        if self.board:
            return EnvSpec(NUM_ACTIONS, seen, as_board, terms=("all",))
        return EnvSpec(NUM_ACTIONS, seen, terms=("all",))

    @property
    def truncates(self) -> bool:
        return True

    def _draw(self, keys: Array) -> Array:
        logits = jnp.log(self.starts)
        return jax.vmap(lambda key: jax.random.categorical(key, logits))(keys).astype(jnp.int32)

    def _timestep(self, now: PyTree, before: PyTree, reward: Array, ends: Array) -> Timestep:
        return Timestep(
            observation=self.shown[now["state"]],
            mask=self.legal[now["state"]],
            reward=reward,
            terminated=ends == TERMINATES,
            truncated=ends == TRUNCATES,
            last_observation=self.shown[before["state"]],
            last_mask=self.legal[before["state"]],
            terms={"all": reward},
            episode=EpisodeStatistics(
                total_reward=before["total"],
                length=before["length"],
                extra={"last_state": before["state"].astype(jnp.float32)},
            ),
        )

    def reset(self, keys: Array) -> tuple[PyTree, Timestep]:
        n = keys.shape[0]
        state = {
            "state": self._draw(keys),
            "total": jnp.zeros((n,), jnp.float32),
            "length": jnp.zeros((n,), jnp.int32),
        }
        nothing = jnp.zeros((n,), jnp.float32)
        return state, self._timestep(state, state, nothing, jnp.full((n,), GOES_ON, jnp.int32))

    def step(self, state: PyTree, actions: Array, keys: Array) -> tuple[PyTree, Timestep]:
        here = (state["state"], actions)
        reward, ends = self.reward[here], self.ending[here]
        after = {
            "state": self.leads_to[here],
            "total": state["total"] + reward,
            "length": state["length"] + 1,
        }
        again = self.restart[state["state"]]
        first = jnp.where(again >= 0, again, self._draw(keys))
        done = ends != GOES_ON
        now = {
            "state": jnp.where(done, first, after["state"]),
            "total": jnp.where(done, 0.0, after["total"]),
            "length": jnp.where(done, 0, after["length"]),
        }
        return now, self._timestep(now, after, reward, ends)


def value_only() -> Probe:
    """One step, one reward: the value is 1."""
    return Probe({(0, None): (1.0, 0, TERMINATES)})


def discounting() -> Probe:
    """A reward of 1 at the second step: the values are the discount, and 1."""
    return Probe({(0, None): (0.0, 1, GOES_ON), (1, None): (1.0, 0, TERMINATES)})


def action_matters() -> Probe:
    """Action 1 pays 1, the others -1."""
    return Probe({(0, None): (-1.0, 0, TERMINATES), (0, 1): (1.0, 0, TERMINATES)})


def observation_matters() -> Probe:
    """Action 0 is right in state 0, action 1 in state 1, action 2 in state 2."""
    rows: dict[tuple[int, int | None], tuple[float, int, int]] = {}
    for state in range(3):
        rows[state, None] = (0.0, 0, TERMINATES)
        rows[state, state] = (1.0, 0, TERMINATES)
    return Probe(rows, starts=(0, 1, 2))


def mask_matters() -> Probe:
    """Action 2 would pay 10 and is illegal in state 0; action 1 pays 1."""
    rows: dict[tuple[int, int | None], tuple[float, int, int]] = {
        (0, None): (0.0, 0, TERMINATES),
        (0, 1): (1.0, 0, TERMINATES),
        (0, 2): (10.0, 0, TERMINATES),
    }
    return Probe(rows, illegal=((0, 2),))


def truncation() -> Probe:
    """1 reward a step for ever, but cut at every third step, which cannot be seen."""
    return Probe(
        {
            (0, None): (1.0, 1, GOES_ON),
            (1, None): (1.0, 2, GOES_ON),
            (2, None): (1.0, 0, TRUNCATES),
        },
        looks_like={1: 0, 2: 0},
    )


def termination() -> Probe:
    """1 reward a step, and an end after the third: worth 1 + 0.9 + 0.81, 1 + 0.9, and 1."""
    return Probe(
        {
            (0, None): (1.0, 1, GOES_ON),
            (1, None): (1.0, 2, GOES_ON),
            (2, None): (1.0, 0, TERMINATES),
        }
    )


def reset_leak() -> Probe:
    """An episode worth nothing is followed by one worth 10, and the other way round.

    State 0 goes on for ever and pays nothing, state 1 goes on for ever and pays 1 a step;
    both are cut after each step. State 2 ends at once with nothing, and state 1 follows.
    """
    return Probe(
        {
            (0, None): (0.0, 0, TRUNCATES),
            (1, None): (1.0, 1, TRUNCATES),
            (2, None): (0.0, 2, TERMINATES),
        },
        restart={0: 2, 2: 1, 1: 0},
    )


def memory() -> Probe:
    """State 0 or 1 is seen, then a blank; the right action there is the state's number."""
    return Probe(
        {
            (0, None): (0.0, 2, GOES_ON),
            (1, None): (0.0, 3, GOES_ON),
            (2, None): (-1.0, 0, TERMINATES),
            (2, 0): (1.0, 0, TERMINATES),
            (3, None): (-1.0, 0, TERMINATES),
            (3, 1): (1.0, 0, TERMINATES),
        },
        starts=(0, 1),
        looks_like={3: 2},
    )


def make_trainer(probe: Probe, policy: Any = None, **changes: Any) -> Trainer:
    """A trainer of PPO that is small and quick.

    `changes` are further arguments of `PPO`, or of `Trainer` where it has them.
    """
    if policy is None:
        policy = MLPActorCritic(probe.spec, width=16, depth=1, key=jax.random.key(0))
    settings: dict[str, Any] = {
        "loss": PPOLoss(ent_coef=0.001),
        "gae": GAE(DISCOUNT, 0.95),
        "learning_rate": 0.01,
        "value_scale": IdentityScale(),
        "num_envs": 16,
        "num_steps": 8,
        "num_minibatches": 2,
        "update_epochs": 4,
    }
    of_trainer: dict[str, Any] = {"updates_per_dispatch": 100}
    for name in ("hooks", "updates_per_dispatch", "eager", "clock"):
        if name in changes:
            of_trainer[name] = changes.pop(name)
    return Trainer(PPO(probe, policy, **{**settings, **changes}), **of_trainer)


def train(probe: Probe, *, updates: int = 100, **changes: Any) -> Trainer:
    """Trains, on some 100 updates, and returns the trainer."""
    trainer = make_trainer(probe, **changes)
    for _ in trainer.train(updates * trainer.batch_size, key=jax.random.key(1)):
        pass
    return trainer


def values(trainer: Trainer) -> np.ndarray:
    """The value of each state, in units of reward."""
    learner = trainer.state.learner
    shown = trainer.environment.shown
    _, value, _ = jax.vmap(lambda x: learner.policy(x, learner.policy.initial_carry()))(shown)
    return np.asarray(learner.value_scale.denormalize(value))


def chances(trainer: Trainer) -> np.ndarray:
    """The probability of each action in each state."""
    policy, probe = trainer.state.learner.policy, trainer.environment
    logits, _, _ = jax.vmap(lambda x: policy(x, policy.initial_carry()))(probe.shown)
    return np.asarray(MaskedCategorical(logits, probe.legal).probs)
