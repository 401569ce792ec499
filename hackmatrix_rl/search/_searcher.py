"""A player with a tree search before each move."""

from typing import Any, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, PyTree

from hackmatrix_rl.agent import MaskedCategorical, ValueScale, check_policy_shapes
from hackmatrix_rl.agent.networks import ActorCritic
from hackmatrix_rl.env import Batched, Environment, HackMatrix, check_discrete
from hackmatrix_rl.evaluation import PolicyAgent, StateAgent, Thought, consult
from hackmatrix_rl.search._game_model import GameModel, HackMatrixModel, SingleGameModel
from hackmatrix_rl.search._imagined import Legal, PerAction
from hackmatrix_rl.search._network_guide import check_memoryless
from hackmatrix_rl.search._tree_search import Improvement, Prior, SearchResult, Trees, TreeSearch
from hackmatrix_rl.system.batching import one_round_loop
from hackmatrix_rl.system.errors import described, whole

SIMULATIONS = 32
"""The default number of simulations for a move."""
_CONSIDERED = 8
_PER_TREE = 8
_MOST_TREES = 8
_SHARE, _LEAST = 8, 32
"""Width of the loop's buffer: 1/8 of the games, at least 32. Games that have ended, or have one
legal action, are skipped."""


@final
class Searcher(StateAgent):
    """Searches with a network as prior and value, and the true game as the model (`TreeSearch`).

    It is fair: it samples hidden information and chance outcomes itself.

    Attributes:
        search: the search, with the model and the network.
    """

    search: TreeSearch

    def __init__(
        self,
        policy: ActorCritic | PolicyAgent,
        env: Environment | GameModel[Any, Any],
        num_simulations: int = SIMULATIONS,
        *,
        determinisations: int | None = None,
        value_scale: ValueScale | None = None,
        gamma: float | None = None,
        gumbel_scale: float = 0.0,
        considered: int = _CONSIDERED,
        value_weight: float = 0.3,
    ) -> None:
        """A player.

        Args:
            policy: a network without a memory; `hm.load(run).agent()` also has the units of its
                value.
            env: `HackMatrix`, a `Batched` game, or the model of another game.
            num_simulations: number of simulations for a move, in all trees together.
            determinisations: number of trees, which share the simulations evenly; a remainder is
                dropped. By default one for each 8 simulations, at most 8.
            value_scale: units of the network's value; by default the agent's.
            gamma: discount of the return that the value predicts; by default the agent's.
            gumbel_scale: 0 considers the likeliest actions; 1 samples the actions to consider.
            considered: most actions that a tree considers.
            value_weight: `Improvement.weight` of the network's value against its logits.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: the network has a memory, the units of its value are unknown, the
                environment has no model or does not fit the network, or a number is out of range.
        """
        network = policy.policy if isinstance(policy, PolicyAgent) else policy
        if not isinstance(network, ActorCritic):
            raise TypeError(
                f"policy is {described(policy)}; expected a network, or hm.load(run).agent()"
            )
        check_memoryless(network)
        model = env if isinstance(env, GameModel) else model_of(env)
        if isinstance(env, Environment):
            check_discrete(env.spec, "a tree search")
            check_policy_shapes(network, env.spec)
        whole("num_simulations", num_simulations)
        if determinisations is None:
            determinisations = min(max(num_simulations // _PER_TREE, 1), _MOST_TREES)
        whole("determinisations", determinisations)
        whole("considered", considered)
        if determinisations > num_simulations:
            raise ValueError(
                f"determinisations is {determinisations}, but there are only {num_simulations} "
                "simulations to share; each tree needs one"
            )
        if isinstance(policy, PolicyAgent):
            value_scale = policy.value_scale if value_scale is None else value_scale
            gamma = policy.gamma if gamma is None else gamma
        if value_scale is None or gamma is None:
            raise ValueError(
                "the units of the network's value are unknown, and a search adds rewards to it: "
                "give hm.load(run).agent() as policy, or value_scale and gamma"
            )
        trees = Trees(
            model=model,
            policy=network,
            improvement=Improvement(value_scale, weight=value_weight),
            gamma=gamma,
            simulations=num_simulations // determinisations,
            considered=considered,
        )
        self.search = TreeSearch(trees, determinisations, gumbel_scale)

    @property
    def tells_probabilities(self) -> bool:
        return True

    @property
    def gamma(self) -> float:
        """Discount of the return that the network's value predicts."""
        return self.search.trees.gamma

    def mismatch(self, environment: Environment) -> str | None:
        return self.search.trees.model.mismatch(environment)

    def think(
        self, observation: PyTree[Array], mask: Legal, carry: PyTree[Array], *, key: Key[Array, ""]
    ) -> tuple[Int32[Array, ""], PyTree[Array], Thought]:
        """Searches the state of one game; the thought has the value and the visits of each action.

        The probabilities of the thought are a target to learn from. Actions that are not searched
        keep the network's probability, and are sampled with it.
        """
        draw_key, search_key = jax.random.split(key)
        trees, game = self.search.trees, observation
        model, network = trees.model, trees.policy
        logits, value, _, win = consult(network, model.observe(game), network.initial_carry())
        prior = Prior(logits, trees.improvement.scale.denormalize(value.astype(jnp.float32)))
        pi = MaskedCategorical(logits, mask)
        legal = model.searched(mask)
        drawn = pi.sample(draw_key)
        searches = legal[drawn]
        wanted = (jnp.sum(legal, dtype=jnp.int32) > 1) & searches
        result = self._searched(game, legal, prior, wanted, search_key)
        worth = result.values[result.action]
        thought = Thought(
            probabilities=_with_unsearched(result.policy, legal, pi),
            value=jnp.where(jnp.isnan(worth), prior.value, worth),
            win_probability=None if win is None else jax.nn.sigmoid(win),
            search_values=result.values,
            search_visits=result.visits,
        )
        return jnp.where(searches, result.action, drawn), carry, thought

    def _searched(
        self,
        game: PyTree[Array],
        legal: Legal,
        prior: Prior,
        wanted: Bool[Array, ""],
        key: Key[Array, ""],
    ) -> SearchResult:
        """The result of the search if it is `wanted`, else the prior's."""
        pi = MaskedCategorical(prior.logits, legal)
        nothing = SearchResult(
            action=pi.mode(),
            policy=jnp.where(legal, pi.probs, 0.0),
            values=jnp.full(legal.shape, jnp.nan, jnp.float32),
            visits=jnp.zeros(legal.shape, jnp.int32),
        )
        given = (self.search, game, legal, prior, key)

        def one(carry: tuple[Array, SearchResult], given: Any) -> tuple[Array, SearchResult]:
            search, game, legal, prior, key = given
            return jnp.zeros_like(carry[0]), search(game, legal, prior, key=key)

        return one_round_loop(
            lambda carry, _: carry[0], one, (wanted, nothing), given, share=_SHARE, least=_LEAST
        )[1]


def _with_unsearched(improved: PerAction, searched: Legal, prior: MaskedCategorical) -> PerAction:
    """The improved policy, in which actions that are not searched keep the prior's probability."""
    unsearched = jnp.where(searched, 0.0, prior.probs)
    return (1.0 - jnp.sum(unsearched)) * improved + unsearched


def model_of(environment: Environment) -> GameModel[Any, Any]:
    """The model of an environment; raises a ValueError if there is none."""
    if isinstance(environment, HackMatrix):
        return HackMatrixModel(environment)
    if isinstance(environment, Batched):
        return SingleGameModel(environment.game)
    raise ValueError(
        f"{type(environment).__name__} has no model to search in; expected HackMatrix, or "
        "hm.Batched(game) with an hm.SingleGame"
    )
