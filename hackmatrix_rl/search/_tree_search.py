"""A search in trees: the true game as the model, a network as prior and value."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, PyTree

from hackmatrix_rl.batching import side_by_side
from hackmatrix_rl.search._improvement import masked_logits
from hackmatrix_rl.search._trees import Grown, Prior, Roots, Trees, gumbel_noise


class SearchResult(eqx.Module):
    """The result of a search.

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


@final
class TreeSearch(eqx.Module):
    """Gumbel MuZero search in several determinisations of one game.

    mctx samples the chance of an action once and keeps it, so one tree plans for one future. Each
    tree samples its own chance outcomes, and its own hidden state (determinisation). At the root,
    the value of an action is its mean over the trees, each of which counts once. (The mean over
    all visits would be biased upwards: a tree with a lucky outcome visits the action more often.)
    All trees share one sample of the Gumbel noise, so they consider the same actions first. Below
    the root, a tree still knows its own future: its values are biased upwards where a gamble comes
    after a choice.

    Source: Cowling, Powley and Whitehouse 2012, "Information set Monte Carlo tree search"
    (determinisations).

    Attributes:
        trees: how a tree grows.
        determinisations: number of trees.
        gumbel_scale: 1 draws the actions to try, as for learning; 0 takes the likeliest.
    """

    trees: Trees
    determinisations: int = eqx.field(static=True)
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
        count = self.determinisations
        prior = Prior(masked_logits(prior.logits, legal), prior.value)
        noise = gumbel_noise(self.gumbel_scale, legal, key=noise_key)
        states = side_by_side(
            lambda key, shared: shared[0].imagine(shared[1], key=key),
            jax.random.split(unseen_key, count),
            (self.trees.model, game),
        )
        legal, priors, noises = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), (legal, prior, noise)
        )
        roots = Roots(states, legal, priors, noises, jax.random.split(tree_key, count))
        return self._combine(self.trees(roots), prior, noise)

    def _combine(
        self, grown: Grown, prior: Prior, noise: Float32[Array, " num_actions"]
    ) -> SearchResult:
        """One result of all trees."""
        tried = grown.visits > 0
        count = jnp.sum(tried, axis=0, dtype=jnp.int32)
        mean = jnp.sum(jnp.where(tried, grown.values, 0.0), axis=0) / jnp.maximum(count, 1).astype(
            jnp.float32
        )
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
