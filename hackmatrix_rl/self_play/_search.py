"""The tree search of self-play: mctx with the rules as the model."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import mctx
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import SingleGame
from hackmatrix_rl.errors import whole

_NEVER = np.finfo(np.float32).min
"""The logit of an illegal action: its probability is 0, and sums with it stay finite."""
_NO_CHANCE = 0
"""The seed of a game's own draws in the tree: the games of self-play draw nothing."""


class Found(eqx.Module):
    """What a search found in a batch of positions.

    Attributes:
        action: the move to play.
        weights: how good the search thinks each move is, as probabilities: the policy to learn. 0
            for illegal moves.
        value: the value of the position for the player to move, -1 to 1.
    """

    action: Int32[Array, "*games"]
    weights: Float32[Array, "*games num_actions"]
    value: Float32[Array, "*games"]


class Search(eqx.Module):
    """Gumbel MuZero search in a game of two players who move in turn.

    The rules are the model. The network gives the priors of the moves, and the value of a position
    for the player to move, which is cut to -1 to 1. What is good for one player is bad for the
    other: each move back in the tree turns the sign of the value. Beyond its last reward, a game
    that is over has the value 0. Each position has its own key, so what is found does not depend
    on the other positions of the batch.

    Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel".

    Attributes:
        num_simulations: positions that one search looks at.
        max_considered_actions: the most moves that it compares at the root.
        value_scale: weight of values beside the logits of the priors. With v visits of the most
            visited move, a difference of 1 in value counts as much as `(50 + v) * value_scale` in
            logits.
        gumbel_scale: size of the noise at the root: 1 to explore, 0 for the best move.
    """

    num_simulations: int = eqx.field(static=True)
    max_considered_actions: int = eqx.field(static=True, default=16)
    value_scale: float = eqx.field(static=True, default=0.1)
    gumbel_scale: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        whole("num_simulations", self.num_simulations)
        whole("max_considered_actions", self.max_considered_actions)
        for name in ("value_scale", "gumbel_scale"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, but is {getattr(self, name)}")

    def tree_bytes(self, position: int, num_actions: int) -> int:
        """Bytes of the tree of one search, at least.

        Args:
            position: bytes of a position.
            num_actions: number of actions of the game.
        """
        # mctx keeps six numbers for each edge of the tree, and five for each position.
        return (self.num_simulations + 1) * (position + 4 * (6 * num_actions + 5))

    def __call__(
        self,
        game: SingleGame[Any],
        policy: ActorCritic,
        states: PyTree[Array],
        keys: Key[Array, " games"],
    ) -> Found:
        """Searches each position of a batch.

        Args:
            game: the rules, without chance.
            policy: the network, without memory.
            states: positions; each leaf `[games, ...]`. In a game that is over, the move is 0.
            keys: one for each position.
        """
        found, _ = self.with_tree(game, policy, states, keys)
        return found

    def with_tree(
        self,
        game: SingleGame[Any],
        policy: ActorCritic,
        states: PyTree[Array],
        keys: Key[Array, " games"],
    ) -> tuple[Found, Any]:
        """What `__call__` finds, and the tree of mctx of each position, to look into."""
        # mctx relies on implicit promotion, which our own code does not.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return jax.vmap(partial(self._search_one, game, policy))(states, keys)

    def _search_one(
        self, game: SingleGame[Any], policy: ActorCritic, state: PyTree[Array], key: Key[Array, ""]
    ) -> tuple[Found, Any]:
        # mctx draws the noise of a batch from one key. A batch of one makes it that of a position.
        legal = game.legal(state)
        logits, value = judge(game, policy, state)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        output = mctx.gumbel_muzero_policy(
            params=(),
            rng_key=key,
            root=_batch_of_one(root),
            recurrent_fn=partial(_imagine, game, policy),
            num_simulations=self.num_simulations,
            invalid_actions=~legal[None],
            qtransform=partial(
                mctx.qtransform_completed_by_mix_value,
                value_scale=self.value_scale,
                rescale_values=False,  # values are -1 to 1, and a small difference is a small one
            ),
            max_num_considered_actions=self.max_considered_actions,
            gumbel_scale=self.gumbel_scale,
        )
        tree = jax.tree.map(lambda leaf: leaf[0], output.search_tree)
        return Found(
            action=output.action[0],
            weights=jnp.where(legal, output.action_weights[0], 0.0),
            value=tree.node_values[tree.ROOT_INDEX],
        ), tree


def judge(
    game: SingleGame[Any], policy: ActorCritic, state: PyTree[Array]
) -> tuple[Float32[Array, " num_actions"], Float32[Array, ""]]:
    """The network's logits of the moves in a position, and its value for the player to move.

    Args:
        game: the rules.
        policy: the network.
        state: one position.

    Returns:
        The logits, the smallest float32 for illegal moves; and the value, cut to -1 to 1.
    """
    logits, value, _ = policy(game.observe(state), policy.initial_carry())
    return masked_logits(logits, game.legal(state)), jnp.clip(value, -1.0, 1.0)


def masked_logits(
    logits: Float32[Array, " num_actions"], legal: Bool[Array, " num_actions"]
) -> Float32[Array, " num_actions"]:
    """The logits with the smallest float32 for illegal moves, and 0 as the largest of the others.

    Args:
        logits: of all moves.
        legal: the legal moves.
    """
    largest = jnp.max(jnp.where(legal, logits, _NEVER))
    return jnp.where(legal, logits - largest, _NEVER)


def _imagine(
    game: SingleGame[Any],
    policy: ActorCritic,
    params: tuple[()],
    key: Key[Array, ""],
    actions: Int32[Array, " batch"],
    states: PyTree[Array],
) -> tuple[Any, PyTree[Array]]:
    """One move in the tree, for mctx.

    A reward and a value belong to the player who moves in their position. So the discount from a
    move to the position after it is -1, and 0 where the game ended.
    """

    def one(state: PyTree[Array], action: Int32[Array, ""]) -> tuple[Any, PyTree[Array]]:
        played = game.play(state, action, key=jax.random.key(_NO_CHANCE))
        logits, value = judge(game, policy, played.state)
        return mctx.RecurrentFnOutput(
            reward=played.reward,
            discount=jnp.where(played.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=value,
        ), played.state

    return jax.vmap(one)(states, actions)


def _batch_of_one(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[None], tree)
