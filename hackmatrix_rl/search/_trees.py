"""Trees that grow side by side, by mctx: what all searches in trees have in common."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import mctx
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.batching import select, side_by_side
from hackmatrix_rl.search._game_model import GameModel
from hackmatrix_rl.search._improvement import Improvement, masked_logits

_ANY = 0
"""The seed of mctx's own draws: they only tell simulations apart, and a tree has its own key."""


class Prior(eqx.Module):
    """The network's output for a state.

    Attributes:
        logits: of the actions.
        value: the expected return, in units of reward.
    """

    logits: Float32[Array, "*axes num_actions"]
    value: Float32[Array, "*axes"]


class Roots(eqx.Module):
    """Where trees begin; each leaf has a leading axis of trees, but for a single root.

    Attributes:
        state: imagined states.
        legal: the actions to choose from.
        prior: the network's opinion, with illegal actions masked.
        noise: added to the logits where an action is chosen (see `gumbel_noise`).
        key: of the chance in a tree. What one tree finds depends on no other tree.
    """

    state: PyTree[Array]
    legal: Bool[Array, "*trees num_actions"]
    prior: Prior
    noise: Float32[Array, "*trees num_actions"]
    key: Key[Array, "*trees"]


class Node(eqx.Module):
    """An imagined state in a tree.

    Attributes:
        state: the state.
        over: whether the game is over. Then nothing happens any more.
    """

    state: PyTree[Array]
    over: Bool[Array, "*axes"]


class Grown(eqx.Module):
    """The statistics of trees at their roots.

    Attributes:
        action: the best of the most visited actions, with its noise.
        values: mean value of each action, in units of reward; 0 without a visit.
        visits: how often each action was tried.
        value: mean value of all visits and of the network's look, in units of reward.
        trees: those of mctx, to look into; their states are `Node`.
    """

    action: Int32[Array, " trees"]
    values: Float32[Array, "trees num_actions"]
    visits: Int32[Array, "trees num_actions"]
    value: Float32[Array, " trees"]
    trees: Any


@final
class Trees(eqx.Module):
    """Gumbel MuZero search in many trees at once, each with a root of its own.

    The rules are the model. A reward and a value belong to the player who moves in their state:
    back over a move after which the opponent moves, a value turns its sign. A game that is over
    has no value beyond its last reward.

    Values in the trees are in units of reward, in which rewards and values add up. Choices compare
    them in the units of the network (`Improvement`).

    Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel".

    Attributes:
        model: the game.
        policy: the network, without a memory.
        improvement: weighs values against the prior; it has the units of the network's value.
        gamma: discount of the return that the network's value predicts.
        simulations: actions tried out in each tree.
        considered: how many actions a tree tries at the root, at most.
    """

    model: GameModel[Any, Any]
    policy: ActorCritic
    improvement: Improvement
    gamma: float = eqx.field(static=True)
    simulations: int = eqx.field(static=True)
    considered: int = eqx.field(static=True)

    def judge(self, state: PyTree[Array]) -> Prior:
        """The network's output for one imagined state, with illegal actions masked."""
        logits, value, _ = self.policy(self.model.look(state), self.policy.initial_carry())
        return Prior(
            logits=masked_logits(logits, self.model.legal(state)),
            value=self.improvement.scale.denormalize(value.astype(jnp.float32)),
        )

    def __call__(self, roots: Roots) -> Grown:
        """Grows a tree from each root."""
        # mctx would draw other noise for each tree. Added to the prior, it ranks the same.
        root = mctx.RootFnOutput(
            prior_logits=roots.prior.logits + roots.noise,
            value=roots.prior.value,
            embedding=Node(roots.state, jnp.zeros(roots.prior.value.shape, bool)),
        )
        # mctx relies on implicit promotion.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            output = mctx.gumbel_muzero_policy(
                roots.key,
                jax.random.key(_ANY),
                root,
                self._expand,
                self.simulations,
                invalid_actions=~roots.legal,
                qtransform=self._worth,
                max_num_considered_actions=self.considered,
                gumbel_scale=0.0,
            )
            found = output.search_tree
            values = found.summary().qvalues
        return Grown(
            action=output.action.astype(jnp.int32),
            values=values,
            visits=found.children_visits[:, found.ROOT_INDEX],
            value=found.node_values[:, found.ROOT_INDEX],
            trees=found,
        )

    def _worth(self, tree: Any, node: Any) -> Float32[Array, " num_actions"]:
        """The values below a node, converted to logits."""
        return self.improvement(
            tree.qvalues(node),
            tree.children_visits[node],
            tree.children_prior_logits[node],
            tree.raw_values[node],
        )

    def _expand(
        self, keys: Key[Array, " trees"], key: Key[Array, ""], actions: Array, nodes: Node
    ) -> tuple[mctx.RecurrentFnOutput, Node]:
        """Tries one action out in each tree: mctx's `recurrent_fn`."""
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, jax.random.bits(key))
        # A game or a network may hold more than arrays.
        arrays, code = eqx.partition(self, eqx.is_array)

        def one(
            each: tuple[Node, Array, Array], arrays: "Trees"
        ) -> tuple[mctx.RecurrentFnOutput, Node]:
            node, action, key = each
            trees = eqx.combine(arrays, code)
            step = trees.model.play(node.state, action, key=key)
            over = node.over | step.terminated
            state = select(node.over, node.state, step.state)
            prior = trees.judge(state)
            sign = jnp.where(jnp.asarray(step.opponents_turn), -1.0, 1.0)
            output = mctx.RecurrentFnOutput(
                reward=jnp.where(node.over, 0.0, step.reward),
                discount=jnp.where(over, 0.0, trees.gamma * sign),
                prior_logits=prior.logits,
                value=prior.value,
            )
            return output, Node(state, over)

        return side_by_side(one, (nodes, actions, keys), arrays)


def gumbel_noise(
    scale: float, legal: Bool[Array, " num_actions"], *, key: Key[Array, ""]
) -> Float32[Array, " num_actions"]:
    """Noise for the logits of one root: the best sum is a draw from the prior.

    Args:
        scale: 1 draws the actions to try, as for learning; 0 takes the likeliest.
        legal: the actions.
        key: decides the noise.
    """
    return scale * jax.random.gumbel(key, legal.shape, jnp.float32)
