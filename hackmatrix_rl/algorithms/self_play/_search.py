"""The tree search of self-play."""

from dataclasses import replace
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import SingleGame
from hackmatrix_rl.search import Improvement, Roots, SingleGameModel, Trees, gumbel_noise
from hackmatrix_rl.system.errors import ArgumentError, finite, whole


class Found(eqx.Module):
    """The results of a search in a batch of positions.

    `action` is the move to play. `weights` is the policy target: the search policy, 0 for illegal
    moves. `value` is the value of the position for the player to move, in [-1, 1]. `values` has the
    mean value of each move for the player to move, 0 without a visit, and `visits` the visit
    counts. `expected` is the mean of `values` under `weights`, over the visited moves. `surprise`
    is the Kullback-Leibler divergence of `weights` from the network's policy, in nats.
    """

    action: Int32[Array, "*games"]
    weights: Float32[Array, "*games num_actions"]
    value: Float32[Array, "*games"]
    values: Float32[Array, "*games num_actions"]
    visits: Int32[Array, "*games num_actions"]
    expected: Float32[Array, "*games"]
    surprise: Float32[Array, "*games"]


class Search(eqx.Module):
    """Gumbel MuZero search in a game of two players who move alternately (`Trees`).

    Each position has one tree, because the game is deterministic. The network gives the priors of
    the moves, and the value of a position for the player to move, clipped to [-1, 1]. Each position
    has its own key, so its result does not depend on the other positions of the batch.

    Attributes:
        num_simulations: number of simulations of a search.
        simulations_second: the number for the player who moves second in the game, as a handicap;
            `None`: as for the first.
        max_considered_actions: maximum number of moves that the search compares at the root.
        value_scale: weight of values relative to the logits of the priors. If the most visited move
            has v visits, a difference of 1 in value counts as much as `(50 + v) * value_scale` in
            logits.
        gumbel_scale: scale of the Gumbel noise at the root: 1 to explore, 0 for the best move.
    """

    num_simulations: int = eqx.field(static=True)
    max_considered_actions: int = eqx.field(static=True, default=16)
    value_scale: float = eqx.field(static=True, default=0.1)
    gumbel_scale: float = eqx.field(static=True, default=1.0)
    simulations_second: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        whole("num_simulations", self.num_simulations)
        if self.simulations_second is not None:
            whole("simulations_second", self.simulations_second)
        whole("max_considered_actions", self.max_considered_actions)
        for name in ("value_scale", "gumbel_scale"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}")

    @property
    def most_simulations(self) -> int:
        """The larger number of simulations of the two players."""
        return max(self.num_simulations, self.simulations_second or 0)

    @property
    def for_second(self) -> "Search":
        """The search of the player who moves second, for both players."""
        second = self.simulations_second
        if second is None:
            return self
        return replace(self, num_simulations=second, simulations_second=None)

    def tree_bytes(self, position: int, num_actions: int) -> int:
        """A lower bound on the bytes of one tree, for a position of `position` bytes."""
        # mctx stores six numbers per edge of the tree, and five per node.
        return (self.most_simulations + 1) * (position + 4 * (6 * num_actions + 5))

    def trees(self, game: SingleGame[Any], policy: ActorCritic) -> Trees:
        """The tree search in a deterministic game, with a network without memory."""
        second = self.simulations_second
        return Trees(
            model=SingleGameModel(game, in_turn=True),
            policy=policy,
            improvement=Improvement(GameResults(), weight=self.value_scale),
            gamma=1.0,
            simulations=self.most_simulations,
            considered=self.max_considered_actions,
            few_simulations=None if second is None else min(self.num_simulations, second),
        )

    def __call__(
        self,
        game: SingleGame[Any],
        policy: ActorCritic,
        states: PyTree[Array],
        keys: Key[Array, " games"],
        second: Bool[Array, " games"] | None = None,
    ) -> Found:
        """Searches each position of a batch. In a game that is over, the move is 0.

        `second` is whether the player to move is the one who moves second in the game; `None`:
        never. It matters only with `simulations_second`.
        """
        return self.with_tree(game, policy, states, keys, second)[0]

    def with_tree(
        self,
        game: SingleGame[Any],
        policy: ActorCritic,
        states: PyTree[Array],
        keys: Key[Array, " games"],
        second: Bool[Array, " games"] | None = None,
    ) -> tuple[Found, Any]:
        """The result of `__call__`, and mctx's tree of each position, for inspection.

        With `simulations_second`, all trees have the larger number of simulations.
        """
        of_second = self.simulations_second
        if second is None or of_second is None:
            trees, few = replace(self, simulations_second=None).trees(game, policy), None
        else:
            trees, few = self.trees(game, policy), second == (of_second < self.num_simulations)

        def root(state: PyTree[Array], key: Key[Array, ""]) -> Roots:
            noise_key, tree_key = jax.random.split(key)
            legal = game.legal(state)
            noise = gumbel_noise(self.gumbel_scale, legal, key=noise_key)
            return Roots(state, legal, trees.judge(state), noise, tree_key)

        roots = jax.vmap(root)(states, keys)
        grown = trees(roots, few)
        weights = jax.vmap(partial(to_learn, trees))(roots, grown.values, grown.visits)
        found = Found(
            grown.action,
            weights,
            grown.value,
            grown.values,
            grown.visits,
            expected=jax.vmap(expected_value)(weights, grown.values, grown.visits),
            surprise=jax.vmap(surprise_of)(weights, roots.prior.logits),
        )
        return found, grown.trees


_CAP = 0
"""The seed of `PlayoutCap`, which only decides which moves have a full search."""


class PlayoutCap(eqx.Module):
    """Playout cap randomization: full searches for some moves, fast ones without noise for others.

    Value targets need only the result of a game, for which fast searches suffice. Policy targets
    are only from full searches. So an update sees more games in the same time.

    One draw decides for the next move of all games, because a batch with a single full search takes
    as long as a batch of full searches. The draw depends only on the number of the update and of
    the move: it is the same on all devices, for all members of a population, and for all seeds.

    Source: Wu 2019, "Accelerating self-play learning in Go", section 3.1 (playout cap
    randomization).

    Attributes:
        full_share: probability of a full search, in (0, 1].
        simulations: number of simulations of a fast search, at most that of a full one.
    """

    full_share: float = eqx.field(static=True, default=0.25)
    simulations: int = eqx.field(static=True, default=16)

    def __check_init__(self) -> None:
        if not 0 < finite("full_share", self.full_share) <= 1:
            raise ArgumentError(
                "{full_share} is not a probability above 0; use {full_share:=0.25}, say",
                full_share=self.full_share,
            )
        whole("simulations", self.simulations)

    def check(self, search: Search) -> None:
        """Raises an ArgumentError if a fast search would have more simulations than a full one."""
        if self.simulations > search.num_simulations:
            raise ArgumentError(
                "{simulations} is more than the {num_simulations} of a full search; use "
                f"{{simulations:={max(1, search.num_simulations // 4)}}}, say",
                simulations=self.simulations,
                num_simulations=search.num_simulations,
            )

    def draws_full(self, update: Int32[Array, ""], number: Int32[Array, ""]) -> Bool[Array, ""]:
        """Whether the move with this number in an update has a full search."""
        key = jax.random.fold_in(jax.random.key(_CAP), update)
        return jax.random.bernoulli(jax.random.fold_in(key, number), self.full_share)

    def fast(self, search: Search) -> Search:
        """The fast search that corresponds to a full one."""
        second = search.simulations_second
        return replace(
            search,
            num_simulations=self.simulations,
            simulations_second=None if second is None else min(second, self.simulations),
            gumbel_scale=0.0,
        )


def to_learn(
    trees: Trees,
    root: Roots,
    values: Float32[Array, " num_actions"],
    visits: Int32[Array, " num_actions"],
) -> Float32[Array, " num_actions"]:
    """The policy target: the prior improved by the search, without root noise."""
    worth = trees.improvement(values, visits, root.prior.logits, root.prior.value)
    return jnp.where(root.legal, jax.nn.softmax(root.prior.logits + worth), 0.0)


_TINY = np.finfo(np.float32).tiny


def expected_value(
    weights: Float32[Array, " num_actions"],
    values: Float32[Array, " num_actions"],
    visits: Int32[Array, " num_actions"],
) -> Float32[Array, ""]:
    """The mean value under the search policy, over the visited moves."""
    share = jnp.where(visits > 0, jnp.maximum(weights, _TINY), 0.0)
    return jnp.sum(share * values) / jnp.maximum(jnp.sum(share), _TINY)


def surprise_of(
    weights: Float32[Array, " num_actions"], logits: Float32[Array, " num_actions"]
) -> Float32[Array, ""]:
    """The Kullback-Leibler divergence of the search policy from the prior, in nats."""
    ratio = jnp.log(jnp.maximum(weights, _TINY)) - jax.nn.log_softmax(logits)
    return jnp.sum(jnp.where(weights > 0, weights * ratio, 0.0))


@final
class GameResults(ValueScale):
    """Values are results of games, clipped to [-1, 1]."""

    def normalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        return value  # means of clipped values are within the bounds

    def denormalize(self, value: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        return jnp.clip(value, -1.0, 1.0)

    def update(self, targets: Float32[Array, "*shape"]) -> "GameResults":
        return self
