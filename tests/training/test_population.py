"""Many trainings in one program: each is that of its key, whatever the others are."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from own_algorithm import Reinforce

import hackmatrix_rl as hm
from hackmatrix_rl.agent import PPOLoss, RolloutCollector
from hackmatrix_rl.algorithms.self_play import Search
from hackmatrix_rl.games.clique import CliqueConfig
from hackmatrix_rl.training import Constant, EvaluateEvery, adam, updates_until

from .states import assert_same, assert_same_but_for_rounding

SIZE = 4
KEYS = jax.vmap(jax.random.key)(jnp.arange(SIZE))
CARTPOLE = hm.CartPole(max_steps=12)
SIZES = {"num_envs": 8, "num_steps": 8, "num_minibatches": 2, "update_epochs": 2}
# The sums of a batched product are added up in another order than those of a single one.
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}


def ppo(member=0, *, mesh=None, **changes):
    policy = hm.MLPActorCritic(CARTPOLE.spec, width=8, depth=1, key=jax.random.key(member))
    return hm.PPO(CARTPOLE, policy, mesh=mesh, **{**SIZES, **changes})


def pqn(member=0, *, mesh=None):
    policy = hm.ResidualActorCritic(CARTPOLE.spec, width=8, depth=1, key=jax.random.key(member))
    return hm.PQN(CARTPOLE, policy, mesh=mesh, **SIZES)


def reinforce(member=0, *, mesh=None):
    policy = hm.MLPActorCritic(CARTPOLE.spec, width=8, depth=1, key=jax.random.key(member))
    return Reinforce(CARTPOLE, policy, RolloutCollector(8), 8)


def self_play(member=0, *, mesh=None):
    game = hm.CliqueGame(CliqueConfig(3, 3))
    key = jax.random.key(member)
    policy = hm.MLPActorCritic(hm.Batched(game).spec, width=8, depth=1, key=key)
    sizes = {"game_batch_size": 4, "training_batch_size": 4, "moves_per_update": 3}
    return hm.SelfPlay(game, policy, search=Search(2), train_steps=1, **sizes, mesh=mesh)


def population(make=ppo, **given):
    return hm.Trainer(hm.Population([make(member, **given) for member in range(SIZE)]))


def trained(trainer, key, updates=2):
    trainer.start(key)
    trainer.dispatch(updates)
    return trainer


@pytest.fixture(scope="module")
def four():
    return trained(population(), KEYS)


@pytest.mark.parametrize(
    ("make", "mesh"),
    [
        (ppo, None),
        (ppo, "population=2"),
        (reinforce, None),
        pytest.param(ppo, "population=2,data=2", marks=pytest.mark.nightly),
        pytest.param(pqn, None, marks=pytest.mark.nightly),
        pytest.param(pqn, "population=4", marks=pytest.mark.nightly),
        pytest.param(self_play, None, marks=pytest.mark.nightly),
    ],
)
def test_a_member_is_the_training_of_its_key(make, mesh):
    together = trained(population(make, mesh=mesh), KEYS)
    member = SIZE - 1
    alone = trained(hm.Trainer(make(member)), KEYS[member])
    own = together.algorithm.member(together.state, member)
    assert jax.tree.structure(own) == jax.tree.structure(alone.state)
    assert_same_but_for_rounding(own, alone.state, **ROUNDING)
    if mesh is not None:
        weight = jax.tree.leaves(eqx.filter(together.state.learner.policy, eqx.is_array))[0]
        assert weight.sharding.shard_shape(weight.shape)[0] < SIZE


def test_a_member_has_the_same_bits_whatever_the_others_are(four):
    others = [1, 7, 8, 9]
    keys = jnp.stack([KEYS[1], *jax.random.split(jax.random.key(5), 3)])
    made = trained(hm.Trainer(hm.Population([ppo(each) for each in others])), keys)
    assert_same(made.algorithm.member(made.state, 0), four.algorithm.member(four.state, 1))


def test_the_member_that_is_named_plays(four, monkeypatch):
    monkeypatch.setattr(four, "member", 2)
    assert_same(four.policy, four.algorithm.policy(four.state, 2))
    assert_same(four.agent.value_scale, four.algorithm.value_scale_of(four.state, 2))


def test_one_key_gives_each_member_its_own():
    same = hm.Trainer(hm.Population(ppo(), SIZE))
    same.start(KEYS[0])
    folded = jax.vmap(jax.random.fold_in, (None, 0))(KEYS[0], jnp.arange(SIZE))
    made = same.algorithm.init(folded, same.algorithm.initial_policy)
    assert_same(same.state.collector_state.keys, made.collector_state.keys)
    assert len({*map(bytes, np.asarray(jax.random.key_data(made.key)))}) == SIZE


def test_it_goes_on_from_a_file_bit_by_bit_and_on_another_mesh(four, tmp_path):
    first, again, cut = population(), population(), population(mesh="population=2")
    trained(first, KEYS, 1)
    first.save(tmp_path / "file")
    for trainer in (again, cut):
        trainer.load(tmp_path / "file")
        trainer.dispatch(1)
    assert_same(again.state, four.state)
    assert_same_but_for_rounding(cut.state, four.state, **ROUNDING)


def test_numbers_may_differ_and_other_numbers_need_no_other_program():
    def with_rates(*rates):
        coefficients = [PPOLoss(ent_coef=10 * rate, clip_coef=100 * rate) for rate in rates]
        return hm.Trainer(
            hm.Population(
                [
                    ppo(learning_rate=rate, loss=loss, gae=hm.GAE(gamma=1 - rate))
                    for rate, loss in zip(rates, coefficients, strict=True)
                ]
            )
        )

    rates = (1e-3, 3e-3)
    made = trained(with_rates(*rates), KEYS[:2])
    loss = PPOLoss(ent_coef=10 * rates[1], clip_coef=100 * rates[1])
    alone = hm.Trainer(ppo(learning_rate=rates[1], loss=loss, gae=hm.GAE(gamma=1 - rates[1])))
    trained(alone, KEYS[1])
    assert_same_but_for_rounding(made.algorithm.member(made.state, 1), alone.state, **ROUNDING)
    assert with_rates(1e-4, 2e-4).lower().as_text() == made.lower().as_text()


def test_metrics_are_of_all_members_and_of_each(four):
    metrics = four.dispatch(2)
    found = metrics.as_dict()
    returns = [found[f"member/{member}/return"] for member in range(SIZE)]
    assert len({*returns}) > 1
    assert math.isclose(found["return"], np.mean(returns))
    assert math.isclose(found["return_iqm"], np.mean(sorted(returns)[1:3]))
    assert found["return_iqm_low"] <= found["return_iqm"] <= found["return_iqm_high"]
    assert found["gradient_steps"] == SIZE * found["member/0/gradient_steps"]
    assert found["env_steps"] == 4 * 64  # of each member


def test_hooks_play_the_first_member():
    trainer = hm.Trainer(hm.Population(ppo(), SIZE), hooks=[EvaluateEvery(1, episodes=2)])
    metrics = trainer.fit(64, key=jax.random.key(0))
    assert metrics is not None
    assert "eval/return" in metrics.extra
    assert trainer.policy.layers[0].weight.ndim == 2
    second = trainer.algorithm.policy(trainer.state, 1)
    assert not np.array_equal(second.layers[0].weight, trainer.policy.layers[0].weight)


def test_progress_that_differs_between_members_is_the_least():
    population = hm.Population(self_play(), 2)
    state = population.init(KEYS[0], population.initial_policy)
    counted = eqx.tree_at(lambda state: state.games.low, state, jnp.uint32([7, 5]))
    assert population.progress(counted) == 5
    assert updates_until(population, counted, 5) == 0


def test_a_trainer_makes_a_population_of_one_algorithm():
    trainer = hm.Trainer(ppo(), population=3)
    assert isinstance(trainer.algorithm, hm.Population)
    assert trainer.algorithm.size == 3
    with pytest.raises(ValueError, match="population"):
        hm.Trainer(ppo(), population=0)


def test_before_the_start_it_has_the_policy_of_the_first_member():
    assert_same(population().policy, ppo().initial_policy)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hm.Population([]), "expected an algorithm for each member"),
        (lambda: hm.Population([ppo()], 2), "size is 2, but there are 1 members"),
        (lambda: hm.Population(ppo(), 0), "size"),
        (lambda: hm.Population([ppo(), pqn()]), "member 1 differs from member 0"),
        (lambda: hm.Population([ppo(), ppo(num_steps=16)]), r"collect\.num_steps \(16 and 8\)"),
        (
            lambda: hm.Population([ppo(learning_rate=Constant(1.0)), ppo(target_kl=0.1)]),
            "target_kl, which one program cannot vary. Numbers that may differ here: .*clip_coef",
        ),
        (
            lambda: hm.Population([ppo(optimizer=optax.adam(rate)) for rate in (1e-3, 1e-4)]),
            r"optimization\.optimizer",
        ),
        (lambda: hm.Population(hm.Population(ppo(), 2), 2), "expected the algorithm of one"),
        (lambda: hm.Population(ppo(mesh="population=2"), 3), "use 4 members, or population=1"),
        (lambda: hm.Trainer(ppo(mesh="population=2")), r"use hm\.Population"),
        (lambda: population().start(KEYS[:2]), "or one for each of the 4 members"),
        (lambda: _fifth(population()), "expected 0 to 3"),
        (
            lambda: hm.Population([ppo(), eqx.tree_at(_policy, ppo(), _wide())]),
            "other layers than that of member 0",
        ),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_compiled(make, said):
    with pytest.raises((ValueError, TypeError), match=said):
        make()


def _fifth(trainer):
    return trainer.algorithm.policy(trainer.abstract_state(), 4)


def _policy(algorithm):
    return algorithm.initial_policy


def _wide():
    return hm.MLPActorCritic(CARTPOLE.spec, width=16, depth=1, key=jax.random.key(0))


def test_the_default_optimizer_is_the_same_in_every_algorithm():
    assert adam(0.5) is adam()
