"""The weights with which an agent learns from the reward. Commands list the terms without JAX."""

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, no_type_check

if TYPE_CHECKING:
    from jaxtyping import Array, Float32

    from hackmatrix_rl.games.hackmatrix import RewardTerms

MOST_WEIGHT = 1e6
"""The largest absolute value of a weight. With it, returns stay far below float32's largest."""


@no_type_check  # no check at run time: the class checks its types, with messages for users
@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """A weight for each of the 15 terms of the reward (rules, section 9).

    The agent learns from the weighted sum of the terms. The reported return stays the game's own,
    in which every weight is 1. Each weight is 1 by default.

    Attributes:
        step_penalty: weight of the term `step_penalty`.
        stage_completion: weight of the term `stage_completion`.
        score_gain: weight of the term `score_gain`.
        kills: weight of the term `kills`.
        data_siphon: weight of the term `data_siphon`.
        distance_shaping: weight of the term `distance_shaping`.
        victory: weight of the term `victory`.
        death_penalty: weight of the term `death_penalty`.
        resource_gain: weight of the term `resource_gain`.
        resource_holding: weight of the term `resource_holding`.
        damage_penalty: weight of the term `damage_penalty`.
        hp_recovery: weight of the term `hp_recovery`.
        siphon_quality: weight of the term `siphon_quality`.
        program_waste: weight of the term `program_waste`.
        siphon_death_penalty: weight of the term `siphon_death_penalty`.

    Raises:
        TypeError: a weight is not a number.
        ValueError: a weight is not finite, or its absolute value is above 1,000,000.
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
        """Whether every weight is 1, so the learned reward is the game's own."""
        return self == RewardConfig()

    def changed(self) -> dict[str, float]:
        """The weights that are not 1, by name of the term, in the order of the rules."""
        weights = {name: getattr(self, name) for name in TERM_NAMES}
        return {name: weight for name, weight in weights.items() if weight != 1}

    def weigh(self, terms: "RewardTerms") -> "Float32[Array, '*batch']":
        """The reward to learn from: the weighted sum of the terms, of one action or of a batch.

        The sum leaves out a term with weight 0.
        """
        import jax.numpy as jnp

        total = jnp.zeros_like(terms.step_penalty)
        for name, term in terms.as_dict().items():
            weight = getattr(self, name)
            if weight:
                total = total + (term if weight == 1 else jnp.float32(weight) * term)
        return total


TERM_NAMES = tuple(field.name for field in fields(RewardConfig))
"""The terms of the reward, in the order of the rules."""
