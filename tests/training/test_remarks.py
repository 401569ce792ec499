"""What a trainer warns of before it compiles anything."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import hackmatrix_rl as hm
from hackmatrix_rl.agent import Cosine, Piecewise
from hackmatrix_rl.env.memory_tasks import TMazeConfig
from hackmatrix_rl.training import Linear

MAZE = hm.Batched(hm.TMaze(TMazeConfig(corridor=10)))
SIZES = {"num_envs": 8, "num_minibatches": 2}


class OwnLSTM(hm.ActorCritic):
    """A network whose carry stays in float32 in its cell."""

    encode: object = eqx.field(static=True)
    cell: eqx.nn.LSTMCell
    heads: eqx.nn.Linear
    casts: bool = eqx.field(static=True)

    def __init__(self, spec, *, casts):
        self.encode, self.casts = spec.encode, casts
        cell_key, heads_key = jax.random.split(jax.random.key(0))
        self.cell = eqx.nn.LSTMCell(spec.num_features, 4, key=cell_key)
        self.heads = eqx.nn.Linear(4, spec.num_actions + 1, key=heads_key)

    def initial_carry(self):
        return jnp.zeros(4), jnp.zeros(4)

    def __call__(self, observation, carry):
        features = self.encode(observation).ravel()
        own = tuple(each.astype(features.dtype) for each in carry) if self.casts else carry
        hidden, cell = self.cell(features, own)
        *logits, value = self.heads(hidden.astype(features.dtype))
        after = hidden.astype(jnp.float32), cell.astype(jnp.float32)
        return jnp.stack(logits), value, after


def warned(algorithm):
    """The warnings of a trainer."""
    told = []
    hm.Trainer(algorithm, report=told.append)
    return told


@pytest.mark.parametrize("precision", ["bf16", "f32"])
@pytest.mark.parametrize("casts", [False, True])
def test_layers_that_a_precision_does_not_reach_are_named(precision, casts):
    policy = OwnLSTM(hm.CartPole().spec, casts=casts)
    with jax.numpy_dtype_promotion("standard"):
        told = warned(hm.PPO(hm.CartPole(), policy, precision=precision, **SIZES))
    assert [line.partition(":")[0] for line in told] == (
        [] if casts or precision == "f32" else ["precision does not reach .cell.weight_hh"]
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda policy: hm.R2D2(MAZE, policy), "sequence_length 10 is less than the 11 steps"),
        (lambda policy: hm.R2D2(MAZE, policy, sequence_length=11), None),
        (lambda policy: hm.PPO(MAZE, policy, num_steps=8, **SIZES), "num_steps 8 is less"),
        (lambda policy: hm.PQN(MAZE, policy, num_steps=8, **SIZES), "num_steps 8 is less"),
        (
            lambda policy: hm.Population(hm.PPO(MAZE, policy, num_steps=8, **SIZES), 2),
            "num_steps 8 is less",
        ),
    ],
)
def test_sequences_that_are_shorter_than_a_trial_are_named(make, said):
    told = warned(make(hm.GRUActorCritic(MAZE.spec, width=4, key=jax.random.key(0))))
    assert len(told) == (said is not None)
    assert not told or (said in told[0] and "=11 or more" in told[0])


def test_a_network_without_memory_learns_from_any_sequence():
    policy = hm.MLPActorCritic(MAZE.spec, width=4, key=jax.random.key(0))
    assert warned(hm.PPO(MAZE, policy, num_steps=8, **SIZES)) == []


def test_the_length_of_a_training_is_no_part_of_its_program():
    def program(steps):
        policy = hm.MLPActorCritic(hm.CartPole().spec, width=4, depth=1, key=jax.random.key(0))
        loss = hm.PPOLoss(ent_coef=Cosine(0.1, 0.0, over=steps))
        gae = hm.GAE(gamma=Piecewise((0.9, 0.99), (steps // 2,)))
        rate = Linear(1e-2, 0.0, over=steps)
        sizes = {**SIZES, "num_steps": 4}
        ppo = hm.PPO(hm.CartPole(), policy, loss=loss, gae=gae, learning_rate=rate, **sizes)
        return hm.Trainer(ppo)

    short, long = program(64), program(2**40)
    assert short.lower().as_text() == long.lower().as_text()
    for trainer, rate in ((short, 0.005), (long, 0.01)):
        trainer.start(jax.random.key(0))
        trainer.dispatch(1)
        assert trainer.dispatch(1).learning["learning_rate"] == pytest.approx(rate)
