"""A game move by move is the game of an evaluation."""

import equinox as eqx
import jax
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.agent import IDENTITY_SCALE
from hackmatrix_rl.evaluation import PolicyAgent, RandomAgent, Runner, evaluate_all
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import Match, Mind, game_seed
from view.games import played

pytestmark = pytest.mark.view

SEED = 5
GAMES = 6


@pytest.fixture(scope="module")
def network():
    return hm.build_network("cells", hm.HackMatrix().spec, width=16, key=jax.random.key(0))


@pytest.fixture(scope="module")
def players(network):
    return {
        "runner": Runner(),
        "random": RandomAgent(),
        "drawn": PolicyAgent(network),
        "greedy": PolicyAgent(network, greedy=True),
    }


@pytest.fixture(scope="module")
def evaluations(players):
    environment = hm.HackMatrix(max_steps=60)
    return evaluate_all(players, environment, episodes=GAMES, key=jax.random.key(SEED))


@pytest.mark.parametrize("name", ["runner", "random", "drawn", "greedy"])
def test_an_agent_plays_the_games_that_it_plays_in_an_evaluation(name, players, evaluations):
    found = evaluations[name].values
    # Otherwise nothing would show how the set-up of a stage draws.
    assert name != "runner" or found["stage"].max() > 1
    for game in range(GAMES):
        match = played(SEED, players[name], game=game, max_steps=60)
        last = match.now.frame
        assert len(match.actions) == found["length"][game]
        assert (last.stage, last.score) == (found["stage"][game], found["score"][game])
        assert match.total_reward == pytest.approx(found["return"][game], abs=1e-3)
        assert match.now.end == ("cut off" if len(match.actions) == 60 else "died")


def test_a_move_that_is_not_legal_is_refused_and_changes_nothing():
    match = Match.start(SEED)
    before = match.now
    refused = next(action for action in hm.Action if not before.mask[action])
    with pytest.raises(ConfigError, match=f"{refused.name} is not legal here; legal: "):
        match.play(refused)
    assert match.now is before
    with pytest.raises(ConfigError, match="action 28 does not exist; actions are 0 to 27"):
        match.play(28)


def test_no_move_follows_the_end():
    match = Match.start(SEED, max_steps=1)
    match.play(match.now.legal[0])
    assert match.now.end == "cut off"
    assert match.now.legal == ()
    with pytest.raises(ConfigError, match=r"the game has ended \(cut off\) after 1 moves"):
        match.play(0)


def test_the_terms_add_up_to_the_reward_and_a_seed_is_the_key_of_one_game():
    match = Match.start(SEED)
    moment = match.play(match.now.legal[0])
    assert moment.terms["step_penalty"] == pytest.approx(-0.01)
    assert match.total_reward == pytest.approx(sum(moment.terms.values()))
    assert game_seed(jax.random.key(3), 0) != game_seed(jax.random.key(3), 1)
    match = Match(game_seed(jax.random.key(3), 1))
    assert match.now.frame == Match.start(3, game=1).now.frame


def test_a_mind_follows_moves_that_are_not_its_own(network):
    match = Match.start(SEED)
    late = Mind(network, match)
    early = Mind(network, match)
    for _ in range(3):
        early.opinion()
        match.play(match.now.legal[0])
    assert [early.opinion(number) for number in range(4)] == [
        late.opinion(number) for number in range(4)
    ]


def test_an_opinion_gives_probabilities_of_legal_actions_and_with_a_scale_the_value(network):
    match = Match.start(SEED)
    opinion = Mind(network, match).opinion()
    assert set(opinion.probabilities) == set(match.now.legal)
    numbers = list(opinion.probabilities.values())
    assert numbers == sorted(numbers, reverse=True)
    assert sum(numbers) == pytest.approx(1)
    assert opinion.value is None  # the units of this network's value are unknown
    match = Match.start(SEED)
    opinion = Mind(PolicyAgent(network, value_scale=IDENTITY_SCALE), match).opinion()
    see = eqx.filter_jit(lambda network, state: network(hm.HackMatrix().observe(state), ()))
    _, value, _ = see(network, match.now.state)
    assert opinion.value == pytest.approx(float(value), rel=1e-5)


def test_a_script_has_no_probabilities():
    opinion = Mind(Runner(), Match.start(SEED)).opinion()
    assert opinion.probabilities == {}
    assert (opinion.value, opinion.win_probability) == (None, None)
