"""Tree search by mctx, with the true game as the model and a network as prior and value."""

from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import mctx
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.agent import ValueScale
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.search._game_model import GameModel
from hackmatrix_rl.search._imagined import Legal, PerAction
from hackmatrix_rl.system.batching import flat_vmap, select

Visits = Int32[Array, " num_actions"]

_ILLEGAL = np.finfo(np.float32).min
"""The logit of an illegal action: its probability is exactly 0, and sums with it are finite."""
_TINY = np.finfo(np.float32).tiny
"""The least weight of a visited action."""


@final
class Improvement(eqx.Module):
    """Converts action values to logits, which are added to the prior's.

    Values are compared in the units in which the network learns them (`ValueScale`), where they
    have a standard deviation of about 1. Unlike min-max scaling within a node, this keeps
    differences visible beside a victory of 500, and keeps noise of the network below the prior.

    Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel", equation 8 and
    appendix D.
    """

    scale: ValueScale  #: The units.
    visits: float = eqx.field(static=True, default=50.0)  #: Added to the most visits of an action.
    #: Logits per unit of value, for each visit.
    weight: float = eqx.field(static=True, default=1.0)

    def __call__(
        self, values: PerAction, visits: Visits, logits: PerAction, raw: Float32[Array, ""]
    ) -> PerAction:
        """The term to add to the logits of the prior; `raw` is the network's value of the state.

        All values are in units of reward.
        """
        # Actions without visits get a mixture of the others' values and the network's value.
        visited = visits > 0
        prior = jnp.where(visited, jnp.maximum(jax.nn.softmax(logits), _TINY), 0.0)
        mean = jnp.sum(prior * jnp.where(visited, values, 0.0)) / jnp.maximum(jnp.sum(prior), _TINY)
        total = jnp.sum(visits).astype(jnp.float32)
        completed = jnp.where(visited, values, (raw + total * mean) / (1.0 + total))
        most = jnp.max(visits).astype(jnp.float32)
        return (self.visits + most) * self.weight * self.scale.normalize(completed)


def masked_logits(logits: PerAction, legal: Legal) -> PerAction:
    """The logits, at most 0, with the smallest float32 for illegal actions."""
    largest = jnp.max(jnp.where(legal, logits, _ILLEGAL))
    return jnp.where(legal, logits - largest, _ILLEGAL)


_ANY = 0
"""The seed of mctx's keys, which only distinguish simulations: each tree has a key."""


class Prior(eqx.Module):
    """The network's output for a state; the value is the expected return, in units of reward."""

    logits: Float32[Array, "*axes num_actions"]
    value: Float32[Array, "*axes"]


class Roots(eqx.Module):
    """The roots of trees. Leaves have a leading axis of trees, unless it is a single root."""

    state: PyTree[Array]  #: Imagined states.
    legal: Bool[Array, "*trees num_actions"]  #: The actions to choose from.
    prior: Prior  #: The network's output, with illegal actions masked.
    #: Added to the logits in the choice of an action (see `gumbel_noise`).
    noise: Float32[Array, "*trees num_actions"]
    #: Keys of the chance in each tree. The result of a tree does not depend on other trees.
    key: Key[Array, "*trees"]


class Node(eqx.Module):
    """An imagined state in a tree. A state in which the game is over is absorbing."""

    state: PyTree[Array]
    over: Bool[Array, "*axes"]


Expanded = tuple[mctx.RecurrentFnOutput, Node]


class Grown(eqx.Module):
    """The statistics of trees at their roots."""

    action: Int32[Array, " trees"]  #: The best of the most visited actions, including its noise.
    #: Mean value of each action, in units of reward; 0 without a visit.
    values: Float32[Array, "trees num_actions"]
    visits: Int32[Array, "trees num_actions"]  #: Number of visits of each action.
    #: Mean over all visits and the network's value, in units of reward.
    value: Float32[Array, " trees"]
    trees: Any  #: The trees of mctx, for inspection; their states are `Node`.


class _AtRoots(eqx.Module):
    """The values, visits and value of `Grown`."""

    values: Float32[Array, "*trees num_actions"]
    visits: Int32[Array, "*trees num_actions"]
    value: Float32[Array, "*trees"]

    @classmethod
    def of(cls, trees: Any) -> "_AtRoots":
        """The statistics of trees of mctx."""
        return cls(
            values=trees.summary().qvalues,
            visits=trees.children_visits[:, trees.ROOT_INDEX],
            value=trees.node_values[:, trees.ROOT_INDEX],
        )

    def grown(self, action: Int32[Array, " trees"], trees: Any) -> Grown:
        """The result of a search that ends with these statistics."""
        return Grown(action, self.values, self.visits, self.value, trees)


class _Budgeted(eqx.Module):
    """The extra data of trees with two budgets."""

    root_gumbel: Float32[Array, "*trees num_actions"]  #: The noise of mctx, which is 0.
    few: Bool[Array, "*trees"]  #: Which trees have the smaller budget.
    kept: _AtRoots  #: The statistics when the budget was reached.


@final
class Trees(eqx.Module):
    """Gumbel MuZero search in a batch of trees, from one root each.

    The rules are the model. Rewards and values are for the player who moves in their state: the
    backup changes the sign of a value over a move after which the opponent moves. A game that is
    over has no value after its last reward.

    Values in the trees are in units of reward, so rewards and values can be added. Choices compare
    them in the units of the network (`Improvement`).

    Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel".
    """

    model: GameModel[Any, Any]  #: The game.
    policy: ActorCritic  #: The network, without a memory.
    #: Weighs values against the prior; its scale has the units of the network's value.
    improvement: Improvement
    #: Discount of the return that the network's value predicts.
    gamma: float = eqx.field(static=True)
    simulations: int = eqx.field(static=True)  #: Number of simulations per tree.
    #: Most actions that a tree considers at the root.
    considered: int = eqx.field(static=True)
    #: Number of simulations in the trees marked in `__call__`; at most `simulations`.
    few_simulations: int | None = eqx.field(static=True, default=None)

    def judge(self, state: PyTree[Array]) -> Prior:
        """The network's output for one imagined state, with illegal actions masked."""
        logits, value, _ = self.policy(self.model.look(state), self.policy.initial_carry())
        return Prior(
            logits=masked_logits(logits, self.model.legal(state)),
            value=self.improvement.scale.denormalize(value.astype(jnp.float32)),
        )

    def __call__(self, roots: Roots, few: Bool[Array, " trees"] | None = None) -> Grown:
        """Grows a tree from each root.

        With `few_simulations`, `few` marks the trees with that budget. All grow in one loop; these
        follow the schedule of the smaller budget, and their later simulations do not count.
        """
        # mctx would draw different noise for each tree. Added to the prior, ours ranks the same.
        root = mctx.RootFnOutput(
            prior_logits=roots.prior.logits + roots.noise,
            value=roots.prior.value,
            embedding=Node(roots.state, jnp.zeros(roots.prior.value.shape, bool)),
        )
        # mctx relies on implicit promotion.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            if few is not None and self.few_simulations is not None:
                return self._with_budgets(roots, root, few, self.few_simulations)
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
            found = _AtRoots.of(output.search_tree)
        return found.grown(output.action.astype(jnp.int32), output.search_tree)

    def _with_budgets(
        self, roots: Roots, root: Any, few: Bool[Array, " trees"], fewest: int
    ) -> Grown:
        """Gumbel MuZero search in trees of two budgets, from the parts of mctx."""
        noise = jnp.zeros_like(roots.prior.logits)
        nothing = _AtRoots(noise, noise.astype(jnp.int32), roots.prior.value)
        budget = jnp.where(few, fewest, self.simulations)

        def at_root(key: Any, tree: Any, node: Any) -> Array:
            by_few, by_all = (
                mctx.gumbel_muzero_root_action_selection(
                    *(key, tree, node),
                    num_simulations=simulations,
                    max_num_considered_actions=self.considered,
                    qtransform=self._worth,
                )
                for simulations in (fewest, self.simulations)
            )
            return jnp.where(tree.extra_data.few, by_few, by_all)

        def loop(first: Any, end: Any, body: Any, start: Any) -> Any:
            def simulate(number: Array, carry: Any) -> Any:
                key, trees = body(number, carry)
                extra, here = trees.extra_data, _AtRoots.of(trees)
                kept = jax.vmap(select)(number + 1 == budget, here, extra.kept)
                return key, trees.replace(extra_data=_Budgeted(noise, few, kept))

            return jax.lax.fori_loop(first, end, simulate, start)

        trees = mctx.search(
            roots.key,
            # As in `mctx.gumbel_muzero_policy`: equal budgets give the same result.
            jax.random.split(jax.random.key(_ANY))[0],
            root=root,
            recurrent_fn=self._expand,
            root_action_selection_fn=at_root,
            interior_action_selection_fn=partial(
                mctx.gumbel_muzero_interior_action_selection, qtransform=self._worth
            ),
            num_simulations=self.simulations,
            invalid_actions=~roots.legal,
            extra_data=_Budgeted(noise, few, nothing),
            loop_fn=loop,
        )
        kept = trees.extra_data.kept

        def best(found: _AtRoots, root: Roots) -> Array:
            worth = self.improvement(
                found.values, found.visits, root.prior.logits + root.noise, root.prior.value
            )
            most = root.legal & (found.visits == jnp.max(found.visits))
            ranking = jnp.where(most, root.prior.logits + root.noise + worth, -jnp.inf)
            return jnp.argmax(ranking).astype(jnp.int32)

        return kept.grown(jax.vmap(best)(kept, roots), trees)

    def _worth(self, tree: Any, node: Any) -> PerAction:
        """The values of a node's actions, converted to logits."""
        return self.improvement(
            tree.qvalues(node),
            tree.children_visits[node],
            tree.children_prior_logits[node],
            tree.raw_values[node],
        )

    def _expand(
        self, keys: Key[Array, " trees"], key: Key[Array, ""], actions: Array, nodes: Node
    ) -> Expanded:
        """Simulates one action in each tree: the `recurrent_fn` of mctx."""
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, jax.random.bits(key))
        # Modules may have leaves that are not arrays.
        arrays, code = eqx.partition(self, eqx.is_array)

        def one(each: tuple[Node, Array, Array], arrays: "Trees") -> Expanded:
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

        return flat_vmap(one, (nodes, actions, keys), arrays)


def gumbel_noise(scale: float, legal: Legal, *, key: Key[Array, ""]) -> PerAction:
    """Noise for the logits of one root: the argmax of the sum is a sample from the prior.

    `scale` is 1 to sample the actions to consider, as in learning, or 0 to take the likeliest.
    """
    return scale * jax.random.gumbel(key, legal.shape, jnp.float32)


class SearchResult(eqx.Module):
    """The result of a search."""

    action: Int32[Array, ""]  #: The chosen action.
    policy: PerAction  #: The improved policy, a target to learn from.
    #: Mean value of each action over the determinisations, in units of reward; NaN without a visit.
    values: PerAction
    visits: Visits  #: Number of visits of each action, over all trees.


@final
class TreeSearch(eqx.Module):
    """Gumbel MuZero search in several determinisations of one game.

    mctx samples the chance outcome of an action once and keeps it, so one tree plans for one
    future. Each tree samples its chance outcomes and its hidden state (determinisation). At the
    root, the value of an action is its mean over the trees, each with the same weight. (The mean
    over all visits would be biased upwards: a tree with a lucky outcome visits the action more
    often.) All trees share one sample of the Gumbel noise, so they consider the same actions first.
    Below the root, a tree still knows its future: its values are biased upwards where chance
    follows a choice.

    Source: Cowling, Powley and Whitehouse 2012, "Information set Monte Carlo tree search"
    (determinisations).
    """

    trees: Trees  #: The search in each tree.
    determinisations: int = eqx.field(static=True)  #: Number of trees.
    #: 1 samples the actions to consider, as in learning; 0 takes the likeliest.
    gumbel_scale: float = eqx.field(static=True)

    def __call__(
        self, game: PyTree[Array], legal: Legal, prior: Prior, *, key: Key[Array, ""]
    ) -> SearchResult:
        """Searches for the best action in one real state; `prior` is the network's output there.

        The key of the real game must not be derived from `key`, which is the source of the noise,
        the hidden information and the chance outcomes in the trees.
        """
        noise_key, unseen_key, tree_key = jax.random.split(key, 3)
        count = self.determinisations
        prior = Prior(masked_logits(prior.logits, legal), prior.value)
        noise = gumbel_noise(self.gumbel_scale, legal, key=noise_key)
        states = flat_vmap(
            lambda key, shared: shared[0].imagine(shared[1], key=key),
            jax.random.split(unseen_key, count),
            (self.trees.model, game),
        )
        legal, priors, noises = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), (legal, prior, noise)
        )
        roots = Roots(states, legal, priors, noises, jax.random.split(tree_key, count))
        return self._combine(self.trees(roots), prior, noise)

    def _combine(self, grown: Grown, prior: Prior, noise: PerAction) -> SearchResult:
        tried = grown.visits > 0
        count = jnp.sum(tried, axis=0, dtype=jnp.int32)
        sums = jnp.sum(jnp.where(tried, grown.values, 0.0), axis=0)
        mean = sums / jnp.maximum(count, 1).astype(jnp.float32)
        total = jnp.sum(grown.visits, axis=0, dtype=jnp.int32)
        worth = self.trees.improvement(mean, total, prior.logits, prior.value)
        improved = prior.logits + worth
        ranking = jnp.where(total > 0, improved + noise, -jnp.inf)
        return SearchResult(
            action=jnp.argmax(ranking).astype(jnp.int32),
            policy=jax.nn.softmax(improved),
            values=jnp.where(total > 0, mean, jnp.nan),
            visits=total,
        )
