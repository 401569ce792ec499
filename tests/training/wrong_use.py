"""What users get wrong in Python. Run as a script, it prints what each of it ends in.

A script, for a user's session has no run-time type checks as the tests have: what is caught
here, the package catches by itself.
"""

import dataclasses
import json
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import hackmatrix_rl as hm
from hackmatrix_rl.agent import RolloutCollector
from hackmatrix_rl.env import CartPole, EnvSpec, EpisodeStatistics
from hackmatrix_rl.evaluation import Agent, RandomAgent
from hackmatrix_rl.training import Linear

KEY = jax.random.key(0)
SEEN = jax.ShapeDtypeStruct((2,), jnp.float32)


def as_it_is(tree: Any) -> Any:
    return tree


class Walk(hm.Environment):
    """A walk of some steps, of which one may change what it shows."""

    change: Callable[[hm.Timestep], Any] = eqx.field(static=True, default=as_it_is)
    declared: Any = eqx.field(static=True, default=EnvSpec(2, SEEN, terms=("pay",)))
    truncates: bool = eqx.field(static=True, default=True)
    limit: int = eqx.field(static=True, default=5)

    @property
    def spec(self):
        return self.declared

    def reset(self, keys):
        state = jnp.zeros(keys.shape[0], jnp.int32), jnp.zeros(keys.shape[0])
        return state, self.show(state, state, jnp.zeros(keys.shape[0]))

    def step(self, state, actions, keys):
        reward = actions.astype(jnp.float32)
        last = state[0] + 1, state[1] + reward
        done = last[0] >= self.limit
        now = jax.tree.map(lambda leaf: jnp.where(done, jnp.zeros_like(leaf), leaf), last)
        return now, self.show(now, last, reward)

    def show(self, now, last, reward):
        mask = jnp.ones((reward.shape[0], 2), bool)
        return self.change(
            hm.Timestep(
                observation=self.see(now),
                mask=mask,
                reward=reward,
                terminated=jnp.zeros(reward.shape, bool),
                truncated=last[0] >= self.limit,
                last_observation=self.see(last),
                last_mask=mask,
                terms={"pay": reward},
                episode=EpisodeStatistics(last[1], last[0], {}),
            )
        )

    def see(self, state):
        return jnp.stack([state[0] / self.limit, state[1]], axis=1).astype(jnp.float32)


def shows(**fields: Callable[[hm.Timestep], Any]) -> Walk:
    """A walk some of whose fields are others."""

    def change(timestep: hm.Timestep) -> hm.Timestep:
        return dataclasses.replace(timestep, **{k: f(timestep) for k, f in fields.items()})

    return Walk(change)


class Net(hm.ActorCritic):
    """A small network that may return something else."""

    layer: eqx.nn.Linear
    change: Callable[..., Any] = eqx.field(static=True, default=lambda *found: found)
    first: Any = eqx.field(static=True, default=())

    def initial_carry(self):
        return jax.tree.map(jnp.asarray, self.first)

    def __call__(self, observation, carry):
        hidden = self.layer(observation.astype(self.layer.weight.dtype))
        return self.change(hidden[:2].astype(jnp.float32), hidden[2].astype(jnp.float32), carry)


LINEAR = eqx.nn.Linear(2, 4, key=KEY)


def net(change: Callable[..., Any] | None = None, first: Any = ()) -> Net:
    return Net(LINEAR, change or (lambda *found: found), first)


class Wide(Net):
    """Computes in float32 whatever its parameters are."""

    def __call__(self, observation, carry):
        hidden = self.layer.weight.astype(jnp.float32) @ observation.astype(jnp.float32)
        return hidden[:2], hidden[2], carry


class Dropping(Net):
    """Drops out some of what it sees."""

    dropout: eqx.nn.Dropout = eqx.nn.Dropout(0.5)

    def __call__(self, observation, carry):
        return super().__call__(self.dropout(observation), carry)


class Single(hm.SingleGame):
    """One game, not many."""

    num_actions = 2

    def start(self, *, key):
        return jnp.int32(0)

    def observe(self, state):
        return jnp.zeros(2)

    def play(self, state, action, *, key):
        return hm.Played(state, jnp.float32(0), state > 5)


class NarrowMemory(Net):
    """Remembers in 16 bits."""

    def initial_carry(self):
        return jnp.zeros((), jnp.bfloat16)


class Gymnax:
    """What an environment of gymnax looks like."""

    num_actions = 2

    def reset(self, key, params=None):
        return jnp.zeros(2), jnp.int32(0)

    def step(self, key, state, action, params=None):
        return jnp.zeros(2), state, jnp.float32(0), jnp.bool_(False), {}


class OneArgument(eqx.Module):
    def __call__(self, batch):
        return jnp.mean(batch.advantage)


class Bare(eqx.Module):
    def __call__(self, policy, batch):
        return jnp.mean(batch.advantage)


class EachStep(eqx.Module):
    base: hm.PPOLoss = hm.PPOLoss()

    def __call__(self, policy, batch):
        return batch.advantage, self.base(policy, batch)[1]


class FloatPlayer(Agent):
    def initial_carry(self):
        return ()

    def act(self, observation, mask, carry, *, key):
        return jax.random.uniform(key), carry


def trainer(
    environment: Any = None, policy: Any = None, updates: Any = 1, **changes: Any
) -> hm.Trainer:
    settings = {"num_envs": 16, "num_steps": 4, "num_minibatches": 2, **changes}
    environment = Walk() if environment is None else environment
    ppo = hm.PPO(environment, net() if policy is None else policy, **settings)
    return hm.Trainer(ppo, updates_per_dispatch=updates)


def evaluate(player: Any, environment: Any = None, **changes: Any) -> Any:
    environment = Walk() if environment is None else environment
    return hm.evaluate(player, environment, **{"episodes": 2, "key": KEY, **changes})


def step_cartpole(actions: Any) -> Any:
    keys = jax.random.split(KEY, 3)
    state, _ = CartPole().reset(keys)
    return CartPole().step(state, actions, keys)


def play_hackmatrix(action=0, **sizes):
    begun = jax.eval_shape(lambda: hm.new_game(hm.GameConfig(), key=KEY))
    jax.eval_shape(lambda state: hm.play(hm.GameConfig(**sizes), state, action, key=KEY), begun)


def step_hackmatrix(actions: Any) -> Any:
    keys = jax.random.split(KEY, 3)
    game = hm.HackMatrix()
    shapes = jax.eval_shape(game.reset, keys)
    return jax.eval_shape(game.step, shapes[0], actions, keys)


def see_batch(environment: Any, network: Any) -> Any:
    """Hands a network the observations of several games at once."""
    made = network(environment.spec, width=4, key=KEY)
    keys = jax.random.split(KEY, 3)
    _, timestep = jax.eval_shape(environment.reset, keys)
    return eqx.filter_eval_shape(made, timestep.observation, made.initial_carry())


MLP = hm.MLPActorCritic(Walk().spec, width=4, key=KEY)

CASES: dict[str, Callable[[], Any]] = {
    # The network.
    "logits_size": lambda: trainer(policy=net(lambda logits, *rest: (logits[:1], *rest))),
    "value_shape": lambda: trainer(policy=net(lambda x, v, c: (x, v[None], c))),
    "value_is_integer": lambda: trainer(policy=net(lambda x, v, c: (x, v.astype(int), c))),
    "two_results": lambda: trainer(policy=net(lambda x, v, c: (x, v))),
    "carry_shape": lambda: trainer(policy=net(lambda x, v, c: (x, v, c[:1]), (0.0, 0.0))),
    "carry_dtype": lambda: trainer(policy=net(lambda x, v, c: (x, v, c.astype(int)), 0.0)),
    "carry_structure": lambda: trainer(policy=net(lambda x, v, c: (x, v, {"memory": v}))),
    "carry_narrow": lambda: trainer(policy=NarrowMemory(LINEAR)),
    "bf16_logits": lambda: trainer(policy=net(lambda x, v, c: (x.astype(jnp.bfloat16), v, c))),
    "bf16_unused": lambda: trainer(policy=Wide(LINEAR), precision=hm.precision("bf16")),
    "dropout": lambda: trainer(policy=Dropping(LINEAR)),
    "policy_class": lambda: trainer(policy=Net),
    "policy_function": lambda: trainer(policy=as_it_is),
    "policy_of_another": lambda: trainer(CartPole(), policy=net()),
    "actions_of_another": lambda: trainer(
        CartPole(),
        policy=hm.MLPActorCritic(EnvSpec(3, CartPole().spec.observation), width=4, key=KEY),
    ),
    "batch_to_mlp": lambda: see_batch(CartPole(), hm.MLPActorCritic),
    "batch_to_gru": lambda: see_batch(CartPole(), hm.GRUActorCritic),
    "batch_to_conv": lambda: see_batch(hm.HackMatrix(), hm.ConvActorCritic),
    "batch_to_classic": lambda: see_batch(hm.HackMatrix(observation="classic"), hm.ConvActorCritic),
    "vmap_over_one": lambda: jax.vmap(MLP, in_axes=(0, None))(jnp.zeros(2), ()),
    "policy_mask_none": lambda: hm.MaskedCategorical(jnp.zeros(2), None),
    "policy_mask_float": lambda: hm.MaskedCategorical(jnp.zeros(2), jnp.ones(2)),
    # The environment.
    "integer_reward": lambda: trainer(shows(reward=lambda t: t.reward.astype(jnp.int32))),
    "mask_none": lambda: trainer(shows(mask=lambda t: None)),
    "mask_float": lambda: trainer(shows(mask=lambda t: t.mask.astype(jnp.float32))),
    "unbatched_observation": lambda: trainer(shows(observation=lambda t: t.observation[0])),
    "observation_dtype": lambda: trainer(
        shows(observation=lambda t: t.observation.astype(jnp.int32))
    ),
    "spec_shape": lambda: trainer(Walk(declared=EnvSpec(2, (2,), terms=("pay",)))),
    "spec_is_none": lambda: trainer(Walk(declared=None)),
    "terms_unnamed": lambda: trainer(Walk(declared=EnvSpec(2, SEEN))),
    "no_timestep": lambda: trainer(Walk(lambda timestep: timestep.observation)),
    "environment_class": lambda: trainer(CartPole),
    "single_game": lambda: trainer(Single()),
    "single_game_class": lambda: trainer(Single),
    "limit_is_nan": lambda: hm.HackMatrix(max_steps=float("nan")),
    "limit_is_float": lambda: hm.Batched(Single(), max_steps=500.0),
    "gymnax": lambda: trainer(Gymnax()),
    "float_actions": lambda: step_cartpole(jnp.zeros(3)),
    "float_actions_in_game": lambda: step_hackmatrix(jnp.zeros(3)),
    "float_action_in_play": lambda: play_hackmatrix(action=1.5),
    "two_actions_in_play": lambda: play_hackmatrix(action=jnp.zeros(2, jnp.int32)),
    "another_history_in_play": lambda: play_hackmatrix(history=8),
    "another_size_in_play": lambda: play_hackmatrix(max_enemies=12),
    "one_action_for_all": lambda: step_cartpole(jnp.zeros((), jnp.int32)),
    "list_of_actions": lambda: step_cartpole([0, 1, 0]),
    # The trainer's other arguments.
    "optimizer_is_number": lambda: trainer(optimizer=1e-3),
    "optimizer_not_called": lambda: trainer(optimizer=optax.adam),
    "negative_rate": lambda: trainer(learning_rate=-1e-3),
    "negative_rate_at_the_end": lambda: trainer(learning_rate=Linear(1e-3, -1e-3, 100)),
    "rate_is_nan": lambda: trainer(learning_rate=float("nan")),
    "rate_is_text": lambda: trainer(learning_rate="1e-3"),
    "rate_of_optax": lambda: trainer(learning_rate=optax.constant_schedule(1e-3)),
    "precision_unknown": lambda: trainer(precision="bf17"),
    "precision_is_dtype": lambda: trainer(precision=jnp.bfloat16),
    "mesh_misspelt": lambda: trainer(mesh="dta=1"),
    "mesh_is_number": lambda: trainer(mesh=2),
    "num_envs_is_float": lambda: trainer(num_envs=16.0),
    "num_steps_0": lambda: trainer(num_steps=0),
    "minibatches_0": lambda: trainer(num_minibatches=0),
    "dispatch_0": lambda: trainer(updates=0),
    "target_kl_is_nan": lambda: trainer(target_kl=float("nan")),
    "gae_class": lambda: trainer(gae=hm.GAE),
    "gamma": lambda: hm.GAE(gamma=1.5),
    "clip_is_nan": lambda: hm.PPOLoss(clip_coef=float("nan")),
    "collector_class": lambda: trainer(collector=RolloutCollector),
    "value_scale_class": lambda: trainer(value_scale="none"),
    "loss_class": lambda: trainer(loss=hm.PPOLoss),
    "loss_signature": lambda: trainer(loss=OneArgument()),
    "loss_without_metrics": lambda: trainer(loss=Bare()),
    "loss_of_each_step": lambda: trainer(loss=EachStep()),
    "no_key": lambda: trainer().train(64),
    "key_is_number": lambda: trainer().train(64, key=3),
    "key_is_old": lambda: trainer().train(64, key=jax.random.PRNGKey(0)),
    "several_keys": lambda: trainer().train(64, key=jax.random.split(KEY, 2)),
    "total_is_negative": lambda: trainer().train(-1, key=KEY),
    "total_is_text": lambda: trainer().train("64", key=KEY),
    "of_a_number": lambda: hm.Trainer(3),
    "of_a_class": lambda: hm.Trainer(hm.PPO),
    "imitation_of_a_trainer": lambda: hm.Imitation(trainer(), RandomAgent()),
    "of_an_environment": lambda: hm.Trainer(Walk()),
    # Evaluation.
    "evaluate_class": lambda: evaluate(RandomAgent),
    "evaluate_network_class": lambda: evaluate(hm.MLPActorCritic),
    "evaluate_function": lambda: evaluate(as_it_is),
    "evaluate_in_class": lambda: evaluate(RandomAgent(), CartPole),
    "evaluate_gymnax": lambda: evaluate(RandomAgent(), Gymnax()),
    "evaluate_float_actions": lambda: evaluate(FloatPlayer()),
    "evaluate_integer_reward": lambda: evaluate(
        RandomAgent(), shows(reward=lambda t: t.reward.astype(jnp.int32))
    ),
    "evaluate_old_key": lambda: evaluate(RandomAgent(), key=jax.random.PRNGKey(0)),
    "evaluate_no_episodes": lambda: evaluate(RandomAgent(), episodes=0),
    "evaluate_value_shape": lambda: evaluate(net(lambda x, v, c: (x, v[None], c))),
    # What only playing shows.
    "truncates": lambda: hm.check_environment(Walk(truncates=False), steps=8),
    "spec_given_environment": lambda: hm.check_policy(net(), Walk()),
    # What is right.
    "right_without_dropout": lambda: trainer(policy=eqx.nn.inference_mode(Dropping(LINEAR))),
    "right_trainer": lambda: trainer(precision="bf16", mesh="data=1"),
    "right_game": lambda: hm.check_environment(hm.HackMatrix(max_steps=20), steps=22),
    "right_evaluation": lambda: evaluate(net(), episodes=2),
}


def outcome(case: Callable[[], Any]) -> tuple[str, str] | None:
    """The error that a case ends in: its type and what it says."""
    try:
        case()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


if __name__ == "__main__":
    names = sys.argv[1:] or CASES
    print(json.dumps({name: outcome(CASES[name]) for name in names}))
