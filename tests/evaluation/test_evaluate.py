"""Evaluation, on an environment whose episodes are known beforehand."""

import json
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.agent import RunningScale
from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.env import CartPole, HackMatrix, env_keys
from hackmatrix_rl.evaluation import (
    Agent,
    PolicyAgent,
    RandomAgent,
    evaluate,
    evaluate_all,
    mean_of,
    rate_of,
    share_of,
)
from hackmatrix_rl.evaluation import _episodes as module

pytestmark = pytest.mark.view


class Lengths(hm.SingleGame):
    """Episodes of 1 or 50 steps, by a coin tossed at the start; the reward is the action."""

    num_actions = 2

    def start(self, *, key):
        return jnp.where(jax.random.bernoulli(key), 50, 1).astype(jnp.int32), jnp.int32(0)

    def observe(self, state):
        return state[0][None]

    def play(self, state, action, *, key):
        length, step = state
        return hm.Played((length, step + 1), action.astype(jnp.float32), step + 1 >= length)


LENGTHS = hm.Batched(Lengths())


class Always(Agent):
    """Always takes one action."""

    action: int = eqx.field(static=True)

    def act(self, observation, mask, carry, *, key):
        return jnp.int32(self.action), carry


def first_lengths(key, episodes):
    keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(env_keys(key, episodes), 0)
    return np.asarray(LENGTHS.reset(keys)[1].observation[:, 0])


def test_each_environment_counts_once_so_that_short_episodes_are_not_favoured():
    key = jax.random.key(3)
    found = evaluate(Always(1), LENGTHS, episodes=100, key=key)
    assert found.unfinished == 0
    np.testing.assert_array_equal(found.values["length"], first_lengths(key, 100))
    np.testing.assert_array_equal(found.values["return"], first_lengths(key, 100))


@pytest.mark.parametrize("num_envs", [1, 7, 32])
def test_the_episodes_do_not_depend_on_how_many_are_played_at_once(num_envs):
    key = jax.random.key(4)
    found = evaluate(Always(1), LENGTHS, episodes=20, key=key, num_envs=num_envs)
    assert found.episodes == 20
    np.testing.assert_array_equal(found.values["length"], first_lengths(key, 20))


def test_players_evaluated_together_play_as_they_would_alone():
    key = jax.random.key(5)
    together = evaluate_all(
        {"none": Always(0), "all": Always(1)}, LENGTHS, episodes=12, key=key, num_envs=5
    )
    assert not together["none"].values["return"].any()
    np.testing.assert_array_equal(together["all"].values["return"], first_lengths(key, 12))
    np.testing.assert_array_equal(together["none"].values["length"], first_lengths(key, 12))


class Choosing(Agent):
    """Takes the last legal action, and tells how many there are."""

    tell: Callable = eqx.field(static=True)

    def act(self, observation, mask, carry, *, key):
        jax.debug.callback(self.tell, jnp.sum(mask, dtype=jnp.int32))
        return (mask.size - 1 - jnp.argmax(mask[::-1])).astype(jnp.int32), carry


def test_an_episode_that_has_ended_leaves_nothing_to_choose():
    """A search would go on to search in games that nobody counts."""
    key, told = jax.random.key(4), []
    found = evaluate(Choosing(told.append), LENGTHS, episodes=20, key=key)
    lengths = first_lengths(key, 20)
    np.testing.assert_array_equal(found.values["return"], lengths)
    jax.effects_barrier()
    assert sum(int(number) == 2 for number in told) == lengths.sum()
    assert sum(int(number) == 1 for number in told) == (50 - lengths).sum()


@pytest.mark.parametrize(
    ("environment", "limit"),
    [(LENGTHS, {"max_steps": 10}), (hm.Batched(Lengths(), max_steps=10), {})],
    ids=["of the evaluation", "of the environment"],
)
def test_an_episode_that_a_step_limit_ends_is_counted_as_unfinished(environment, limit):
    key = jax.random.key(6)
    found = evaluate(Always(1), environment, episodes=40, key=key, record=True, **limit)
    assert found.unfinished == np.sum(first_lengths(key, 40) == 50)
    assert found.values["length"].max() == 10
    assert {len(actions) for actions in found.actions} == {1, 10}


def test_a_network_plays_and_the_same_key_gives_the_same_games():
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=8, key=jax.random.key(0))

    def play(**how):
        return evaluate(policy, environment, episodes=6, key=jax.random.key(1), **how)

    np.testing.assert_array_equal(play().values["return"], play().values["return"])
    assert not np.array_equal(play().values["return"], play(greedy=True).values["return"])


class Shy(Agent):
    """Takes action 1 in long episodes, and remembers how often it acted."""

    def initial_carry(self):
        return jnp.int32(0)

    def act(self, observation, mask, carry, *, key):
        return (observation[0] > 1).astype(jnp.int32) * (carry % 2), carry + 1


@pytest.mark.parametrize("most", [1, 7])
def test_the_results_do_not_depend_on_the_steps_at_once(most, monkeypatch):
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=8, key=jax.random.key(0))
    players = {"network": policy, "random": RandomAgent()}

    def play():
        return evaluate_all(
            players, environment, episodes=10, key=jax.random.key(1), num_envs=4, record=True
        )

    usual = play()
    monkeypatch.setattr(module, "_paced", lambda steps, seconds: most)
    for name, found in play().items():
        for number, values in found.values.items():
            np.testing.assert_array_equal(values, usual[name].values[number])
        for one, other in zip(found.actions, usual[name].actions, strict=True):
            np.testing.assert_array_equal(one, other)


def test_it_tells_how_far_it_is_and_begins_with_nothing_played():
    told = []
    evaluate_all(
        {"none": Always(0), "all": Always(1)},
        LENGTHS,
        episodes=20,
        key=jax.random.key(4),
        num_envs=8,
        on_progress=lambda finished, episodes: told.append((finished, episodes)),
    )
    assert told[0] == (0, 40)
    assert told[-1] == (40, 40)
    assert [episodes for _, episodes in told] == [40] * len(told)
    finished = [number for number, _ in told]
    assert finished == sorted(finished)
    assert len(set(finished)) > 3


def test_an_exception_in_the_callback_ends_it():
    def stop(finished, episodes):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(Always(1), LENGTHS, episodes=2, key=jax.random.key(0), on_progress=stop)


@pytest.mark.parametrize("num_envs", [3, 32])
def test_the_actions_are_kept_on_request(num_envs):
    key = jax.random.key(4)
    plain = evaluate(Shy(), LENGTHS, episodes=20, key=key, num_envs=num_envs)
    found = evaluate(Shy(), LENGTHS, episodes=20, key=key, num_envs=num_envs, record=True)
    assert plain.actions is None
    assert found.as_dict() == plain.as_dict()
    lengths = first_lengths(key, 20)
    assert len(found.actions) == 20
    for game, actions in enumerate(found.actions):
        wanted = np.arange(lengths[game]) % 2 if lengths[game] > 1 else [0]
        np.testing.assert_array_equal(actions, wanted)
        assert actions.sum() == found.values["return"][game]


def test_a_network_as_an_agent_plays_as_the_network_does():
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=8, key=jax.random.key(0))
    agent = PolicyAgent(policy, value_scale=RunningScale())
    for greedy in (False, True):
        one, other = (
            evaluate(each, environment, episodes=6, key=jax.random.key(1), greedy=greedy)
            for each in (policy, agent)
        )
        np.testing.assert_array_equal(one.values["return"], other.values["return"])
    with pytest.raises(ValueError, match="MLPActorCritic"):
        evaluate(agent, LENGTHS, episodes=1, key=jax.random.key(1))


def test_a_mean_has_the_interval_of_the_normal_approximation_and_one_value_none():
    estimate = mean_of([1.0, 2.0, 3.0, 4.0])
    half = 1.959964 * np.std([1, 2, 3, 4], ddof=1) / 2
    assert estimate.mean == 2.5
    np.testing.assert_allclose([estimate.low, estimate.high], [2.5 - half, 2.5 + half])
    assert json.dumps(mean_of([3.0]).as_dict()) == '{"mean": 3.0, "ci95": [null, null]}'


def test_a_rate_that_never_happened_may_still_happen():
    estimate = rate_of(np.zeros(100))
    assert (estimate.mean, estimate.low) == (0.0, 0.0)
    # Wilson: z^2 / (n + z^2)
    np.testing.assert_allclose(estimate.high, 3.841459 / 103.841459, rtol=1e-6)
    always = rate_of(np.ones(100))
    np.testing.assert_allclose(always.low, 1 - estimate.high)
    assert always.high == 1.0


def test_a_share_has_the_interval_of_as_many_independent_events_as_it_is_worth():
    # Shares that are 0 or 1 are events; the variance of a sample counts n - 1 of them.
    events = np.repeat([0.0, 1.0], [3, 97])
    assert share_of(events).mean == rate_of(events).mean
    np.testing.assert_allclose(share_of(events).low, rate_of(events).low, atol=5e-4)
    # By hand: p = 0.75, a variance of 1 / 48 of the mean of two: 9 events.
    z2, two = 3.841459, share_of([0.75 + 1 / 48**0.5, 0.75 - 1 / 48**0.5])
    centre = (0.75 + z2 / 18) / (1 + z2 / 9)
    half = np.sqrt(z2) / (1 + z2 / 9) * np.sqrt(0.1875 / 9 + z2 / 324)
    np.testing.assert_allclose([two.low, two.high], [centre - half, centre + half], rtol=1e-6)
    # Within 0 and 1, where the normal approximation is not.
    nearly = np.repeat([0.2, 1.0], [1, 99])
    assert mean_of(nearly).high > 1
    assert share_of(nearly).low < share_of(nearly).mean < share_of(nearly).high <= 1
    assert share_of(np.ones(100)) == rate_of(np.ones(100))
    assert share_of([1.0]) == rate_of([1.0])


def test_intervals_cover_the_truth_about_95_times_in_100():
    draws = np.random.default_rng(0).exponential(size=(2000, 200))
    covered = [(found := mean_of(row)).low <= 1.0 <= found.high for row in draws]
    assert 0.92 < np.mean(covered) < 0.97


@pytest.mark.parametrize(
    ("built_for", "played_in"), [("tactical", "compact"), ("compact", "classic")]
)
def test_a_network_for_another_observation_is_refused_by_its_name(built_for, played_in):
    spec = HackMatrix(observation=built_for).spec
    network = MLPActorCritic(spec, width=4, depth=1, key=jax.random.key(0))
    said = (
        f"built for observation='{built_for}', and this environment has observation='{played_in}'"
    )
    with pytest.raises(ValueError, match=said):
        evaluate(network, HackMatrix(observation=played_in), episodes=1, key=jax.random.key(0))


def test_a_network_of_nan_is_refused_by_its_layer():
    network = MLPActorCritic(CartPole().spec, width=4, depth=1, key=jax.random.key(0))
    broken = jax.tree.map(
        lambda leaf: leaf * jnp.nan if eqx.is_inexact_array(leaf) else leaf, network
    )
    for player in (broken, PolicyAgent(broken)):
        with pytest.raises(ValueError, match=r"\.weight holds NaN, so its actions are undefined"):
            evaluate(player, CartPole(), episodes=1, key=jax.random.key(0))
