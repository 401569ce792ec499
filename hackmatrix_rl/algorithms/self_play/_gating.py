"""Gating: a network replaces the one that plays only if it wins a match against it."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float32, Int32, Key

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.algorithms.self_play._match import SearchPlayer, opening_of, play_games
from hackmatrix_rl.algorithms.self_play._search import Search
from hackmatrix_rl.env import SingleGame, env_keys
from hackmatrix_rl.system.errors import ArgumentError, finite, whole
from hackmatrix_rl.training.sharding import devices_of_one, on_each_device


class Gated(eqx.Module):
    """The report of gating matches. Reports can be added.

    `score` is the sum of the scores of the learner's network, each in [0, 1].
    """

    matches: Int32[Array, "*axes"]
    passed: Int32[Array, "*axes"]
    score: Float32[Array, "*axes"]


class Gate(eqx.Module):
    """When the learner's network replaces the network that plays.

    Every `interval` updates, the two play a match of `games` games, half of them begun by each.
    Both use the search of the training, without root noise, after two random moves. The learner's
    network replaces the other one if its score, in which a draw counts half, is at least `score`.

    Source: Silver et al. 2017, "Mastering the game of Go without human knowledge" (evaluator).
    """

    score: float = eqx.field(static=True, default=0.55)
    games: int = eqx.field(static=True, default=40)
    interval: int = eqx.field(static=True, default=50)

    def __check_init__(self) -> None:
        if not 0 <= finite("score", self.score) <= 1:
            raise ArgumentError(
                "{score} is not within 0..1; use {score:=0.55}, say", score=self.score
            )
        if whole("games", self.games, 2) % 2:
            raise ArgumentError(
                "{games} is odd, but each network begins half of the games; use "
                f"{{games:={self.games + 1}}}",
                games=self.games,
            )
        whole("interval", self.interval)

    @property
    def needed(self) -> int:
        """The half points that are needed to pass: a win gives 2, a draw 1."""
        return math.ceil(round(2 * self.games * self.score, 6))

    def due(self, update: Int32[Array, ""]) -> Bool[Array, ""]:
        """Whether a match follows this update, counted from 0."""
        return (update + 1) % self.interval == 0

    def at_once(self, mesh: Mesh) -> int:
        """Number of games that a device plays in parallel."""
        return -(-self.games // 2 // devices_of_one(mesh))

    def half_points(
        self,
        mesh: Mesh,
        search: Search,
        game: SingleGame[Any],
        candidate: ActorCritic,
        accepted: ActorCritic,
        key: Key[Array, ""],
    ) -> Int32[Array, ""]:
        """The half points of the candidate in a match, whose games are split over the devices."""
        pairs = self.games // 2
        # Padded to equally many pairs per device; the padding does not count.
        places = jnp.arange(self.at_once(mesh) * devices_of_one(mesh), dtype=jnp.int32)
        keys = env_keys(key, pairs)[places % pairs]

        def on_one(
            search: Search,
            game: SingleGame[Any],
            candidate: ActorCritic,
            accepted: ActorCritic,
            keys: Key[Array, " pairs"],
        ) -> Float32[Array, " pairs"]:
            new, old = SearchPlayer(candidate, search), SearchPlayer(accepted, search)
            opening = opening_of(game)
            begun = play_games(new, old, game, keys, opening=opening)
            answered = play_games(old, new, game, keys, opening=opening)
            return begun.result - answered.result

        won = on_each_device(mesh, on_one, (search, game, candidate, accepted), keys)
        return self.games + jnp.sum(jnp.where(places < pairs, won, 0.0)).astype(jnp.int32)

    def choose(
        self,
        due: Bool[Array, ""],
        half_points: Int32[Array, ""],
        candidate: ActorCritic,
        accepted: ActorCritic,
    ) -> tuple[ActorCritic, Gated]:
        """The network that plays from now on, and the report."""
        passes = due & (half_points >= self.needed)
        new, _ = eqx.partition(candidate, eqx.is_array)
        old, code = eqx.partition(accepted, eqx.is_array)
        chosen: ActorCritic = eqx.combine(
            jax.tree.map(lambda new, old: jnp.where(passes, new, old), new, old), code
        )
        score = half_points.astype(jnp.float32) / (2 * self.games)
        gated = Gated(
            matches=due.astype(jnp.int32),
            passed=passes.astype(jnp.int32),
            score=jnp.where(due, score, 0.0),
        )
        return chosen, gated
