"""Plays games of self-play on one device."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import MaskedCategorical
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._search import Found, PlayoutCap, Search
from hackmatrix_rl.env import Played, SingleGame
from hackmatrix_rl.system.batching import select, taken


class Games(eqx.Module):
    """A batch of games; each leaf has a leading axis of games.

    `length` is the number of moves so far. The keys are constant: a draw is a function of the
    game's key, the number of the update and the number of the move.
    """

    states: PyTree[Array]
    length: Int32[Array, " games"]
    keys: Key[Array, " games"]

    @classmethod
    def start(
        cls, game: SingleGame[Any], keys: Key[Array, " games"], *, opening: int = 0
    ) -> "Games":
        states, length = jax.vmap(lambda key: begin(game, opening, key))(keys)
        return cls(states, length, keys)


class Moves(eqx.Module):
    """Positions with the search policy, and the results of the moves.

    `observation` is that of the player to move; it has the axes of the other fields, then its own.
    `weights` is the search policy (see `Found`). `reward` is for the player who made the move.

    The fields of `OPTIONAL` are `None` unless the loss needs them. `policy_weight` is 1 after a
    full search, else 0 (`PlayoutCap`). `expected` and `surprise` are those of `Found`.
    """

    observation: PyTree[Array]
    mask: Bool[Array, "*axes num_actions"]
    weights: Float32[Array, "*axes num_actions"]
    reward: Float32[Array, "*axes"]
    ended: Bool[Array, "*axes"]
    policy_weight: Float32[Array, "*axes"] | None = None
    expected: Float32[Array, "*axes"] | None = None
    surprise: Float32[Array, "*axes"] | None = None


OPTIONAL = ("policy_weight", "expected", "surprise")
"""The fields of `Moves` that are stored only if the loss needs them."""


class Results(eqx.Module):
    """Sums over finished games; `first_wins` counts wins of the player who began."""

    games: Int32[Array, "*devices"]
    moves: Int32[Array, "*devices"]
    first_wins: Int32[Array, "*devices"]
    draws: Int32[Array, "*devices"]

    @classmethod
    def from_moves(
        cls,
        length: Int32[Array, "*axes"],
        reward: Float32[Array, "*axes"],
        ended: Bool[Array, "*axes"],
    ) -> "Results":
        """The results from the last moves of games; `length` includes the last move."""
        by_first = length % 2 == 1
        first_won = jnp.where(by_first, reward > 0, reward < 0)

        def count(where: Bool[Array, "*axes"], each: Any = 1) -> Int32[Array, ""]:
            return jnp.sum(jnp.where(where & ended, each, 0), dtype=jnp.int32)

        return cls(
            games=count(ended),
            moves=count(ended, length),
            first_wins=count(first_won),
            draws=count(reward == 0),
        )

    @property
    def count(self) -> Any:
        """The number of games, on the device or on the host."""
        return self.games

    @property
    def totals(self) -> dict[str, Any]:
        """The sums whose means are metrics, by name, on the device or on the host."""
        return {"length": self.moves, "first_wins": self.first_wins, "draws": self.draws}

    def means(self) -> tuple[dict[str, float], dict[str, float]]:
        """The means per game, by name, on the host; and no reward terms."""
        count = int(self.count)
        return {name: int(total) / count for name, total in self.totals.items() if count}, {}


def play_moves(
    search: Search,
    game: SingleGame[Any],
    policy: ActorCritic,
    games: Games,
    update: Int32[Array, ""],
    count: int,
    *,
    opening: int = 0,
    cap: PlayoutCap | None = None,
    keeps: tuple[str, ...] = (),
) -> tuple[Games, Moves, Results]:
    """Plays `count` moves in each game, and resets finished games.

    `cap` decides which moves have a full search; `None`: all. `keeps` names the fields of
    `OPTIONAL` to return.

    Returns:
        The games after the moves; the moves, each leaf `[games, count, ...]`; and the results of
        finished games.
    """

    def draw(key: Key[Array, ""], number: Int32[Array, ""]) -> Key[Array, " three"]:
        return jax.random.split(jax.random.fold_in(jax.random.fold_in(key, update), number), 3)

    def find(games: Games, keys: Array, number: Array) -> tuple[Found, Array]:
        second = games.length % 2 == 1
        if cap is None:
            return search(game, policy, games.states, keys, second), jnp.float32(1.0)
        fast = cap.fast(search)
        full = cap.draws_full(update, number)
        with taken(cap.full_share):
            found = jax.lax.cond(
                full,
                lambda: search(game, policy, games.states, keys, second),
                lambda: fast(game, policy, games.states, keys, second),
            )
        return found, full.astype(jnp.float32)

    def one(state: Any, found: Found, full: Array, key: Array) -> tuple[Moves, Any]:
        played: Played = game.play(state, found.action, key=key)
        ended = played.terminated | played.truncated
        extra = {"policy_weight": full, "expected": found.expected, "surprise": found.surprise}
        moves = Moves(
            game.observe(state),
            game.legal(state),
            found.weights,
            played.reward,
            ended,
            **{name: extra[name] for name in keeps},
        )
        return moves, played.state

    def move(games: Games, number: Int32[Array, ""]) -> tuple[Games, tuple[Moves, Array]]:
        drawn = jax.vmap(lambda key: draw(key, number))(games.keys)
        search_keys, play_keys, start_keys = drawn[:, 0], drawn[:, 1], drawn[:, 2]
        found, full = find(games, search_keys, number)
        moves, after = jax.vmap(one, (0, 0, None, 0))(games.states, found, full, play_keys)
        length = games.length + 1
        fresh = Games.start(game, start_keys, opening=opening)
        return Games(
            states=jax.vmap(select)(moves.ended, fresh.states, after),
            length=jnp.where(moves.ended, fresh.length, length),
            keys=games.keys,
        ), (moves, length)

    games, (moves, length) = jax.lax.scan(move, games, jnp.arange(count, dtype=jnp.int32))
    results = Results.from_moves(length, moves.reward, moves.ended)
    return games, jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), moves), results


def begin(
    game: SingleGame[Any], opening: int, key: Key[Array, ""]
) -> tuple[PyTree[Array], Int32[Array, ""]]:
    """A start position after at most `opening` random moves, and the number of these moves.

    Games between strong players reach few different positions; random opening moves diversify them.
    These moves are not in the buffer. A game that they would end starts without them.
    """
    start_key, count_key, moves_key = jax.random.split(key, 3)
    fresh = game.start(key=start_key)
    if not opening:
        return fresh, jnp.int32(0)
    count = jax.random.randint(count_key, (), 0, opening + 1)

    def move(number: Int32[Array, ""], board: tuple[Any, Array]) -> tuple[Any, Array]:
        state, ended = board
        here = jax.random.fold_in(moves_key, number)
        legal = game.legal(state)
        pi = MaskedCategorical(jnp.zeros(legal.shape, jnp.float32), legal)
        played: Played = game.play(state, pi.sample(here), key=here)
        plays = number < count
        over = ended | (plays & (played.terminated | played.truncated))
        return select(plays, played.state, state), over

    state, ended = jax.lax.fori_loop(0, opening, move, (fresh, jnp.bool_(False)))
    return select(ended, fresh, state), jnp.where(ended, 0, count)
