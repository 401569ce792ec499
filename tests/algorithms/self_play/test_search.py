"""Searches in positions whose right answer is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hackmatrix_rl.algorithms.self_play import Search
from hackmatrix_rl.games.clique import edges, legal_actions

from .building import FIVE, FOUR, MAKER_BREAKER, SIX, batch_of, network, opinion, searched

pytestmark = pytest.mark.search

# Edges of six vertices: 0-1 is 0, 0-2 is 1, 1-2 is 5, 3-4 is 12, 3-5 is 13, 4-5 is 14.
WINS_IN_ONE = (([0, 1], [12, 7], 5), ([0, 9, 4], [12, 13], 14), ([12, 14], [2, 5], 13))
# Edges of four vertices: 0-1 is 0, 0-2 is 1, 0-3 is 2, 1-2 is 3, 1-3 is 4, 2-3 is 5.
BLOCKS = (([0, 1], [2], 3), ([1, 5], [3], 2), ([2, 4], [3], 0))


def keys_for(states, seed=0):
    return jax.random.split(jax.random.key(seed), states.moves.shape[0])


@pytest.mark.parametrize("seed", range(3))
def test_a_win_in_one_is_found_with_16_simulations(seed):
    states = batch_of(SIX, *(position[:2] for position in WINS_IN_ONE))
    search = Search(16, gumbel_scale=0.0)
    found = searched(search, SIX, network(SIX, seed), states, keys_for(states))
    wins = [position[2] for position in WINS_IN_ONE]
    assert found.action.tolist() == wins
    assert found.weights.argmax(axis=1).tolist() == wins


def test_a_threat_is_blocked():
    states = batch_of(FOUR, *(position[:2] for position in BLOCKS))
    found = searched(Search(128, gumbel_scale=0.0), FOUR, opinion(FOUR), states, keys_for(states))
    blocks = [position[2] for position in BLOCKS]
    assert found.action.tolist() == blocks
    assert found.weights.argmax(axis=1).tolist() == blocks


def test_the_value_is_that_of_the_player_to_move():
    """Three edges without a triangle of one colour: everything is decided, but for whom?

    The first player fills the board, and the second wins by that. A simulation that reaches the
    end brings back the result, and any other the network's value, here 0.5 for whoever moves. The
    network's look at the root counts as one more.
    """
    simulations, look = 30, 0.5
    states = batch_of(MAKER_BREAKER, ([0], [1]), ([0], []), ([], []))
    policy = opinion(MAKER_BREAKER, value=look)
    found = searched(Search(simulations), MAKER_BREAKER, policy, states, keys_for(states))
    totals = (
        look - 1 * simulations,
        look - 2 * look + 1 * (simulations - 2),
        look - 3 * look + 6 * look - 1 * (simulations - 3 - 6),
    )
    np.testing.assert_allclose(found.value, np.array(totals) / (simulations + 1), atol=1e-5)


def expected_weights(search, policy, legal, values, visits):
    """The weights to learn, in plain numpy: without the noise, and each value weighed once."""
    logits = np.where(legal, np.asarray(policy.logits), -np.inf)
    prior = np.exp(logits - logits.max())
    prior /= prior.sum()
    tried = visits > 0
    mean = (prior * values)[tried].sum() / prior[tried].sum()
    mixed = (float(policy.value) + visits.sum() * mean) / (1 + visits.sum())
    worth = (50 + visits.max()) * search.value_scale * np.where(tried, values, mixed)
    odds = np.exp(logits + worth - (logits + worth)[legal].max())
    return odds / odds.sum()


def test_the_weights_are_the_prior_and_the_values_without_the_noise():
    states = batch_of(FIVE, ([0, 5], [2, 7]), ([3], [1]))
    likes = jnp.linspace(-1.0, 1.0, 10, dtype=jnp.float32)
    policy = eqx.tree_at(lambda policy: policy.logits, opinion(FIVE, value=0.3), likes)
    search = Search(12, max_considered_actions=4)

    @eqx.filter_jit
    def look(states, keys):
        found, tree = search.with_tree(FIVE, policy, states, keys)
        root = (
            tree.summary().qvalues,
            tree.children_visits[:, 0],
            tree.children_prior_logits[:, 0],
        )
        return found.weights, jax.vmap(FIVE.legal)(states), *root

    with jax.numpy_rank_promotion("allow"):
        weights, legal, values, visits, noisy = map(np.asarray, look(states, keys_for(states)))
    for game in range(2):
        here = legal[game]
        shift = noisy[game, here] - np.asarray(likes)[here]
        assert np.ptp(shift) > 0.5, "the noise is on"
        assert 0 < (visits[game] > 0).sum() < here.sum(), "some moves are not tried"
        expected = expected_weights(search, policy, here, values[game], visits[game])
        np.testing.assert_allclose(weights[game], expected, rtol=1e-4, atol=1e-6)


def test_no_illegal_move_is_visited_inside_of_the_tree():
    """The network wants edge 7 everywhere, also where it is taken."""
    states = batch_of(FIVE, ([0], [1]), ([7, 3], [1]))
    policy = opinion(FIVE, favourite=7)

    @eqx.filter_jit
    def look(states, keys):
        _, tree = Search(48).with_tree(FIVE, policy, states, keys)
        nodes = tree.embeddings.state
        legal = jax.vmap(jax.vmap(lambda state: legal_actions(FIVE.config, state)))(nodes)
        return tree.children_visits, tree.node_visits, legal, nodes.over, tree.children_discounts

    visits, seen, legal, over, discounts = map(np.asarray, look(states, keys_for(states)))
    inner = (seen > 0) & ~over
    inner[:, 0] = False
    assert inner.sum() > 40
    assert (visits[inner][~legal[inner]] == 0).all()
    assert visits[inner].sum() > 20
    assert set(discounts[visits > 0].tolist()) <= {-1.0, 0.0}


def test_noise_explores_and_its_size_0_does_not():
    empty = batch_of(FIVE, *[([], [])] * 4)
    noisy = [
        int(action)
        for seed in range(8)
        for action in searched(Search(16), FIVE, network(FIVE), empty, keys_for(empty, seed)).action
    ]
    assert len(set(noisy)) > 3
    plain = Search(128, gumbel_scale=0.0)
    states = batch_of(FOUR, *[([], [])] * 3)
    one, other = (
        searched(plain, FOUR, opinion(FOUR), states, keys_for(states, seed)) for seed in range(2)
    )
    assert eqx.tree_equal(one, other)


@pytest.mark.parametrize(("first", "second"), [(12, 3), (3, 12)])
def test_with_a_handicap_each_player_searches_as_alone_with_that_budget(first, second):
    """What the larger budget goes on with changes nothing of the smaller."""
    states = batch_of(FIVE, ([], []), ([0], []), ([0], [7]), ([0, 5], [2]), ([3, 4], [1, 2]))
    keys, policy = keys_for(states), network(FIVE)
    moves_second = states.moves % 2 == 1
    search = Search(first, max_considered_actions=6, simulations_second=second)
    both = eqx.filter_jit(search)(FIVE, policy, states, keys, moves_second)
    alone = [
        searched(Search(budget, max_considered_actions=6), FIVE, policy, states, keys)
        for budget in (first, second)
    ]
    for game, side in enumerate(np.asarray(moves_second).astype(int)):
        assert both.action[game] == alone[side].action[game]
        for name in ("weights", "value"):
            expected, found = (getattr(each, name)[game] for each in (alone[side], both))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert abs(np.asarray(alone[0].value - alone[1].value)).min() > 1e-3


def test_the_memory_is_that_of_the_larger_budget():
    sizes = {search.tree_bytes(48, 10) for search in (Search(4, simulations_second=9), Search(9))}
    assert len(sizes) == 1
    assert Search(9, simulations_second=4).tree_bytes(48, 10) in sizes
    assert Search(4).tree_bytes(48, 10) not in sizes


def test_a_value_beyond_what_a_game_can_give_is_cut():
    (state,) = [jax.tree.map(lambda leaf: leaf[0], batch_of(FIVE, ([0], [])))]
    prior = Search(1).trees(FIVE, opinion(FIVE, value=7.0, favourite=3)).judge(state)
    assert float(prior.value) == 1.0
    assert int(jnp.argmax(prior.logits)) == 3
    assert float(prior.logits[0]) == np.finfo(np.float32).min


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"num_simulations": 0}, "num_simulations must be at least 1, not 0"),
        ({"num_simulations": 8, "max_considered_actions": 0}, "max_considered_actions must be"),
        ({"num_simulations": 8, "value_scale": -1.0}, "value_scale must not be negative"),
        ({"num_simulations": 8, "gumbel_scale": float("nan")}, "gumbel_scale must not be"),
        ({"num_simulations": 8, "simulations_second": 0}, "simulations_second must be at least 1"),
    ],
)
def test_a_search_that_cannot_be_is_refused(given, says):
    with pytest.raises(ValueError, match=says):
        Search(**given)


def test_the_names_of_edges_in_this_file():
    some = edges(6)[[0, 1, 5, 12, 13, 14]].tolist()
    assert some == [[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [4, 5]]
    assert edges(4).tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
