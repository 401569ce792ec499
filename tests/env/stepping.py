"""Recorded transitions taken through the batched `step`, and what came of them."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from games.hackmatrix.recordings import CONFIG, FLAGS, POSITION, Arrays, concatenate, load, rows
from games.hackmatrix.replay import BATCH, shared_replay

from hackmatrix_rl.env import HackMatrix, compact_observation
from hackmatrix_rl.games.hackmatrix import TERM_NAMES, from_arrays, to_arrays

MAX_STEPS = 500
FILES = ("deterministic", "undo", "completions")
TOP_GAME = [1, 4, 5, 7]
"""The columns of `game` that a snapshot holds."""


class Transitions(SimpleNamespace):
    """Every recorded transition, shuffled; and what `step` made of it.

    Attributes:
        name: the file that each record comes from.
        action: what was done.
        before, after: the recorded positions.
        recorded: flags and terms.
        length, total: steps and reward of the episode before this step.
        games, observation, mask: what the environments hold and show after it.
        shown_games, legal_now: what their games look like, and which actions they allow.
        last_observation, last_mask: what is said of the position before a reset.
        expected_observation, expected_mask: those of the recorded position after.
        step: flags, terms and statistics of the timestep.
        tally: steps and reward of the episode after it.
    """

    @property
    def done(self) -> np.ndarray:
        return self.step["terminated"] | self.step["truncated"]

    @property
    def as_recorded(self) -> np.ndarray:
        """All but the WARPs that chance did not send to the exit this time."""
        completed = self.step["terms"][:, TERM_NAMES.index("stage_completion")] > 0
        return (self.name != "completions") | completed

    @property
    def settled(self) -> np.ndarray:
        """Transitions without chance: the position after is known to the last field."""
        return self.name != "completions"


class Stepper:
    """`HackMatrix.step`, compiled once for batches of `BATCH`."""

    def __init__(self) -> None:
        self.environment = HackMatrix(CONFIG, max_steps=MAX_STEPS)
        see = jax.vmap(lambda game: compact_observation(game.position))

        def step(games, length, total, actions, seed):
            state, _ = self.environment.from_games(games)
            tally = replace(state.tally, length=length, total_reward=total)
            keys = jax.random.split(jax.random.key(seed), BATCH)
            state, timestep = self.environment.step(replace(state, tally=tally), actions, keys)
            return state, timestep, see(state.games)

        self._step = jax.jit(step)
        self.see = jax.jit(see)

    def __call__(self, games, actions, seed, *, length=None, total=None):
        nothing = np.zeros(BATCH)
        return self._step(
            games,
            jnp.asarray(nothing if length is None else length, jnp.int32),
            jnp.asarray(nothing if total is None else total, jnp.float32),
            jnp.asarray(actions, jnp.int32),
            jnp.uint32(seed),
        )


def with_top(name: str) -> Arrays:
    """The positions of a file with a newest snapshot each: the position itself, if unknown."""
    recording = load(name)
    if recording.top:
        return recording.before | recording.top
    own = {f"top_{key}": recording.before[key] for key in POSITION}
    own["top_game"] = recording.before["game"][:, TOP_GAME]
    return recording.before | own


def as_dict(observation) -> Arrays:
    return {name: np.asarray(value) for name, value in vars(observation).items()}


def step_all(stepper: Stepper) -> Transitions:
    """Takes every recorded transition through `step`, in one shuffled order."""
    replay = shared_replay()
    rng = np.random.default_rng(0)
    before = concatenate([with_top(name) for name in FILES])
    after = concatenate([load(name).after for name in FILES])
    recorded = concatenate(
        [{key: load(name).other[key] for key in (*FLAGS, "terms")} for name in FILES]
    )
    name = np.repeat(FILES, [len(load(name)) for name in FILES])
    action = np.concatenate([load(name).action for name in FILES])
    order = rng.permutation(len(name))
    length = np.where(rng.random(len(name)) < 1 / 3, MAX_STEPS - 1, rng.integers(0, 9, len(name)))
    total = rng.integers(-8, 8, len(name)) / 4

    parts = []
    for number, first in enumerate(range(0, len(order), BATCH)):
        index = order[np.minimum(first + np.arange(BATCH), len(order) - 1)]
        games = from_arrays(CONFIG, rows(before, index))
        state, timestep, shown = stepper(
            games, action[index], number, length=length[index], total=total[index]
        )
        expected = from_arrays(CONFIG, rows(after, index))
        part = {
            "games": to_arrays(state.games),
            "mask": {"mask": timestep.mask, "held": state.mask},
            "legal_now": {"mask": replay.legal(state.games)},
            "observation": as_dict(timestep.observation),
            "shown_games": as_dict(shown),
            "last_observation": as_dict(timestep.last_observation),
            "last_mask": {"mask": timestep.last_mask},
            "expected_observation": as_dict(stepper.see(expected)),
            "expected_mask": {"mask": replay.legal(expected)},
            "step": {
                "terms": np.stack([timestep.terms[name] for name in TERM_NAMES], axis=1),
                "reward": timestep.reward,
                "terminated": timestep.terminated,
                "truncated": timestep.truncated,
                "total_reward": timestep.episode.total_reward,
                "length": timestep.episode.length,
                **timestep.episode.extra,
            },
            "tally": {"length": state.tally.length, "total": state.tally.total_reward},
        }
        parts.append(jax.tree.map(np.asarray, part))
    found = {
        key: rows(concatenate([part[key] for part in parts]), np.arange(len(order)))
        for key in parts[0]
    }
    np.testing.assert_array_equal(found["mask"]["mask"], found["mask"]["held"])
    for key in ("mask", "legal_now", "last_mask", "expected_mask"):
        found[key] = found[key]["mask"]
    return Transitions(
        name=name[order],
        action=action[order],
        before=rows(before, order),
        after=rows(after, order),
        recorded=rows(recorded, order),
        length=length[order],
        total=total[order],
        **found,
    )
