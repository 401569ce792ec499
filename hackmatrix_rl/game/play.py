"""One action of one game (rules, sections 4 to 9)."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from hackmatrix_rl.game import sparse
from hackmatrix_rl.game.actions import apply_action, is_legal, legal_actions
from hackmatrix_rl.game.config import GameConfig
from hackmatrix_rl.game.enemy_turn import enemy_turn
from hackmatrix_rl.game.history import remember
from hackmatrix_rl.game.rewards import Event, RewardTerms, reward_terms
from hackmatrix_rl.game.stage import FIRST_INTERVAL, set_up_stage
from hackmatrix_rl.game.state import MAX_HP, Position, State, select


class Outcome(eqx.Module):
    """What an action led to, beside the new state.

    Attributes:
        terms: the reward by its parts; `terms.total()` is the reward.
        legal: the action was legal. If not, nothing changed and the episode is over.
        died: the player's hp is 0; the episode is over.
        won: stage 8 was completed; the episode is over.
        completed: a stage was completed.
    """

    terms: RewardTerms
    legal: Bool[Array, "*batch"]
    died: Bool[Array, "*batch"]
    won: Bool[Array, "*batch"]
    completed: Bool[Array, "*batch"]


def play(
    config: GameConfig, state: State, action: Int[Array, ""], *, key: Key[Array, ""]
) -> tuple[State, Outcome]:
    """One action of one game; works under `jax.vmap` and `jax.jit`.

    Args:
        config: the game's capacities.
        state: one game.
        action: 0..27; any other number is an illegal action.
        key: source of everything that is left to chance.

    Returns:
        The game after the action and what it led to.
    """
    return play_masked(config, state, action, legal_actions(config, state), key=key)


def play_masked(
    config: GameConfig,
    state: State,
    action: Int[Array, ""],
    mask: Bool[Array, "28"],
    *,
    key: Key[Array, ""],
) -> tuple[State, Outcome]:
    """`play` where the legal actions of `state` are known already."""
    act_key, turn_key, setup_key = jax.random.split(key, 3)
    action = action.astype(jnp.int32)
    legal = is_legal(mask, action)

    after, event = apply_action(state, action, legal, key=act_key)
    after, turned = turn_after(after, event, key=turn_key)
    after = complete(after, event, key=setup_key)
    event = eqx.tree_at(lambda e: e.died, event, legal & (after.player.hp == 0))
    terms = reward_terms(state.position, after, event)

    after = State(
        position=after,
        history=remember(state.history, after, push=turned, pop=event.popped),
    )
    nothing = jax.tree.map(jnp.zeros_like, terms)
    outcome = Outcome(
        terms=select(legal, terms, nothing),
        legal=legal,
        died=event.died,
        won=event.won,
        completed=event.completed,
    )
    return after, outcome


def turn_after(
    position: Position, event: Event, *, key: Key[Array, ""]
) -> tuple[Position, Bool[Array, ""]]:
    """Section 5: the enemy turn where one follows, and whether it was not held up by STEP."""
    held_up = event.ends_turn & position.step_active
    turned = event.ends_turn & ~position.step_active
    after = select(turned, enemy_turn(position, key=key), position)
    return replace(after, step_active=after.step_active & ~held_up), turned


def complete(position: Position, event: Event, *, key: Key[Array, ""]) -> Position:
    """Section 8: hp and, but for the last stage, the next stage's set-up."""
    healed = jnp.minimum(position.player.hp + 1, MAX_HP)
    hp = jnp.where(event.completed, healed, position.player.hp)
    position = replace(position, player=replace(position.player, hp=hp))

    def next_stage(position: Position, key: Key[Array, ""]) -> Position:
        stage = position.stage + 1
        interval = FIRST_INTERVAL + 1 - stage
        position = replace(position, stage=stage, scheduled_task_interval=interval)
        return set_up_stage(position, key=key)

    return sparse.apply_if(event.completed & ~event.won, next_stage, position, key, share=8)
