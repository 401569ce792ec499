"""Every move of many games, for the questions that a mean does not answer."""

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
"""Moves of each game between two checks of which games are still running."""


@dataclass(frozen=True)
class Moves:
    """Moves, each with the position before it and its result: one row for each."""

    stage: np.ndarray  #: 1 to 8, before the move.
    turn: np.ndarray  #: Of the stage.
    hp: np.ndarray  #: Before the move.
    credits: np.ndarray  #: Before the move.
    energy: np.ndarray  #: Before the move.
    data_siphons: np.ndarray  #: Before the move.
    score: np.ndarray  #: Before the move.
    attack_damage: np.ndarray  #: Before the move.
    crowd: np.ndarray  #: Enemies and transmissions on the board before the move.
    programs: np.ndarray  #: Owned before the move, one bit each.
    new_stage: np.ndarray  #: Whether it is the first move after a stage change.
    action: np.ndarray  #: The move.
    reward: np.ndarray  #: Of the move, by the game.
    #: Of the move, by the weights of the environment: what a value predicts.
    learned_reward: np.ndarray
    kills: np.ndarray  #: Enemies that it killed, those that count.
    hp_change: np.ndarray  #: What it did to the hp, by damage and by completing a stage.
    points: np.ndarray  #: Score that it brought.
    credits_change: np.ndarray  #: What it did to the credits.
    energy_change: np.ndarray  #: Likewise.
    taken: np.ndarray  #: Programs that it brought, one bit each.
    called: np.ndarray  #: Transmissions that a siphon called.
    completed: np.ndarray  #: Whether it completed the stage.
    #: Where it did, the points in sight of the best cross within `NEAR_EXIT` steps of the exit.
    points_left: np.ndarray
    won: np.ndarray  #: Whether it won the game.
    died: np.ndarray  #: Whether it was the last one.
    #: Enemies of each type next to the player after it; a column for each type.
    attackers: np.ndarray
    from_siphon: np.ndarray  #: How many of the attackers a siphon had brought.
    value: np.ndarray  #: The value that the player reported before it; NaN if it has none.
    win_probability: np.ndarray  #: Likewise.


@dataclass(frozen=True)
class Journal:
    """All moves of some games."""

    games: int  #: Number of games.
    moves: Moves  #: The moves, game after game, each game's in order.
    game: np.ndarray  #: The number of each move's game.
    last: np.ndarray  #: Where the last move of each game stands.

    @property
    def won(self) -> np.ndarray:
        """Whether each game was won."""
        return self.moves.won[self.last]

    @property
    def died(self) -> np.ndarray:
        """Whether the player died in each game. A game may also be cut off."""
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
    """Plays the games of `evaluate` with the same key, and keeps every move.

    A network that draws its actions draws the same ones as there. Each of `num_envs` games at the
    same time needs some 100 bytes a move. `on_progress` is called with the number of finished
    games, and the total.

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
    """The moves of a batch, game after game, without those after a game's end."""

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
    """The moves of a batch of games by step and game, and the number of moves of each game."""
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
    """Plays some moves in each game; moves after a game's end are undefined."""

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
    """The points in sight of the best cross within `NEAR_EXIT` steps of the exit."""
    board = position.board
    steps = distances(CellSet.from_cell(position.exit_cell), ~board.blocks)
    points = siphon_yields(yields_of(board)).points.astype(jnp.int32)
    near = ~board.blocks.to_array() & (steps <= NEAR_EXIT)
    return jnp.max(jnp.where(near, points, 0))
