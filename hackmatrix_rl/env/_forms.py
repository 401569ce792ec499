"""The observation and the spec of HackMatrix for each kind of observation."""

from functools import lru_cache, partial

import jax
from jaxtyping import Array, Int32

from hackmatrix_rl.env._encoding import (
    COMPACT_ACTIONS,
    COMPACT_SPLIT,
    Observation,
    classic_from_compact,
    features_from_classic,
    features_from_compact,
)
from hackmatrix_rl.env._environment import EnvSpec
from hackmatrix_rl.env._kinds import Kind
from hackmatrix_rl.env._observation import CompactObservation, compact_observation
from hackmatrix_rl.env._spaces import Discrete
from hackmatrix_rl.env._tactical_encoding import TACTICAL_ACTIONS, features_from_tactical
from hackmatrix_rl.env._tactical_knowledge import with_knowledge
from hackmatrix_rl.env._tactical_observation import (
    TacticalObservation,
    recollection,
    supposed_recollection,
    tactical_observation,
)
from hackmatrix_rl.games.hackmatrix import (
    NUM_ACTIONS,
    TERM_NAMES,
    GameConfig,
    History,
    Position,
    new_game,
)

Seen = CompactObservation | TacticalObservation | Observation


def remembered(history: History, kind: Kind) -> Int32[Array, "7"] | None:
    """The part of the history that `see` needs; `None` for a kind without memory."""
    return recollection(history) if kind == "tactical" else None


def supposed(position: Position, config: GameConfig, kind: Kind) -> Int32[Array, "7"] | None:
    """`remembered` for a position whose history is unknown."""
    if kind != "tactical":
        return None
    return supposed_recollection(position, rewind_across_stages=config.rewind_across_stages)


def see(
    position: Position, recalled: Int32[Array, "7"] | None, kind: Kind, *, is_rare: bool = False
) -> Seen:
    if recalled is not None:
        return tactical_observation(position, recalled, is_rare=is_rare)
    compact = compact_observation(position, is_rare=is_rare)
    return classic_from_compact(compact) if kind == "classic" else compact


def spec_of(config: GameConfig, kind: Kind) -> EnvSpec:
    spec = partial(EnvSpec, Discrete(NUM_ACTIONS), _shape(config, kind), terms=TERM_NAMES)
    if kind == "classic":
        return spec(features_from_classic)
    if kind == "tactical":
        return spec(
            features_from_tactical, action_features=TACTICAL_ACTIONS, precompute=with_knowledge
        )
    return spec(features_from_compact, split=COMPACT_SPLIT, action_features=COMPACT_ACTIONS)


@lru_cache
def _shape(config: GameConfig, kind: Kind) -> Seen:
    """The shapes of one observation. Cached: tracing a new game takes 0.25 seconds."""

    def first() -> Seen:
        game = new_game(config, key=jax.random.key(0))
        return see(game.position, remembered(game.history, kind), kind)

    return jax.eval_shape(first)
