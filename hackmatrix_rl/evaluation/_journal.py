"""Records every move of many games, for statistics beyond means."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.env import HackMatrix, env_keys, start_key, step_keys
from hackmatrix_rl.evaluation._contract import check_environment_and_players
from hackmatrix_rl.evaluation._episodes import start_carries
from hackmatrix_rl.evaluation._player import Agent, Thought, read_by, thinking
from hackmatrix_rl.games.hackmatrix import (
    KILL_REWARD,
    NUM_ENEMY_TYPES,
    SIPHON,
    CellSet,
    Outcome,
    Position,
    RewardConfig,
    State,
    distances,
    legal_actions,
    new_game,
    play,
    siphon_yields,
    yields_of,
)
from hackmatrix_rl.system.errors import check_key, whole

_Columns = dict[str, np.ndarray]
"""The arrays of `Moves` by name."""

NEAR_EXIT = 4
"""Steps from the exit within which points count as left behind."""

STEPS_AT_ONCE = 64
"""Moves of each game in one call of the compiled program."""


@dataclass(frozen=True)
class Moves:
    """A table of moves: one row per move, with the position before it and its result."""

    stage: np.ndarray  #: 1 to 8, before the move.
    turn: np.ndarray  #: Of the stage, before the move.
    hp: np.ndarray  #: Before the move.
    credits: np.ndarray  #: Before the move.
    energy: np.ndarray  #: Before the move.
    data_siphons: np.ndarray  #: Before the move.
    score: np.ndarray  #: Before the move.
    attack_damage: np.ndarray  #: Before the move.
    crowd: np.ndarray  #: Enemies and transmissions on the board before the move.
    programs: np.ndarray  #: Programs owned before the move, one bit each.
    new_stage: np.ndarray  #: Whether it is the first move after a stage change.
    action: np.ndarray  #: The move.
    reward: np.ndarray  #: Reward of the game.
    #: Reward with the weights of the environment, whose discounted sum a value predicts.
    learned_reward: np.ndarray
    kills: np.ndarray  #: Number of rewarded kills.
    hp_change: np.ndarray  #: Change of the hp, by damage and by completing a stage.
    points: np.ndarray  #: Change of the score.
    credits_change: np.ndarray  #: Change of the credits.
    energy_change: np.ndarray  #: Change of the energy.
    taken: np.ndarray  #: Programs gained, one bit each.
    called: np.ndarray  #: Transmissions that a siphon called.
    completed: np.ndarray  #: Whether the move completed the stage.
    #: Where it did, the visible points of the best cross within `NEAR_EXIT` steps of the exit.
    points_left: np.ndarray
    won: np.ndarray  #: Whether the move won the game.
    died: np.ndarray  #: Whether the player died.
    #: Enemies of each type next to the player after the move; a column for each type.
    attackers: np.ndarray
    from_siphon: np.ndarray  #: Number of these enemies that a siphon had called.
    value: np.ndarray  #: The player's value of the position before the move; NaN without one.
    win_probability: np.ndarray  #: The player's win probability before the move; NaN without one.


@dataclass(frozen=True)
class Journal:
    """All moves of some games."""

    games: int  #: Number of games.
    moves: Moves  #: The moves, game by game, in order.
    game: np.ndarray  #: The game of each move, from 0.
    last: np.ndarray  #: The index of the last move of each game.

    @property
    def won(self) -> np.ndarray:
        """Whether each game was won."""
        return self.moves.won[self.last]

    @property
    def died(self) -> np.ndarray:
        """Whether the player died in each game. A game may also end by a limit of steps."""
        return self.moves.died[self.last]


def keep_journal(
    player: Agent,
    environment: HackMatrix,
    *,
    games: int,
    key: Key[Array, ""],
    num_envs: int = 256,
    on_progress: Callable[[int, int], None] = lambda done, all_games: None,
) -> Journal:
    """Plays the games of `evaluate` with the same key, and records every move.

    A network that samples its actions samples the same ones as in `evaluate`. Each of the
    `num_envs` parallel games needs about 100 bytes per move. `on_progress` is a callback
    `(finished, total)` with the numbers of games.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a count is below 1, or player and environment do not fit together.
    """
    for name, value in {"games": games, "num_envs": num_envs}.items():
        whole(name, value)
    check_key(key)
    check_environment_and_players(environment, [player])
    num_envs = min(num_envs, games)
    parts: list[tuple[_Columns, np.ndarray]] = []
    for first in range(0, games, num_envs):
        needed = min(num_envs, games - first)
        keys = env_keys(key, num_envs, first=first)

        def report(done: np.ndarray, first: int = first, needed: int = needed) -> None:
            on_progress(first + int(done[:needed].sum()), games)

        moves, lengths = _play(player, environment, keys, report)
        # The last batch may play too many games.
        parts.append(_in_a_row(moves, lengths[:needed]))
    on_progress(games, games)
    moves, lengths = _joined(parts)
    return Journal(
        games=games,
        moves=Moves(**moves),
        game=np.repeat(np.arange(games), lengths),
        last=np.cumsum(lengths) - 1,
    )


def _in_a_row(moves: _Columns, lengths: np.ndarray) -> tuple[_Columns, np.ndarray]:
    """The moves of a batch, game by game, without those after a game's end."""

    def flat(leaf: np.ndarray) -> np.ndarray:
        return np.concatenate([leaf[:length, game] for game, length in enumerate(lengths)])

    return jax.tree.map(flat, moves), lengths


class _Table(eqx.Module):
    """A batch of games in play."""

    games: State
    mask: Bool[Array, "num_envs num_actions"]
    carry: PyTree[Array]
    new_stage: Bool[Array, " num_envs"]
    done: Bool[Array, " num_envs"]
    lengths: Int32[Array, " num_envs"]


def _play(
    player: Agent,
    environment: HackMatrix,
    keys: Key[Array, " num_envs"],
    report: Callable[[np.ndarray], None],
) -> tuple[_Columns, np.ndarray]:
    """The moves of a batch, each array `[steps, games, ...]`, and the number of moves per game."""
    table = _begin(player, environment, keys)
    chunks = []
    step = 0
    done = np.zeros(keys.shape[0], bool)
    while not done.all():
        report(done)
        table, moves = _advance(player, environment, keys, table, jnp.int32(step))
        chunks.append(jax.device_get(moves))
        done = np.asarray(table.done)
        step += STEPS_AT_ONCE
    return _joined(chunks), np.asarray(table.lengths)


def _joined(parts: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@eqx.filter_jit
def _begin(player: Agent, environment: HackMatrix, keys: Key[Array, " num_envs"]) -> _Table:
    games = jax.vmap(lambda key: new_game(environment.config, key=start_key(key)))(keys)
    count = keys.shape[0]
    return _Table(
        games=games,
        mask=jax.vmap(partial(legal_actions, environment.config))(games),
        carry=start_carries(player, count),
        new_stage=jnp.zeros(count, bool),
        done=jnp.zeros(count, bool),
        lengths=jnp.zeros(count, jnp.int32),
    )


@eqx.filter_jit
def _advance(
    player: Agent,
    environment: HackMatrix,
    keys: Key[Array, " num_envs"],
    table: _Table,
    first: Int32[Array, ""],
) -> tuple[_Table, dict[str, Array]]:
    """Plays `STEPS_AT_ONCE` moves of each game; moves after a game's end are undefined."""

    def move(table: _Table, step: Array) -> tuple[_Table, dict[str, Array]]:
        act_keys, play_keys = jax.vmap(step_keys, in_axes=(0, None))(keys, first + step)
        seen = jax.vmap(environment.observe)(table.games)
        seen = read_by(player, seen, lambda: table.games)
        actions, carry, thought = jax.vmap(thinking(player))(
            seen, table.mask, table.carry, act_keys
        )
        games, outcome = jax.vmap(
            lambda game, action, key: play(environment.config, game, action, key=key)
        )(table.games, actions, play_keys)
        columns = partial(_columns_of, environment.reward)
        moves = jax.vmap(columns)(table.games, games, actions, outcome, thought, table.new_stage)
        lengths = table.lengths + (~table.done).astype(jnp.int32)
        limit = environment.max_steps
        over = ~outcome.legal | outcome.died | outcome.won
        cut = jnp.zeros_like(over) if limit is None else lengths >= limit
        return _Table(
            games=games,
            mask=jax.vmap(partial(legal_actions, environment.config))(games),
            carry=carry,
            new_stage=outcome.completed,
            done=table.done | over | cut,
            lengths=lengths,
        ), moves

    return jax.lax.scan(move, table, jnp.arange(STEPS_AT_ONCE, dtype=jnp.int32))


def _columns_of(
    weights: RewardConfig,
    before: State,
    after: State,
    action: Int32[Array, ""],
    outcome: Outcome,
    thought: Thought,
    new_stage: Bool[Array, ""],
) -> dict[str, Array]:
    """The columns of `Moves` for one move of one game."""
    was, now = before.position, after.position
    enemies = now.enemies
    adjacent = enemies.present & CellSet.from_cell(now.player.cell).neighbours().has(enemies.cell)
    types = np.arange(NUM_ENEMY_TYPES, dtype=np.int32)
    of_type = (enemies.type[None, :] == types[:, None]) & adjacent[None, :]
    spawns = jnp.sum(was.board.spawn_count) - jnp.sum(now.board.spawn_count)
    nothing = jnp.float32(jnp.nan)
    before_it = ("hp", "credits", "energy", "data_siphons", "score", "attack_damage")
    return dict(
        **{name: getattr(was.player, name) for name in before_it},
        stage=was.stage,
        turn=was.turn,
        crowd=was.enemies.count + was.transmissions.count,
        programs=was.programs,
        new_stage=new_stage,
        action=action,
        reward=outcome.terms.total(),
        learned_reward=weights.weigh(outcome.terms),
        kills=jnp.round(outcome.terms.kills / KILL_REWARD).astype(jnp.int32),
        hp_change=now.player.hp - was.player.hp,
        points=now.player.score - was.player.score,
        credits_change=now.player.credits - was.player.credits,
        energy_change=now.player.energy - was.player.energy,
        taken=now.programs & ~was.programs,
        called=jnp.where(action == SIPHON, spawns, 0).astype(jnp.int32),
        completed=outcome.completed,
        points_left=jnp.where(outcome.completed, points_near_exit(was), 0),
        won=outcome.won,
        died=outcome.died,
        attackers=jnp.sum(of_type, axis=1, dtype=jnp.int32),
        from_siphon=jnp.sum(adjacent & enemies.spawned_from_siphon, dtype=jnp.int32),
        value=nothing if thought.value is None else thought.value,
        win_probability=nothing if thought.win_probability is None else thought.win_probability,
    )


def points_near_exit(position: Position) -> Int32[Array, ""]:
    """The visible points of the best cross within `NEAR_EXIT` steps of the exit."""
    board = position.board
    steps = distances(CellSet.from_cell(position.exit_cell), ~board.blocks)
    points = siphon_yields(yields_of(board)).points.astype(jnp.int32)
    near = ~board.blocks.to_array() & (steps <= NEAR_EXIT)
    return jnp.max(jnp.where(near, points, 0))
