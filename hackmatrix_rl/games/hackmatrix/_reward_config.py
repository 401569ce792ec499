"""The terms of the reward (rules, section 9), and their weights.

Commands list the terms without importing JAX, so a term computes with the methods of its `Move`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, no_type_check

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Array, Float32

    from hackmatrix_rl.games.hackmatrix import Move, RewardTerms

MOST_WEIGHT = 1e6
"""The largest absolute value of a weight. It keeps returns far below the float32 maximum."""

STAGE_COMPLETION = np.array([1, 2, 4, 8, 16, 32, 64, 100], np.float32)
"""The term for completing each stage, 1 to 8."""
KILL_REWARD = 0.3
"""The term for each kill that counts."""
_DEATH_PENALTY = np.array(
    [-0.5 * STAGE_COMPLETION[:before].sum() for before in range(len(STAGE_COMPLETION))], np.float32
)


@dataclass(frozen=True)
class Term:
    """A term of the reward.

    Attributes:
        pays_for: what it rewards or penalizes, in a few words.
        value: computes its float32 value for a legal action.
        original: its name in the original's line protocol; `None` if it has none.
    """

    pays_for: str
    value: "Callable[[Move], Float32[Array, '']]"
    original: str | None


def term(
    pays_for: str, value: "Callable[[Move], Float32[Array, '']]", *, original: str | None = ""
) -> Any:
    """A field of `RewardConfig`: the weight of a term, 1 by default.

    By default, `original` is the field's name in camel case.
    """
    return field(default=1.0, metadata={"term": Term(pays_for, value, original)})


@no_type_check  # no check at run time: the class checks its types, with messages for users
@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """A weight for each term of the reward (rules, section 9); 1 by default.

    The agent learns from the weighted sum of the terms. The reported return is unweighted.

    Raises:
        TypeError: a weight is not a number.
        ValueError: a weight is not finite, or its absolute value is above 1,000,000.
    """

    step_penalty: float = term("every action", lambda move: move.real(-0.01), original=None)
    stage_completion: float = term(
        "completing stages",
        lambda move: move.if_(
            move.event.completed, move.of_stage(STAGE_COMPLETION, move.before.stage)
        ),
        original="stage",
    )
    score_gain: float = term(
        "score gained",
        lambda move: 0.5 * move.real(move.after.player.score - move.before.player.score),
        original="score",
    )
    kills: float = term("kills", lambda move: KILL_REWARD * move.real(move.event.kills))
    data_siphon: float = term(
        "picking up data siphons", lambda move: move.real(move.event.collected)
    )
    distance_shaping: float = term(
        "moving closer to the exit",
        lambda move: move.if_(~move.event.died, 0.05 * move.real(move.nearer)),
        original="distance",
    )
    victory: float = term(
        "winning",
        lambda move: move.if_(move.event.won, 500 + 100 * move.real(move.after.player.score)),
    )
    death_penalty: float = term(
        "dying, by the stages completed before",
        lambda move: move.if_(move.event.died, move.of_stage(_DEATH_PENALTY, move.after.stage)),
        original="death",
    )
    resource_gain: float = term(
        "credits and energy gained or spent",
        lambda move: 0.05 * move.real(move.after.player.resources - move.before.player.resources),
    )
    resource_holding: float = term(
        "credits and energy held on completing a stage",
        lambda move: move.if_(move.event.completed, 0.01 * move.real(move.after.player.resources)),
    )
    damage_penalty: float = term(
        "hit points lost",
        lambda move: -move.real(move.positive(move.before.player.hp - move.after.player.hp)),
    )
    hp_recovery: float = term(
        "hit points gained",
        lambda move: move.real(move.positive(move.after.player.hp - move.before.player.hp)),
    )
    siphon_quality: float = term(
        "siphoning while a better cell was available", lambda move: move.event.quality
    )
    program_waste: float = term("RESET without need", lambda move: move.event.waste)
    siphon_death_penalty: float = term(
        "dying next to enemies that a siphon spawned",
        lambda move: move.if_(move.event.died & move.hunted, -10.0),
    )

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
        """Whether every weight is 1."""
        return self == RewardConfig()

    def changed(self) -> dict[str, float]:
        """The weights that are not 1, by term, in the order of the rules."""
        weights = {name: getattr(self, name) for name in TERM_NAMES}
        return {name: weight for name, weight in weights.items() if weight != 1}

    def weigh(self, terms: "RewardTerms") -> "Float32[Array, '*batch']":
        """The weighted sum of the terms, of one action or of a batch.

        A term with weight 0 is left out, even if it is not finite.
        """
        import jax.numpy as jnp

        total = jnp.zeros_like(next(iter(terms.as_dict().values())))
        for name, value in terms.as_dict().items():
            weight = getattr(self, name)
            if weight:
                total = total + (value if weight == 1 else jnp.float32(weight) * value)
        return total


TERMS: Mapping[str, Term] = {each.name: each.metadata["term"] for each in fields(RewardConfig)}
"""The terms of the reward by name, in the order of the rules."""
TERM_NAMES = tuple(TERMS)
"""Names of the terms, in the order of the rules."""


def original_terms() -> dict[str, str]:
    """The terms by their names in the original's line protocol."""
    camel = {name: name.title().replace("_", "") for name in TERM_NAMES}
    return {
        each.original or camel[name][0].lower() + camel[name][1:]: name
        for name, each in TERMS.items()
        if each.original is not None
    }
