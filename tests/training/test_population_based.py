"""Population-based training: the worst members go on from the best ones, with other settings."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_algorithm import Reinforce

import hackmatrix_rl as hm
from hackmatrix_rl.agent import EpisodeSums, RolloutCollector
from hackmatrix_rl.training import Constant, StepReport, UpdateReport

from .states import arrays, assert_same

CARTPOLE = hm.CartPole(max_steps=20)
SIZES = {"num_envs": 4, "num_steps": 16, "num_minibatches": 1, "update_epochs": 1}
RATES = (1e-4, 1e-3, 1e-2, 1e-1)
KEY = jax.random.key(0)


def ppo(rate=1e-3, *, mesh=None, **changes):
    policy = hm.MLPActorCritic(CARTPOLE.spec, width=4, depth=1, key=KEY)
    return hm.PPO(CARTPOLE, policy, mesh=mesh, learning_rate=rate, **SIZES, **changes)


def based(rates=RATES, *, interval=2, mesh=None, **given):
    members = [ppo(rate, mesh=mesh) for rate in rates]
    return hm.PopulationBasedTraining(members, interval=interval, **given)


@pytest.fixture(scope="module")
def eight():
    """Eight members, of which two are replaced."""
    return based([1e-3 * 2**number for number in range(8)])


def parents(population, fitness, *, ranked=None, key=KEY):
    ranked = [True] * len(fitness) if ranked is None else ranked
    found = population.parents(jnp.array(fitness, jnp.float32), jnp.array(ranked), key)
    return found.tolist()


def test_the_worst_go_on_from_the_best(eight):
    fitness = [5.0, 1.0, 8.0, 3.0, 7.0, 2.0, 6.0, 4.0]  # worst: 1 and 5; best: 2 and 4
    drawn = set()
    for number in range(20):
        found = parents(eight, fitness, key=jax.random.key(number))
        assert [found[k] for k in (0, 2, 3, 4, 6, 7)] == [0, 2, 3, 4, 6, 7]
        drawn |= {(found[1], found[5])}
    assert drawn == {(2, 2), (2, 4), (4, 2), (4, 4)}


def test_members_without_an_episode_are_neither_copied_nor_replaced(eight):
    fitness = [5.0, 0.0, 0.0, 3.0, 7.0, 2.0, 0.0, 0.0]
    ranked = [True, False, False, True, True, True, False, False]
    assert parents(eight, fitness, ranked=ranked) == [0, 1, 2, 3, 4, 4, 6, 7]
    few = [True, False, True] + [False] * 5
    assert parents(eight, fitness, ranked=few) == list(range(8))
    assert parents(eight, fitness, ranked=[False] * 8) == list(range(8))


def test_a_member_whose_metric_is_not_finite_is_replaced_and_not_copied(eight):
    nan, inf = float("nan"), float("inf")
    for number in range(5):
        key = jax.random.key(number)
        assert parents(eight, [1, 2, nan, 4, 3, 5, inf, 6], key=key)[2] in (5, 7)
        assert parents(eight, [nan] * 7 + [1.0], key=key)[5:] == [7, 7, 7]
    assert parents(eight, [nan] * 8) == list(range(8))


def explored(population, settings, parent, key=KEY):
    settings = {name: jnp.array(values, jnp.float32) for name, values in settings.items()}
    found = population.explored(settings, jnp.array(parent), key)
    return {name: np.asarray(values) for name, values in found.items()}


def test_a_copied_setting_is_multiplied_or_divided_and_clipped():
    population = based(perturb=2.0, bounds={"learning_rate": (1e-4, 0.15)})
    seen = set()
    for number in range(20):
        key = jax.random.key(number)
        found = explored(population, {"learning_rate": RATES}, [3, 1, 0, 3], key)["learning_rate"]
        np.testing.assert_allclose(found[[1, 3]], [1e-3, 1e-1])  # were not replaced
        seen |= {(f"{found[0]:.4g}", f"{found[2]:.4g}")}
    # 0.1 becomes 0.05, or 0.2 and so 0.15; 1e-4 becomes 2e-4, or 5e-5 and so 1e-4.
    assert seen == {(a, b) for a in ("0.05", "0.15") for b in ("0.0001", "0.0002")}


def test_a_share_is_changed_by_its_distance_to_the_nearer_end():
    members = [ppo(gae=hm.GAE(gamma=gamma)) for gamma in (0.1, 0.9, 0.99, 1.0)]
    population = hm.PopulationBasedTraining(members, interval=1)
    seen = set()
    for number in range(20):
        key = jax.random.key(number)
        found = explored(population, {"gamma": [0.1, 0.9, 0.99, 1.0]}, [2, 0, 3, 3], key)["gamma"]
        seen |= {tuple(f"{each:.5g}" for each in found[:3])}
    assert seen == {(a, b, "1") for a in ("0.9875", "0.992") for b in ("0.08", "0.125")}


def test_a_copied_setting_may_be_one_of_those_at_the_start():
    population = based(resample=1.0)
    found = explored(population, {"learning_rate": [0.5] * 4}, [1, 2, 3, 0])["learning_rate"]
    assert {f"{each:.4g}" for each in found} <= {f"{each:.4g}" for each in RATES}


def pair(mesh=None):
    """Two members, of which one goes on from the other, first after 4 updates and then every 2."""
    population = based((1e-3, 1e-2), fraction=0.5, interval=2, burn_in=3, mesh=mesh)
    return hm.Trainer(population, updates_per_dispatch=8)


@pytest.fixture(scope="module")
def trainer():
    return pair()


def of_members(row, name):
    return [row[f"member/{member}/{name}"] for member in range(2)]


def test_an_exploit_copies_what_was_learned_and_neither_games_nor_keys(trainer):
    trainer.start(KEY)
    trainer.dispatch(2)
    first = trainer.dispatch(1).as_dict()
    before = jax.tree.map(jnp.copy, eqx.filter(trainer.state, eqx.is_array))
    second = trainer.dispatch(1).as_dict()
    after, fitness = trainer.state, of_members(second, "fitness")
    # The mean over the episodes of both updates since the last one that could end with an exploit:
    for member in range(2):
        low, high = sorted(each[f"member/{member}/return"] for each in (first, second))
        assert low < fitness[member] < high
    assert not after.tournament.total.any()
    best = int(np.argmax(fitness))
    assert fitness[0] != fitness[1]
    assert of_members(second, "parent") == [best, best]
    for each in arrays(after.learner):
        np.testing.assert_array_equal(each[0], each[1])
    assert not all(np.array_equal(each[0], each[1]) for each in arrays(before.learner.policy))
    for keys in (after.key, after.collector_state.keys):
        assert not np.array_equal(*jax.random.key_data(keys))
    assert not all(
        np.array_equal(each[0], each[1]) for each in arrays(after.collector_state.observation)
    )
    rates, start = np.asarray(after.tournament.settings["learning_rate"]), (1e-3, 1e-2)
    np.testing.assert_allclose(rates[best], start[best])
    ratio = float(rates[1 - best] / start[best])
    assert min(abs(ratio - 1.25), abs(ratio - 0.8)) < 1e-5
    # The row has the settings that were used; the next row those that the members go on with.
    np.testing.assert_allclose(of_members(second, "setting/learning_rate"), start, rtol=1e-6)
    third = trainer.dispatch(1).as_dict()
    np.testing.assert_allclose(of_members(third, "setting/learning_rate"), rates, rtol=1e-6)
    np.testing.assert_allclose(of_members(third, "learning_rate"), rates, rtol=1e-6)


def test_a_dispatch_ends_where_an_exploit_may_be(trainer):
    rows = list(trainer.train(64 * 7, key=KEY))
    assert [each.updates for each in rows] == [2, 4, 6, 7]
    assert ["member/1/parent" in each.extra for each in rows] == [False, True, True, False]
    trainer.start(KEY)
    whole = trainer.dispatch(6).extra  # two exploits: who went on from whom is not one number
    assert "member/1/parent" not in whole
    assert "member/1/setting/learning_rate" in whole


def test_it_goes_on_from_a_file_bit_by_bit(trainer, tmp_path):
    trainer.start(KEY)
    trainer.dispatch(3)
    trainer.save(tmp_path / "file")
    trainer.dispatch(3)
    whole = jax.tree.map(jnp.copy, eqx.filter(trainer.state, eqx.is_array))
    trainer.start(jax.random.key(7))
    trainer.load(tmp_path / "file")
    trainer.dispatch(3)
    assert_same(trainer.state, whole)


@pytest.mark.parametrize(
    "mesh", ["population=2", pytest.param("population=2,data=2", marks=pytest.mark.nightly)]
)
def test_on_a_mesh_it_decides_the_same(trainer, mesh):
    found = []
    for each in (trainer, pair(mesh)):
        rows = [metrics.extra for metrics in each.train(64 * 4, key=KEY)]
        found.append((of_members(rows[-1], "parent"), arrays(each.state.tournament)))
    assert found[0][0] == found[1][0] != [0, 1]
    for one, other in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)
    learner = each.state.learner.policy
    weight = jax.tree.leaves(eqx.filter(learner, eqx.is_array))[0]
    assert weight.sharding.shard_shape(weight.shape)[0] == 1
    for values in arrays(learner):
        np.testing.assert_array_equal(values[0], values[1])


@pytest.mark.nightly
def test_four_members_on_four_devices_decide_the_same():
    found = []
    for mesh in (None, "population=4"):
        trainer = hm.Trainer(based(interval=1, mesh=mesh))
        rows = [metrics.extra for metrics in trainer.train(64 * 3, key=KEY)]
        found.append([[row[f"member/{k}/parent"] for k in range(4)] for row in rows])
    assert found[0] == found[1]
    assert any(row != [0, 1, 2, 3] for row in found[0])


def reinforce(rate, kind=Reinforce):
    policy = hm.MLPActorCritic(CARTPOLE.spec, width=4, depth=1, key=KEY)
    return kind(CARTPOLE, policy, RolloutCollector(8), 4, learning_rate=Constant(rate))


def test_an_algorithm_of_ones_own_can_be_trained_so():
    members = [reinforce(rate) for rate in RATES]
    made = hm.Trainer(hm.PopulationBasedTraining(members, interval=1, metric="entropy"))
    rows = list(made.train(32, key=KEY))
    assert "member/3/fitness" in rows[0].extra
    alone = made.algorithm.member(made.state, 2)
    assert jax.tree.structure(alone) == jax.tree.structure(
        hm.Trainer(reinforce(RATES[2])).abstract_state()
    )


class Guess(Reinforce):
    """An algorithm that scores the better, the nearer its learning rate is to 0.03."""

    def __call__(self, state):
        zero, none = jnp.zeros(()), jnp.zeros((), jnp.int32)
        score = -jnp.abs(jnp.log(self.learning_rate(zero) / 0.03))
        report = UpdateReport(
            EpisodeSums(zero, zero, zero, {}, {}),
            StepReport({}, zero, none, none, none),
            means={"score": score},
        )
        return eqx.tree_at(lambda state: state.update, state, state.update + 1), report


@pytest.fixture(scope="module")
def guesses():
    rates = np.geomspace(1e-4, 1e-3, 8)
    members = [reinforce(float(rate), Guess) for rate in rates]
    population = hm.PopulationBasedTraining(members, interval=1, metric="score")
    return hm.Trainer(population)


def test_it_finds_a_setting_that_no_member_began_with(guesses):
    guesses.start(KEY)
    guesses.dispatch(60)
    after = np.asarray(guesses.state.tournament.settings["learning_rate"])
    assert all(0.03 / 2 < rate < 0.03 * 2 for rate in after)
    assert any(0.03 / 1.13 < rate < 0.03 * 1.13 for rate in after)


def test_every_exploit_has_draws_of_its_own(guesses):
    guesses.start(KEY)
    factors = {member: set() for member in range(8)}
    rows = [guesses.dispatch(1).extra for _ in range(30)]
    name = "member/{}/setting/learning_rate".format
    for row, after in itertools.pairwise(rows):
        for member in range(8):
            if (parent := row[f"member/{member}/parent"]) != member:
                factors[member].add(round(after[name(member)] / row[name(parent)], 3))
    assert set().union(*factors.values()) == {0.8, 1.25}
    # With the same draws in every exploit, a member would always go the same way.
    assert sum(len(each) == 2 for each in factors.values()) >= 3
    first = arrays(guesses.state.tournament.settings)
    guesses.start(jax.random.key(1))
    guesses.dispatch(30)
    assert not np.array_equal(first, arrays(guesses.state.tournament.settings))


class Silent(Reinforce):
    """An algorithm with a report of its own."""

    def __call__(self, state):
        return super().__call__(state)[0], jnp.zeros(())


def _silent():
    return [reinforce(rate, Silent) for rate in RATES]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: based(interval=0), "interval must be at least 1"),
        (lambda: based(burn_in=-1), "burn_in must be at least 0"),
        (lambda: based(fraction=0.6), "fraction 0.6: expected more than 0 and at most 0.5"),
        (lambda: based(RATES[:3]), "use 4 members or more, or fraction=0.3333"),
        (lambda: based(perturb=1.0), "perturb 1.0: expected a factor above 1"),
        (lambda: based(resample=1.5), "resample 1.5: expected a probability"),
        (lambda: based((1e-3,) * 4), "there is nothing to explore"),
        (lambda: based(bounds={"gamma": (0, 1)}), "gamma does not differ .* use learning_rate"),
        (lambda: based(bounds={"learning_rate": (0, 0.01)}), "not all in 0 to 0.01"),
        (lambda: hm.Trainer(based(metric="score")), "metric score: no such metric; use one of .*"),
        (
            lambda: hm.Trainer(hm.PopulationBasedTraining(_silent(), interval=1)),
            "Silent returns no UpdateReport",
        ),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_compiled(make, said):
    with pytest.raises((ValueError, TypeError), match=said):
        make()
