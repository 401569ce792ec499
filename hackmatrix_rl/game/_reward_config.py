"""Weights of the parts of the reward: what an agent learns from, where that is not the game's."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import no_type_check

import jax.numpy as jnp
from jaxtyping import Array, Float32

from hackmatrix_rl.game._rewards import TERM_NAMES, RewardTerms

MOST_WEIGHT = 1e6
"""The largest size of a weight: returns stay far from the end of float32."""


@no_type_check  # at run time, that is: it checks its own types, with messages for users
@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """A weight for each of the 15 terms of the reward (rules, section 9).

    The reward that is learned from is the sum of the terms times their weights. The return that
    is reported stays the game's own, in which every weight is 1.

    Attributes:
        step_penalty: weight of the term of this name; so are all others.
        stage_completion: likewise.
        score_gain: likewise.
        kills: likewise.
        data_siphon: likewise.
        distance_shaping: likewise.
        victory: likewise.
        death_penalty: likewise.
        resource_gain: likewise.
        resource_holding: likewise.
        damage_penalty: likewise.
        hp_recovery: likewise.
        siphon_quality: likewise.
        program_waste: likewise.
        siphon_death_penalty: likewise.

    Raises:
        TypeError: a weight is no number.
        ValueError: a weight is not finite, or larger than a million.
    """

    step_penalty: float = 1.0
    stage_completion: float = 1.0
    score_gain: float = 1.0
    kills: float = 1.0
    data_siphon: float = 1.0
    distance_shaping: float = 1.0
    victory: float = 1.0
    death_penalty: float = 1.0
    resource_gain: float = 1.0
    resource_holding: float = 1.0
    damage_penalty: float = 1.0
    hp_recovery: float = 1.0
    siphon_quality: float = 1.0
    program_waste: float = 1.0
    siphon_death_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name in TERM_NAMES:
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, Real):
                raise TypeError(f"{name} must be a number, such as 0.5, not {given!r}")
            weight = float(given)
            if not math.isfinite(weight) or abs(weight) > MOST_WEIGHT:
                raise ValueError(
                    f"{name} must be a number from {-MOST_WEIGHT:.0f} to {MOST_WEIGHT:.0f}, not "
                    f"{weight}"
                )
            object.__setattr__(self, name, weight)

    @property
    def is_the_games(self) -> bool:
        """Whether every weight is 1: then the learned reward is the game's."""
        return self == RewardConfig()

    def changed(self) -> dict[str, float]:
        """The weights that are not 1, by the name of their term, in the order of the rules."""
        weights = {name: getattr(self, name) for name in TERM_NAMES}
        return {name: weight for name, weight in weights.items() if weight != 1}

    def weigh(self, terms: RewardTerms) -> Float32[Array, "*batch"]:
        """The reward to learn from: the sum of the terms times their weights.

        A term of weight 0 is left out of the computation.

        Args:
            terms: of one action, or of a batch.
        """
        total = jnp.zeros_like(terms.step_penalty)
        for name, term in terms.as_dict().items():
            weight = getattr(self, name)
            if weight:
                total = total + (term if weight == 1 else jnp.float32(weight) * term)
        return total
