"""The API of the original's Python environment on this package's engine, in this process."""

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from hackmatrix_rl.env import Number, classic_from_compact
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS, SIPHON
from hackmatrix_rl.interop.adapters._gymnasium_envs import Seen, look, space_of
from hackmatrix_rl.interop.protocol import (
    Engine,
    Result,
    View,
    arrays_of,
    info_of,
    internal_state_of,
)
from hackmatrix_rl.system import check_not_forked
from hackmatrix_rl.system.errors import ConfigError

_classic = jax.jit(classic_from_compact)

_REFUSED = {
    "visual": "this package's game has no window; hm.watch(player) shows a game",
    "debug_scenario": "its layout is the original's own; set_state(...) sets up a position",
}


class HackEnv(gymnasium.Env[Any, np.int64]):
    """One game with the arguments, observations and `info` of the original's `HackEnv`.

    It starts no process and encodes no JSON. The observation is the classic one as a dict: `player`
    (10) and `grid` (6, 6, 42) are float32, `programs` (23) is int32. An illegal action ends the
    episode.

    `info` of a step has the protocol's `invalid_action`, `stage_complete`, `death` and
    `reward_breakdown` with 14 terms, and `action_mask`. At the end of an episode it also has
    `episode_stats`: `length`, `total_reward`, `score`, `stage`, `stages_completed`, `won`, `died`,
    the numbers of `moves`, `siphons` and `programs` played, and `reward_breakdown`, the sum of each
    term.

    Args:
        app_path: accepted and ignored: there is no app.
        visual: refused.
        debug_scenario: refused.
        debug: prints each action to standard error.
        info: prints the `info` of each step to standard error.

    Raises:
        ConfigError: `visual` or `debug_scenario` is true.
    """

    def __init__(
        self,
        app_path: str | None = None,
        visual: bool = False,
        debug_scenario: bool = False,
        debug: bool = False,
        info: bool = False,
    ) -> None:
        for name, asked in (("visual", visual), ("debug_scenario", debug_scenario)):
            if asked:
                raise ConfigError(f"{name}=True: {_REFUSED[name]}")
        self.observation_space = space_of("original")
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._debug, self._info = debug, info
        self._engine: Engine | None = None
        self._episode = _Episode()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Starts the next game. A seed determines this game and the games that follow it."""
        check_not_forked("HackEnv")
        super().reset(seed=seed)
        if seed is not None or self._engine is None:
            self._engine = Engine(int(self.np_random.integers(2**32)))
        return self._begin(self._engine.begin())

    def step(self, action: Any) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Plays one action. Episodes are never truncated."""
        number = int(action)
        view, result = self._begun().play(number)
        info: dict[str, Any] = info_of(result)
        self._episode.count(number, result, info["reward_breakdown"])
        if self._debug:
            print(f"HackEnv: action {number}", file=sys.stderr)
        if self._info:
            print(f"HackEnv: {info}", file=sys.stderr)
        info["action_mask"] = view.mask
        if result.over:
            info["episode_stats"] = self._episode.statistics(view, result)
        return _look(view), float(result.reward), result.over, False, info

    def set_state(self, state: dict[str, Any]) -> tuple[Seen, dict[str, Any]]:
        """Starts a game from a position in the format of the protocol's `setState`.

        Raises:
            ValueError: it is not a valid position; the message names the field.
        """
        arrays = arrays_of(state)
        if self._engine is None:
            self.reset()
        return self._begin(self._begun().put(arrays))

    def get_internal_state(self) -> dict[str, Any]:
        """The answer of the protocol's `getInternalState`."""
        return internal_state_of(self._begun().look())

    def action_masks(self) -> np.ndarray:
        """The mask of the legal actions. MaskablePPO of sb3-contrib calls this method."""
        return np.asarray(self._begun().look().mask)

    def _begin(self, view: View) -> tuple[Seen, dict[str, Any]]:
        self._episode = _Episode()
        return _look(view), {"action_mask": view.mask}

    def _begun(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("the game has not begun: call reset() first")
        return self._engine


def _look(view: View) -> Seen:
    return look(jax.device_get(_classic(view.seen)), "original")


@dataclass
class _Episode:
    """The totals of an episode."""

    total_reward: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    terms: dict[str, float] = field(default_factory=dict)

    def count(self, action: int, result: Result, terms: dict[str, float]) -> None:
        kind = "programs"
        if action <= SIPHON:
            kind = "moves" if action < SIPHON else "siphons"
        self.counts["length"] += 1
        self.counts[kind] += bool(result.legal)
        self.counts["stages_completed"] += bool(result.completed)
        self.total_reward += float(result.reward)
        self.terms = {name: self.terms.get(name, 0.0) + term for name, term in terms.items()}

    def statistics(self, view: View, result: Result) -> dict[str, Any]:
        """The `episode_stats` of an episode that ends in this position."""
        counted = ("length", "moves", "siphons", "programs", "stages_completed")
        return {
            **{name: self.counts[name] for name in counted},
            "total_reward": self.total_reward,
            "score": int(view.seen.numbers[Number.SCORE]),
            "stage": int(view.seen.numbers[Number.STAGE]),
            "won": bool(result.won),
            "died": bool(result.died),
            "reward_breakdown": self.terms,
        }
