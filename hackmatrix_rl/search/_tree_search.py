"""A search in trees, by mctx: the true game as the model, a network as prior and value."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import mctx
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.batching import select, side_by_side
from hackmatrix_rl.search._game_model import GameModel
from hackmatrix_rl.search._improvement import ILLEGAL, Improvement, complete


class Prior(eqx.Module):
    """What the network says of the real state.

    Attributes:
        logits: of the actions.
        value: the expected return, in units of reward.
    """

    logits: Float32[Array, " num_actions"]
    value: Float32[Array, ""]


class SearchResult(eqx.Module):
    """What a search found.

    Attributes:
        action: the one to take.
        policy: probabilities of the actions after the search, a target to learn from.
        values: mean value of each action over the determinisations, in units of reward; NaN for
            actions that no tree tried.
        visits: how often the trees tried each action.
    """

    action: Int32[Array, ""]
    policy: Float32[Array, " num_actions"]
    values: Float32[Array, " num_actions"]
    visits: Int32[Array, " num_actions"]


class Node(eqx.Module):
    """An imagined state in a tree.

    Attributes:
        state: the state.
        over: whether the game is over. Then nothing happens any more.
    """

    state: PyTree[Array]
    over: Bool[Array, "*batch"]


@final
class TreeSearch(eqx.Module):
    """Gumbel MuZero search in several determinisations of one game.

    mctx draws the chance of an action once and keeps it, so one tree believes in one future. Each
    determinisation is a tree of its own: with its own draw of what is unseen, and its own chance
    in every action. At the root, the value of an action is its mean over the trees, each of which
    counts once. (The mean over all visits would be too high: a tree in which an action has luck
    visits it more often.) All trees share one draw of the Gumbel noise, so they try the same
    actions first. Further down, a tree still knows its own future: its values are too high where
    a gamble comes after a choice.

    Values in the trees are in units of reward, in which rewards and values add up. Choices compare
    them in the units of the network (`Improvement`).

    Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel"; determinisations:
    Cowling, Powley and Whitehouse 2012, "Information set Monte Carlo tree search".

    Attributes:
        model: the game.
        policy: the network, without a memory.
        improvement: weighs values against the prior; it has the units of the network's value.
        gamma: discount of the return that the network's value predicts.
        simulations: actions tried out in each tree.
        determinisations: number of trees.
        considered: how many actions a tree tries at the root, at most.
        gumbel_scale: 1 draws the actions to try, as for learning; 0 takes the likeliest.
    """

    model: GameModel[Any, Any]
    policy: ActorCritic
    improvement: Improvement
    gamma: float = eqx.field(static=True)
    simulations: int = eqx.field(static=True)
    determinisations: int = eqx.field(static=True)
    considered: int = eqx.field(static=True)
    gumbel_scale: float = eqx.field(static=True)

    def __call__(
        self,
        game: PyTree[Array],
        legal: Bool[Array, " num_actions"],
        prior: Prior,
        *,
        key: Key[Array, ""],
    ) -> SearchResult:
        """Searches the best action of one real state.

        Args:
            game: the real state.
            legal: the actions to choose from.
            prior: the network's opinion of the real state.
            key: of the noise, of the unseen, and of the imagined chance. The key of the real
                game must not be derived from it.
        """
        noise_key, unseen_key, tree_key = jax.random.split(key, 3)
        trees = self.determinisations
        logits = jnp.where(legal, prior.logits, ILLEGAL)
        noise = self.gumbel_scale * jax.random.gumbel(noise_key, logits.shape, logits.dtype)
        states = side_by_side(
            lambda key, shared: shared[0].imagine(shared[1], key=key),
            jax.random.split(unseen_key, trees),
            (self.model, game),
        )
        # mctx would draw other noise for each tree. Added to the prior, it ranks the same.
        root = mctx.RootFnOutput(
            prior_logits=jnp.broadcast_to(logits + noise, (trees, *logits.shape)),
            value=jnp.broadcast_to(prior.value, (trees,)),
            embedding=Node(states, jnp.zeros(trees, bool)),
        )
        # mctx relies on implicit promotion.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            output = mctx.gumbel_muzero_policy(
                self,
                tree_key,
                root,
                _expand,
                self.simulations,
                invalid_actions=jnp.broadcast_to(~legal, (trees, *legal.shape)),
                qtransform=self._interior,
                max_num_considered_actions=self.considered,
                gumbel_scale=0.0,
            )
            found = output.search_tree
            visits = found.children_visits[:, found.ROOT_INDEX]
            values = found.summary().qvalues
        return self._combine(values, visits, logits, noise, prior.value)

    def _interior(self, tree: Any, node: Any) -> Float32[Array, " num_actions"]:
        """What the values below a node are worth in logits."""
        visits = tree.children_visits[node]
        values = complete(
            tree.qvalues(node), visits, tree.children_prior_logits[node], tree.raw_values[node]
        )
        return self.improvement(values, visits)

    def _combine(
        self,
        values: Float32[Array, "trees num_actions"],
        visits: Int32[Array, "trees num_actions"],
        logits: Float32[Array, " num_actions"],
        noise: Float32[Array, " num_actions"],
        raw: Float32[Array, ""],
    ) -> SearchResult:
        """One result of all trees."""
        tried = visits > 0
        count = jnp.sum(tried, axis=0, dtype=jnp.int32)
        mean = jnp.sum(jnp.where(tried, values, 0.0), axis=0) / jnp.maximum(count, 1).astype(
            jnp.float32
        )
        total = jnp.sum(visits, axis=0, dtype=jnp.int32)
        improved = logits + self.improvement(complete(mean, total, logits, raw), total)
        ranking = jnp.where(total > 0, improved + noise, -jnp.inf)
        return SearchResult(
            action=jnp.argmax(ranking).astype(jnp.int32),
            policy=jax.nn.softmax(improved),
            values=jnp.where(total > 0, mean, jnp.nan),
            visits=total,
        )


def _expand(
    search: TreeSearch, key: Key[Array, ""], actions: Int32[Array, " trees"], nodes: Node
) -> tuple[mctx.RecurrentFnOutput, Node]:
    """Tries one action out in each tree: mctx's `recurrent_fn`."""
    keys = jax.random.split(key, search.determinisations)

    def one(
        each: tuple[Node, Array, Array], search: TreeSearch
    ) -> tuple[mctx.RecurrentFnOutput, Node]:
        node, action, key = each
        step = search.model.play(node.state, action, key=key)
        over = node.over | step.terminated
        state = select(node.over, node.state, step.state)
        logits, value, _ = search.policy(search.model.look(state), search.policy.initial_carry())
        sign = jnp.where(jnp.asarray(step.opponents_turn), -1.0, 1.0)
        output = mctx.RecurrentFnOutput(
            reward=jnp.where(node.over, 0.0, step.reward),
            discount=jnp.where(over, 0.0, search.gamma * sign),
            prior_logits=jnp.where(search.model.legal(state), logits, ILLEGAL),
            value=search.improvement.scale.denormalize(value.astype(jnp.float32)),
        )
        return output, Node(state, over)

    return side_by_side(one, (nodes, actions, keys), search)
