"""What users get wrong in Python ends in one clear error, which names what to change."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from env.targets import Dials, Target

import hackmatrix_rl as hm
from hackmatrix_rl.agent import DiagonalGaussian, RolloutCollector
from hackmatrix_rl.agent.networks import TransformerActorCritic
from hackmatrix_rl.algorithms.imitation import CloneLoss
from hackmatrix_rl.algorithms.r2d2 import EpsilonGreedy, Prioritized, ValueRescaling
from hackmatrix_rl.env import CartPole, EnvSpec, EpisodeStatistics, Features
from hackmatrix_rl.evaluation import Agent, RandomAgent
from hackmatrix_rl.training import Algorithm, Linear, TrainState, adam

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        os.environ.get("HACKMATRIX_RL_CHECK_TYPES") == "1", reason="the check of types comes first"
    ),
]

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


class Four(hm.ActorCritic):
    """Four parameters, and the distribution of logits."""

    weight: jax.Array = eqx.field(default_factory=lambda: jnp.ones(4))

    def __call__(self, observation, carry):
        return jnp.sum(observation) * self.weight, self.weight[0], carry


class Undefined(Four):
    """Its actions are not numbers, though its outputs are."""

    def distribution(self, parameters, mask):
        return DiagonalGaussian(jnp.log(-jnp.abs(parameters) - 1.0), BOX.spec.actions)


class Five(Four):
    """As many logits as there are in all parts."""

    weight: jax.Array = eqx.field(default_factory=lambda: jnp.ones(5))


BOX, PARTS = hm.Batched(Target()), hm.Batched(Dials())


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


class Nothing(Single):
    """It does not say which actions there are."""

    num_actions = hm.SingleGame.num_actions


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


class Stores(eqx.Module):
    """A part of an algorithm of an earlier version."""

    def to_store(self, state):
        return state


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


def r2d2(**given: Any) -> hm.R2D2:
    game = hm.Batched(hm.DelayedMatch())
    policy = hm.GRUActorCritic(game.spec, width=4, key=KEY)
    sizes = {"num_envs": 8, "sequence_batch_size": 8, "buffer_size": 1024}
    return hm.R2D2(game, policy, **sizes, **given)


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
    "logits_infinite": lambda: trainer(policy=net(lambda x, v, c: (x.at[1].set(-jnp.inf), v, c))),
    "parameter_is_nan": lambda: trainer(policy=jax.tree.map(lambda leaf: leaf * jnp.nan, MLP)),
    "parameters_of_numpy": lambda: trainer(policy=jax.tree.map(np.asarray, net())),
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
    # The space of actions.
    "head_of_a_box": lambda: trainer(BOX, policy=net()),
    "logits_for_a_box": lambda: trainer(BOX, policy=Four()),
    "logits_for_parts": lambda: trainer(PARTS, policy=Five()),
    "actions_are_nan": lambda: trainer(BOX, policy=Undefined()),
    "box_is_infinite": lambda: hm.Box((0, 0), (1, np.inf)),
    "num_actions_of_spec": lambda: EnvSpec(num_actions=2, observation=SEEN),
    "r2d2_in_a_box": lambda: hm.R2D2(BOX, hm.GRUActorCritic(BOX.spec, width=4, key=KEY)),
    "pqn_in_parts": lambda: hm.PQN(PARTS, hm.MLPActorCritic(PARTS.spec, width=4, key=KEY)),
    "self_play_in_a_box": lambda: hm.SelfPlay(Target(), hm.MLPActorCritic(BOX.spec, key=KEY)),
    "search_in_a_box": lambda: hm.Searcher(hm.MLPActorCritic(BOX.spec, key=KEY), BOX),
    "embeds_a_box": lambda: TransformerActorCritic(
        dataclasses.replace(BOX.spec, encode=lambda seen: Features(seen, seen[None, None])), key=KEY
    ),
    "soft_labels_in_a_box": lambda: hm.Imitation(
        hm.PPO(BOX, hm.MLPActorCritic(BOX.spec, key=KEY), loss=CloneLoss()),
        RandomAgent(BOX.spec.actions),
        soft_labels=True,
    ),
    "game_without_actions": lambda: hm.check_environment(hm.Batched(Nothing())),
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
    "normalize_is_number": lambda: trainer(normalize_observations=1),
    "normalize_integers": lambda: hm.PPO(
        game := hm.HackMatrix(),
        hm.MLPActorCritic(game.spec, width=4, key=KEY),
        normalize_observations=True,
    ),
    "two_rates": lambda: trainer(optimizer=optax.adam(1e-3), learning_rate=1e-3),
    "negative_rate": lambda: trainer(learning_rate=-1e-3),
    "negative_rate_at_the_end": lambda: trainer(learning_rate=Linear(1e-3, -1e-3, 100)),
    "rate_is_nan": lambda: trainer(learning_rate=float("nan")),
    "rate_is_text": lambda: trainer(learning_rate="1e-3"),
    "rate_is_optimizer": lambda: trainer(learning_rate=optax.adam),
    "rate_is_class": lambda: trainer(learning_rate=Linear),
    "precision_unknown": lambda: trainer(precision="bf17"),
    "precision_is_dtype": lambda: trainer(precision=jnp.bfloat16),
    "mesh_misspelt": lambda: trainer(mesh="dta=1"),
    "mesh_is_number": lambda: trainer(mesh=2),
    "num_envs_is_float": lambda: trainer(num_envs=16.0),
    "num_steps_0": lambda: trainer(num_steps=0),
    "minibatches_0": lambda: trainer(num_minibatches=0),
    "dispatch_0": lambda: trainer(updates=0),
    "games_0": lambda: trainer(num_envs=0),
    "epochs_0": lambda: trainer(update_epochs=0),
    "games_do_not_divide": lambda: trainer(num_envs=6, num_minibatches=4),
    "parts_do_not_divide": lambda: trainer(grad_accum=3),
    "target_kl_is_nan": lambda: trainer(target_kl=float("nan")),
    "target_kl_0": lambda: trainer(target_kl=0.0),
    "gae_class": lambda: trainer(gae=hm.GAE),
    "gamma": lambda: hm.GAE(gamma=1.5),
    "lambda": lambda: hm.GAE(gae_lambda=-0.1),
    "clip_is_nan": lambda: hm.PPOLoss(clip_coef=float("nan")),
    "clip_0": lambda: hm.PPOLoss(clip_coef=0.0),
    "negative_value_clip": lambda: hm.PPOLoss(value_clip=-1.0),
    "negative_entropy": lambda: hm.PPOLoss(ent_coef=-1.0),
    "schedule_of_no_step": lambda: Linear(1.0, 0.0, 0),
    "norm_0": lambda: adam(0.0),
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
    "former_member": lambda: type("Mine", (Algorithm,), {"resettable": ("games",)}),
    "former_member_of_a_mixin": lambda: type("Mine", (Stores, Algorithm), {}),
    "former_field": lambda: type("Mine", (TrainState,), {"__annotations__": {"actors": Any}}),
    # Q-learning.
    "gamma_is_text": lambda: r2d2(gamma="0.9"),
    "gamma_is_none": lambda: r2d2(gamma=None),
    "dueling_is_text": lambda: r2d2(dueling="no"),
    "keep_buffer_is_text": lambda: r2d2(keep_buffer="no"),
    "epsilon_is_text": lambda: EpsilonGreedy(epsilon="a"),
    "spread_is_none": lambda: EpsilonGreedy(epsilon=0.4, spread=None),
    "largest_is_text": lambda: Prioritized(largest="a"),
    "scale_is_text": lambda: ValueRescaling(epsilon="a"),
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
    "right_numbers_of_numpy": lambda: r2d2(gamma=np.float32(0.9), dueling=np.True_),
    "right_evaluation": lambda: evaluate(net(), episodes=2),
}

# For each case the type of the error, what came, what was expected, and the line to change.
EXPECTED = {
    "logits_size": ("ValueError", "Net.__call__", "logits", "(1,)", "(2,)", "num_parameters"),
    "head_of_a_box": (
        "ValueError",
        "Net.__call__",
        "(2,)",
        "(4,)",
        "Box((-1.0, -1.0), (3.0, 3.0))",
    ),
    "logits_for_a_box": ("ValueError", "Four.distribution", "DiagonalGaussian(parameters, spec"),
    "logits_for_parts": ("ValueError", "Five.distribution", "int32 of shape ()", "ProductOfCat"),
    "actions_are_nan": ("ValueError", "Undefined.distribution", "an action", "not finite", "nan"),
    "box_is_infinite": ("ValueError", "high[1] is inf", "finite bound"),
    "num_actions_of_spec": ("TypeError", "num_actions", "actions=2"),
    "r2d2_in_a_box": ("ConfigError", "R2D2 needs Discrete", "Box((-1.0, -1.0)", "PPO"),
    "pqn_in_parts": ("ConfigError", "PQN needs Discrete", "MultiDiscrete(sizes=(3, 2))", "PPO"),
    "self_play_in_a_box": ("ConfigError", "self-play needs Discrete", "Box", "PPO"),
    "search_in_a_box": ("ConfigError", "a tree search needs Discrete", "Box", "PPO"),
    "embeds_a_box": ("ConfigError", "embeds each action", "Box", "mlp"),
    "soft_labels_in_a_box": ("ArgumentError", "soft_labels", "Box", "soft_labels=False"),
    "game_without_actions": ("TypeError", "Nothing", "num_actions", "hm.Box"),
    "value_shape": ("ValueError", "Net.__call__", "value", "(1,)", "shape ()", "value[0]"),
    "value_is_integer": ("ValueError", "value int32", "float32", ".astype(jnp.float32)"),
    "two_results": ("TypeError", "a tuple of 2", "three things", "return logits, value, carry"),
    "carry_shape": ("ValueError", "another kind of carry", "initial_carry()"),
    "carry_dtype": ("ValueError", "carry was float32", "is int32", "initial_carry()"),
    "carry_structure": ("ValueError", "carry was ()", "['memory']", "initial_carry()"),
    "carry_narrow": ("ValueError", "NarrowMemory.initial_carry", "bfloat16", "expected float32"),
    "bf16_logits": ("ValueError", "Net.__call__", "bfloat16", ".astype(jnp.float32)"),
    "bf16_unused": ("ValueError", "Wide.__call__", "1 matrix product", "bfloat16", "= spec.encode"),
    "dropout": ("ValueError", "Dropping.__call__", "eqx.nn.Dropout", "eqx.nn.inference_mode"),
    "logits_infinite": ("ValueError", "Net.__call__", "logits", "not finite", "-inf"),
    "parameter_is_nan": ("ValueError", "MLPActorCritic", "holds nan", "finite parameters"),
    "parameters_of_numpy": ("ValueError", "Net", ".layer.weight", "NumPy array", "jnp.asarray"),
    "policy_class": ("TypeError", "policy is the class Net", "an instance: Net(env.spec, key="),
    "policy_function": ("TypeError", "the function as_it_is", "instance of hm.ActorCritic"),
    "policy_of_another": ("ValueError", "Net.__call__", "(4,)", "this environment's spec"),
    "actions_of_another": ("ValueError", "(3,)", "expected float32 of shape (2,)", "this env"),
    "batch_to_mlp": ("ValueError", "12 numbers", "ONE observation", "jax.vmap(network)"),
    "batch_to_gru": ("ValueError", "12 numbers", "ONE observation", "jax.vmap(network)"),
    "batch_to_conv": ("ValueError", "(3, 36)", "ONE observation", "jax.vmap(network)"),
    "batch_to_classic": ("ValueError", "(3, 10)", "ONE observation", "jax.vmap(network)"),
    "vmap_over_one": ("ValueError", "2 inputs", "1 numbers", "ONE observation"),
    "policy_mask_none": ("TypeError", "mask is None", "bool of shape (2,)"),
    "policy_mask_float": ("ValueError", "mask is float32", "bool", ".astype(bool)"),
    "integer_reward": ("ValueError", "Walk.reset", "reward is int32", ".astype(jnp.float32)"),
    "mask_none": ("TypeError", "mask is None", "bool of shape (3, 2)", "jnp.ones(("),
    "mask_float": ("ValueError", "mask is float32", "expected bool", ".astype(bool)"),
    "unbatched_observation": ("ValueError", "observation is", "(2,)", "(3, 2)", "jax.vmap"),
    "observation_dtype": ("ValueError", "observation is int32", "spec.observation", ".astype("),
    "spec_shape": ("TypeError", "Walk.spec", "(2,)", "jax.ShapeDtypeStruct((2,), jnp.float32)"),
    "spec_is_none": ("TypeError", "Walk.spec", "None", "EnvSpec(...)"),
    "terms_unnamed": ("ValueError", "['pay']", "spec.terms, []", 'terms=("pay",)'),
    "no_timestep": ("TypeError", "Walk.reset", "second place", "return state, hm.Timestep("),
    "environment_class": ("TypeError", "the class CartPole", "an instance: CartPole()"),
    "single_game": ("TypeError", "an instance of Single, one game", "hm.Batched(game, max_steps="),
    "single_game_class": ("TypeError", "the class Single", "hm.Batched(Single(), max_steps="),
    "limit_is_nan": ("TypeError", "max_steps is nan", "expected a whole number"),
    "limit_is_float": ("TypeError", "max_steps is 500.0", "max_steps=500"),
    "gymnax": ("TypeError", "Gymnax", "hm.Environment", "hm.from_gymnax"),
    "float_actions": ("TypeError", "float32", "expected int32", "actions.astype(jnp.int32)"),
    "float_actions_in_game": ("TypeError", "float32", "actions.astype(jnp.int32)"),
    "float_action_in_play": ("TypeError", "action is 1.5 (float)", "hm.Action"),
    "two_actions_in_play": ("TypeError", "action is int32 of shape (2,)", "hm.Action"),
    "another_history_in_play": ("ValueError", "game with history=16", "config has history=8"),
    "another_size_in_play": ("ValueError", "max_enemies=24", "config has max_enemies=12"),
    "one_action_for_all": ("ValueError", "of shape ()", "(3,)", "each environment"),
    "list_of_actions": ("TypeError", "a list of 3", "expected int32"),
    "optimizer_is_number": ("TypeError", "0.001 (float)", "optimizer=optax.adam(0.001)"),
    "optimizer_not_called": ("TypeError", "the function adam", "optimizer=optax.adam(3e-4)"),
    "normalize_is_number": ("TypeError", "normalize_observations is 1", "True or False"),
    "normalize_integers": ("ArgumentError", "normalize_observations True is for floating-point"),
    "two_rates": ("ValueError", "both given", "leave learning_rate out", "unit_rate"),
    "negative_rate": ("ValueError", "learning_rate is -0.001", "0 or more", "0.001"),
    "negative_rate_at_the_end": ("ValueError", "learning_rate is -0.001", "0 or more"),
    "rate_is_nan": ("ValueError", "learning_rate", "finite number", "nan"),
    "rate_is_text": ("TypeError", "learning_rate is '1e-3'", "expected a number"),
    "rate_is_optimizer": ("TypeError", "adam (", "a schedule, returns", "expected one float32"),
    "rate_is_class": ("TypeError", "the class Linear", "learning_rate=Linear(3e-4"),
    "precision_unknown": ("ValueError", "precision 'bf17'", "bf16"),
    "precision_is_dtype": ("TypeError", "the class bfloat16", 'precision=hm.precision("bf16")'),
    "mesh_misspelt": ("ArgumentError", "mesh dta=1", "Did you mean data?"),
    "mesh_is_number": ("TypeError", "mesh is 2", 'mesh=hm.mesh("data=2")'),
    "num_envs_is_float": ("TypeError", "num_envs is 16.0", "num_envs=16"),
    "num_steps_0": ("ValueError", "num_steps must be at least 1"),
    "minibatches_0": ("ValueError", "num_minibatches must be at least 1"),
    "dispatch_0": ("ValueError", "updates_per_dispatch must be at least 1"),
    "games_0": ("ValueError", "num_envs must be at least 1, not 0"),
    "epochs_0": ("ValueError", "update_epochs must be at least 1, not 0"),
    "games_do_not_divide": (
        *("ArgumentError", "num_minibatches 4 does not divide num_envs 6. Use num_minibatches=3"),
        *("or num_minibatches=6", "or num_envs=8"),
    ),
    "parts_do_not_divide": ("ArgumentError", "grad_accum 3 does not divide the 8", "=2 or grad_a"),
    "target_kl_is_nan": ("ValueError", "target_kl", "finite number"),
    "target_kl_0": ("ValueError", "target_kl"),
    "gae_class": ("TypeError", "the class GAE", "gae=GAE()"),
    "gamma": ("ValueError", "gamma must be in [0, 1]", "1.5"),
    "lambda": ("ValueError", "gae_lambda must be in [0, 1]", "-0.1"),
    "clip_is_nan": ("ValueError", "clip_coef must be positive"),
    "clip_0": ("ValueError", "clip_coef must be positive"),
    "negative_value_clip": ("ValueError", "value_clip must be positive"),
    "negative_entropy": ("ValueError", "ent_coef must not be negative"),
    "schedule_of_no_step": ("ValueError", "at least 1 step"),
    "norm_0": ("ValueError", "max_grad_norm must be positive"),
    "collector_class": ("TypeError", "the class RolloutCollector", "RolloutCollector()"),
    "value_scale_class": ("TypeError", "value_scale is 'none'", "RunningScale()"),
    "loss_class": ("TypeError", "the class PPOLoss", "PPOLoss()"),
    "loss_signature": ("TypeError", "OneArgument.__call__", "(batch)", "(policy, batch)"),
    "loss_without_metrics": ("TypeError", "Bare.__call__", "a tuple", "LossMetrics(...)"),
    "loss_of_each_step": ("ValueError", "EachStep.__call__", "(4, 8)", "shape ()", "jnp.mean"),
    "no_key": ("ValueError", "key=jax.random.key(0)"),
    "key_is_number": ("TypeError", "key is 3", "key=jax.random.key(3)"),
    "key_is_old": ("TypeError", "uint32", "PRNGKey", "key=jax.random.key(0)"),
    "several_keys": ("TypeError", "several keys", "expected one", "keys[0]"),
    "total_is_negative": ("ValueError", "total_timesteps must be at least 1", "-1"),
    "total_is_text": ("TypeError", "total_timesteps is '64'", "expected a number"),
    "of_a_number": ("TypeError", "algorithm is 3", "an instance of Algorithm"),
    "of_a_class": ("TypeError", "algorithm is the class PPO"),
    "imitation_of_a_trainer": ("TypeError", "an instance of Trainer", "ppo=hm.PPO(environment"),
    "of_an_environment": ("TypeError", "an instance of Walk", "hm.PPO(environment, policy)"),
    "former_member": ("TypeError", "Mine.resettable", "rename it reinit_fields"),
    "former_member_of_a_mixin": ("TypeError", "Mine.to_store", "rename it checkpoint_state"),
    "former_field": ("TypeError", "Mine.actors", "rename it collector_state"),
    "gamma_is_text": ("TypeError", "gamma is '0.9' (str); expected a number"),
    "gamma_is_none": ("TypeError", "gamma is None; expected a number"),
    "dueling_is_text": ("TypeError", "dueling is 'no' (str); expected True or False"),
    "keep_buffer_is_text": ("TypeError", "keep_buffer is 'no' (str); expected True or False"),
    "epsilon_is_text": ("TypeError", "epsilon is 'a' (str); expected a number"),
    "spread_is_none": ("TypeError", "spread is None; expected a number"),
    "largest_is_text": ("TypeError", "largest is 'a' (str); expected a number"),
    "scale_is_text": ("TypeError", "epsilon is 'a' (str); expected a number"),
    "evaluate_class": ("TypeError", "the class RandomAgent", "RandomAgent()"),
    "evaluate_network_class": ("TypeError", "the class MLPActorCritic", "(env.spec, key="),
    "evaluate_function": ("TypeError", "the function as_it_is", "ActorCritic", "Agent"),
    "evaluate_in_class": ("TypeError", "the class CartPole", "CartPole()"),
    "evaluate_gymnax": ("TypeError", "Gymnax", "hm.Environment", "hm.from_gymnax"),
    "evaluate_float_actions": ("ValueError", "FloatPlayer.act", "float32", "expected one int32"),
    "evaluate_integer_reward": ("ValueError", "reward is int32", ".astype(jnp.float32)"),
    "evaluate_old_key": ("TypeError", "PRNGKey", "key=jax.random.key(0)"),
    "evaluate_no_episodes": ("ValueError", "episodes must be at least 1"),
    "evaluate_value_shape": ("ValueError", "Net.__call__", "value", "(1,)", "value[0]"),
    "truncates": ("ValueError", "truncated is True", "Walk.truncates says False", "return True"),
    "spec_given_environment": ("TypeError", "spec is an instance of Walk", "env.spec"),
    "right_without_dropout": None,
    "right_trainer": None,
    "right_game": None,
    "right_numbers_of_numpy": None,
    "right_evaluation": None,
}

# Cases about a line of the user's own: it is named.
OWN_LINES = {
    *("logits_size", "value_shape", "two_results", "carry_shape", "carry_narrow", "bf16_logits"),
    *("bf16_unused", "logits_infinite"),
    *("policy_of_another", "integer_reward", "mask_none", "unbatched_observation", "spec_shape"),
    *("terms_unnamed", "no_timestep", "loss_signature", "loss_of_each_step", "truncates"),
    *("evaluate_float_actions", "evaluate_integer_reward", "evaluate_value_shape"),
}


def test_every_case_has_its_expectation():
    assert set(EXPECTED) == set(CASES)


@pytest.mark.parametrize("name", EXPECTED)
def test_wrong_use_ends_in_one_clear_error(name):
    # A user's session promotes where these tests forbid it.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        if EXPECTED[name] is None:
            CASES[name]()
            return
        with pytest.raises(Exception) as caught:  # noqa: PT011
            CASES[name]()
    kind, *words = EXPECTED[name]
    said = str(caught.value)
    assert type(caught.value).__name__ == kind, said
    assert "\n" not in said
    for word in words:
        assert word in said
    if name in OWN_LINES:
        assert f"{Path(__file__).name}:" in said
