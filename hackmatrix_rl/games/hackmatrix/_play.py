"""One action of one game (rules, sections 4 to 9)."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32, Key

from hackmatrix_rl.games.hackmatrix._actions import apply_action, is_legal, legal_actions
from hackmatrix_rl.games.hackmatrix._config import GameConfig
from hackmatrix_rl.games.hackmatrix._enemy_turn import enemy_turn
from hackmatrix_rl.games.hackmatrix._history import empty_history, forget, remember
from hackmatrix_rl.games.hackmatrix._rewards import Event, RewardTerms, reward_terms
from hackmatrix_rl.games.hackmatrix._stage import FIRST_INTERVAL, set_up_if
from hackmatrix_rl.games.hackmatrix._state import MAX_HP, Position, State
from hackmatrix_rl.games.hackmatrix._streams import ActStream, GameStream, NextStream, StepStream
from hackmatrix_rl.system.batching import Chance, select
from hackmatrix_rl.system.errors import as_action


class Outcome(eqx.Module):
    """The results of an action, besides the new state.

    The episode is over if `~legal`, `died` or `won`.
    """

    terms: RewardTerms  #: The terms of the reward; `terms.total()` is the reward.
    legal: Bool[Array, "*batch"]  #: Whether the action was legal. If not, nothing changed.
    died: Bool[Array, "*batch"]  #: Whether the player's hp is 0 after the action.
    won: Bool[Array, "*batch"]  #: Whether the action completed stage 8.
    completed: Bool[Array, "*batch"]  #: Whether the action completed a stage.


def play(
    config: GameConfig, state: State, action: Int[Array, ""] | int, *, key: Key[Array, ""]
) -> tuple[State, Outcome]:
    """Plays one action of one game. Works under `jax.vmap` and `jax.jit`.

    Args:
        config: sizes and league of the game.
        state: one game.
        action: an `Action`, or its number from 0 to `NUM_ACTIONS` - 1. Any other number is an
            illegal action.
        key: source of randomness.

    Returns:
        The game after the action, and the results of the action.

    Raises:
        TypeError: the action is not a single integer.
        ValueError: the game has other sizes than `config`.
    """
    action = as_action(action, "an hm.Action or its number, such as hm.Action.UP")
    chance = Chance.from_key(key)
    mask = legal_actions(config, state)
    after, outcome = act(config, state, action, mask, chance=chance.fold_in(StepStream.ACT))
    goes_on = outcome.completed & ~outcome.won
    position = set_up_if(goes_on, after.position, chance=stage_chance(chance))
    return State(position, after.history), outcome


def stage_chance(chance: Chance) -> Chance:
    """The randomness of the next stage, derived from the randomness of the action.

    `HackMatrix.step` derives it in the same way, so a key gives the same game in both.
    """
    next_stage = chance.fold_in(StepStream.NEXT).fold_in(NextStream.STAGE)
    return next_stage.fold_in(GameStream.STAGE)


@eqx.filter_jit  # traced once, however many programs contain it
def act(
    config: GameConfig,
    state: State,
    action: Int[Array, ""],
    mask: Bool[Array, " num_actions"],
    *,
    chance: Chance,
) -> tuple[State, Outcome]:
    """`play` without the set-up of the next stage, which is up to the caller.

    `mask` is `legal_actions(config, state)`.
    """
    action = action.astype(jnp.int32)
    legal = is_legal(mask, action)

    position, event, turned = _carry_out(state, action, legal, chance=chance)
    event = eqx.tree_at(lambda e: e.died, event, legal & (position.player.hp == 0))
    terms = reward_terms(state.position, position, event)
    history = remember(state.history, position, push=turned, pop=event.popped)
    if not config.rewind_across_stages:
        history = forget(history, event.completed)

    nothing = jax.tree.map(jnp.zeros_like, terms)
    outcome = Outcome(
        terms=select(legal, terms, nothing),
        legal=legal,
        died=event.died,
        won=event.won,
        completed=event.completed,
    )
    return State(position, history), outcome


def attempt(
    position: Position, action: Int32[Array, ""], *, chance: Chance
) -> tuple[Position, Event]:
    """`act` without history and reward, for an action other than UNDO.

    The result of an illegal action is undefined.
    """
    state = State(position, empty_history(_NO_HISTORY, position))
    after, event, _ = _carry_out(state, action, jnp.bool_(True), chance=chance, share=_TRIED)
    return after, replace(event, died=after.player.hp == 0)


_NO_HISTORY = GameConfig(history=1)
_TRIED = 2
"""The `share` of `apply_action` if all legal actions are tried: a third of them are programs."""


def _carry_out(
    state: State,
    action: Int32[Array, ""],
    legal: Bool[Array, ""],
    *,
    chance: Chance,
    share: int = 32,
) -> tuple[Position, Event, Bool[Array, ""]]:
    """The position before stage set-up, the event, and whether an enemy turn took place."""
    effect, enemies = chance.fold_in(ActStream.EFFECT), chance.fold_in(ActStream.ENEMY_TURN)
    position, event = apply_action(state, action, legal, chance=effect, share=share)
    position, turned = turn_after(position, event, chance=enemies)
    return complete(position, event), event, turned


def turn_after(
    position: Position, event: Event, *, chance: Chance
) -> tuple[Position, Bool[Array, ""]]:
    """Section 5: the enemy turn if one follows, and whether it took place (STEP may skip it)."""
    skipped = event.ends_turn & position.step_active
    turned = event.ends_turn & ~position.step_active
    after = enemy_turn(position, turned, chance=chance)
    return replace(after, step_active=after.step_active & ~skipped), turned


def complete(position: Position, event: Event) -> Position:
    """Section 8: raises hp and the stage after a completion. The set-up comes later."""
    player = position.player
    healed = jnp.where(event.completed, jnp.minimum(player.hp + 1, MAX_HP), player.hp)
    goes_on = event.completed & ~event.won
    stage = position.stage + goes_on.astype(jnp.int32)
    interval = FIRST_INTERVAL + 1 - stage
    return replace(
        position,
        player=replace(player, hp=healed),
        stage=stage,
        scheduled_task_interval=jnp.where(goes_on, interval, position.scheduled_task_interval),
    )
