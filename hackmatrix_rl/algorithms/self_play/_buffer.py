"""The replay buffer of self-play: the newest moves of each game, in rings on the device."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.algorithms.self_play._games import OPTIONAL, Moves
from hackmatrix_rl.env import EnvSpec, Symmetry
from hackmatrix_rl.training import advance_ring, empty_ring, oldest_slot, write_ring


class Sample(eqx.Module):
    """A batch of positions, each leaf `[positions, ...]`.

    `weights` are the policy targets and `value` the value targets, for the player to move. `valid`
    is 1, or 0 where a game has no position with a known result yet. The other fields are as in
    `Moves`, or `None`.
    """

    observation: PyTree[Array]
    mask: Bool[Array, "positions num_actions"]
    weights: Float32[Array, "positions num_actions"]
    value: Float32[Array, " positions"]
    valid: Float32[Array, " positions"]
    policy_weight: Float32[Array, " positions"] | None = None
    expected: Float32[Array, " positions"] | None = None
    surprise: Float32[Array, " positions"] | None = None


class Outcomes(NamedTuple):
    """The results of the games of a buffer, in chronological order.

    `value` is the result for the player to move in each position. `known` is the number of
    positions of each game, from the oldest on, with a known result.
    """

    value: Float32[Array, "games length"]
    known: Int32[Array, " games"]


class Buffer(eqx.Module):
    """A replay buffer with the newest moves of each game, in a ring per game.

    Attributes:
        moves: each leaf `[games, length, ...]`.
        slot: the slot of the next move.
        filled: number of moves of each game in the ring.
    """

    moves: Moves
    slot: Int32[Array, ""]
    filled: Int32[Array, ""]

    @classmethod
    def empty(
        cls, spec: EnvSpec, *, games: int, length: int, keeps: tuple[str, ...] = ()
    ) -> "Buffer":
        """An empty buffer; `keeps` names the fields of `OPTIONAL` that it stores."""
        shape = (games, length)
        moves = Moves(
            observation=empty_ring(spec.observation, *shape),
            mask=jnp.zeros((*shape, spec.num_actions), bool),
            weights=jnp.zeros((*shape, spec.num_actions), jnp.float32),
            reward=jnp.zeros(shape, jnp.float32),
            ended=jnp.zeros(shape, bool),
            **{name: jnp.zeros(shape, jnp.float32) for name in keeps},
        )
        return cls(moves, jnp.int32(0), jnp.int32(0))

    def write(self, moves: Moves) -> "Buffer":
        """The buffer with new moves, `[games, count, ...]`, over the oldest."""
        length, count = self.moves.reward.shape[1], moves.reward.shape[1]
        return Buffer(
            write_ring(self.moves, moves, self.slot),
            *advance_ring(self.slot, self.filled, count, length),
        )

    def outcomes(self) -> Outcomes:
        """The results of the games, in chronological order."""
        return outcomes_of(
            jnp.roll(self.moves.reward, -self._oldest(), axis=1),
            jnp.roll(self.moves.ended, -self._oldest(), axis=1),
        )

    def draw(
        self,
        outcomes: Outcomes,
        count: int,
        symmetry: Symmetry | None,
        *,
        keys: Key[Array, " blocks"],
    ) -> Sample:
        """A random batch of positions with a known result.

        The games are split into contiguous blocks, one for each key. Each block gives `count`
        positions of one of its games. The sample of a block depends only on its key and its games.
        """
        games, length = self.moves.reward.shape
        size = games // keys.shape[0]

        def one(key: Key[Array, ""], first: Int32[Array, ""]) -> tuple[Array, Array, Array]:
            game_key, time_key, change_key = jax.random.split(key, 3)
            game = first + jax.random.randint(game_key, (), 0, size)
            known = jnp.maximum(outcomes.known[game], 1)
            times = jax.random.randint(time_key, (count,), 0, known)
            return jnp.full((count,), game), times, jax.random.split(change_key, count)

        firsts = jnp.arange(0, games, size, dtype=jnp.int32)
        game, time, change_keys = jax.tree.map(jnp.ravel, jax.vmap(one)(keys, firsts))
        place = (self._oldest() + time) % length
        moves: Moves = jax.tree.map(lambda leaf: leaf[game, place], self.moves)
        seen = (moves.observation, moves.mask, moves.weights)
        if symmetry is not None:

            def change(observation: PyTree[Array], mask: Array, weights: Array, key: Array) -> Any:
                changed = symmetry(observation, key=key)
                return changed.observation, changed.of_each(mask), changed.of_each(weights)

            seen = jax.vmap(change)(*seen, change_keys)
        return Sample(
            *seen,
            value=outcomes.value[game, time],
            valid=(time < outcomes.known[game]).astype(jnp.float32),
            **{name: getattr(moves, name) for name in OPTIONAL},
        )

    def _oldest(self) -> Int32[Array, ""]:
        return oldest_slot(self.slot, self.filled, self.moves.reward.shape[1])


def outcomes_of(
    reward: Float32[Array, "games length"], ended: Bool[Array, "games length"]
) -> Outcomes:
    """The results of games, from the rewards of their moves, each for the player who made it.

    The value alternates in sign, because the players alternate: a last reward of 1 after four moves
    gives the values [-1 1 -1 1].
    """

    def step(
        after: tuple[Array, Array], move: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        value, known = after
        reward, ended = move
        here = jnp.where(ended, reward, -value), ended | known
        return here, here

    start = jnp.zeros_like(reward[:, 0]), jnp.zeros_like(ended[:, 0])
    _, (value, known) = jax.lax.scan(step, start, (reward.T, ended.T), reverse=True)
    return Outcomes(value.T, jnp.sum(known, axis=0, dtype=jnp.int32))
