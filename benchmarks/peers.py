"""This package's PPO against those of rejax and Stable-Baselines3, on CartPole-v1.

    pip install --group peers
    python benchmarks/peers.py [--players ours rejax] [--devices 2] [--repeats 3] [--json FILE]

The players train in turns in one process, with the settings below, Adam, and two networks of two
tanh layers of 64 units, one for the policy and one for the value; `ours-shared` has one
MLP of this package for both instead. Compilation, evaluation and the construction of the games are
not timed. CPU time is that of all threads: on a busy machine it varies less than wall time. After
the first training of each seed, the policy plays full episodes with sampled actions.

On a CPU, this package splits its games over devices of one core each (`--devices`), as `train`
does by default there. The others leave the second core to the threads of their libraries.

The remaining differences are features that only some packages have. This one bootstraps from the
value of truncated episodes, as Stable-Baselines3 does, normalises values, and samples minibatches
of blocks of neighbouring games. rejax clips the value, and each component of the gradient
separately. Stable-Baselines3 plays gymnasium's CartPole, the others play gymnax's.

rejax 0.1.3 is written for gymnax 0.0: `BeforeGymnax1` gives it the environments of gymnax 1.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

import hackmatrix_rl as hm

GAME = "CartPole-v1"
NUM_ENVS = 256
NUM_STEPS = 128
EPOCHS = 4
MINIBATCHES = 4
WIDTHS = (64, 64)
LEARNING_RATE = 1e-3
GAMMA = 0.99
GAE_LAMBDA = 0.95
CLIP = 0.2
ENT_COEF = 0.01
VF_COEF = 0.5
MAX_GRAD_NORM = 0.5  # this package's default
EPISODES = 200
PACKAGES = ("jax", "gymnax", "rejax", "stable-baselines3", "torch", "gymnasium")


class Training(NamedTuple):
    """One training.

    Attributes:
        seconds: wall time and CPU time of the training alone.
        evaluate: plays episodes with the trained policy, and returns the mean return.
    """

    seconds: tuple[float, float]
    evaluate: Callable[[], float]


Player = Callable[[int], Training]
"""Trains with a seed; made by a function of the environment steps, which compiles."""


def clock() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def since(began: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = clock()
    return wall - began[0], cpu - began[1]


class TwoTowers(hm.ActorCritic):
    """One network for the policy, one for the value."""

    encode: Any = eqx.field(static=True)
    actor: eqx.nn.MLP
    critic: eqx.nn.MLP

    def __init__(self, spec: Any, *, key: jax.Array) -> None:
        actor_key, critic_key = jax.random.split(key)
        self.encode = spec.encode
        size = {"width_size": WIDTHS[0], "depth": len(WIDTHS), "activation": jnp.tanh}
        self.actor = eqx.nn.MLP(spec.num_features, spec.num_actions, **size, key=actor_key)
        self.critic = eqx.nn.MLP(spec.num_features, "scalar", **size, key=critic_key)

    def __call__(self, observation: Any, carry: Any) -> tuple[jax.Array, jax.Array, Any]:
        """Logits and value."""
        features = self.encode(observation).ravel()
        return self.actor(features), self.critic(features), carry


def shared(spec: Any, *, key: jax.Array) -> hm.ActorCritic:
    """This package's own network of as many layers: rectifiers, shared by policy and value."""
    return hm.MLPActorCritic(spec, width=WIDTHS[0], depth=len(WIDTHS), key=key)


def our_ppo(
    environment: hm.Environment,
    policy: hm.ActorCritic,
    *,
    num_envs: int = NUM_ENVS,
    num_steps: int = NUM_STEPS,
    mesh: str | None = None,
) -> hm.PPO:
    """This package's PPO with the settings above."""
    return hm.PPO(
        environment,
        policy,
        loss=hm.PPOLoss(clip_coef=CLIP, ent_coef=ENT_COEF, vf_coef=VF_COEF),
        gae=hm.GAE(gamma=GAMMA, gae_lambda=GAE_LAMBDA),
        learning_rate=LEARNING_RATE,
        num_envs=num_envs,
        num_steps=num_steps,
        num_minibatches=MINIBATCHES,
        update_epochs=EPOCHS,
        mesh=mesh,
    )


def ours(
    steps: int, devices: int = 1, *, network: Callable[..., hm.ActorCritic] = TwoTowers
) -> Player:
    """This package."""
    environment = hm.from_gymnax(GAME)
    policy = network(environment.spec, key=jax.random.key(0))
    trainer = hm.Trainer(our_ppo(environment, policy, mesh=f"data={devices}"))
    trainer.start(jax.random.key(0))
    trainer.compile()

    def train(seed: int) -> Training:
        policy_key, key, games = jax.random.split(jax.random.key(seed), 3)
        trainer.start(key, network(environment.spec, key=policy_key))
        jax.block_until_ready(eqx.filter(trainer.state, eqx.is_array))
        began = clock()
        trainer.fit(steps)
        jax.block_until_ready(eqx.filter(trainer.state, eqx.is_array))
        seconds = since(began)
        policy = trainer.policy

        def evaluate() -> float:
            played = hm.evaluate(policy, environment, episodes=EPISODES, key=games)
            return float(played.values["return"].mean())

        return Training(seconds, evaluate)

    return train


class BeforeGymnax1:
    """An environment of gymnax 1 with the `step` of gymnax 0, where an end is one flag."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.default_params = environment.default_params
        self.reset = environment.reset
        self.action_space = environment.action_space
        self.observation_space = environment.observation_space

    def step(self, key: Any, state: Any, action: Any, params: Any) -> tuple[Any, ...]:
        """A step whose flag is either end."""
        step = self.environment.step(key, state, action, params)
        seen, after, reward, terminated, truncated, info = step
        return seen, after, reward, terminated | truncated, info


def rejax_ppo(steps: int, *, num_envs: int = NUM_ENVS, num_steps: int = NUM_STEPS) -> Any:
    """A whole training by rejax. Its evaluations are switched off."""
    import gymnax
    from rejax import PPO

    game, params = gymnax.make(GAME)
    return PPO.create(
        env=BeforeGymnax1(game),
        env_params=params,
        agent_kwargs={"hidden_layer_sizes": WIDTHS, "activation": "tanh"},
        num_envs=num_envs,
        num_steps=num_steps,
        num_epochs=EPOCHS,
        num_minibatches=MINIBATCHES,
        learning_rate=LEARNING_RATE,
        gamma=GAMMA,
        gae_lambda=GAE_LAMBDA,
        clip_eps=CLIP,
        ent_coef=ENT_COEF,
        vf_coef=VF_COEF,
        max_grad_norm=MAX_GRAD_NORM,
        total_timesteps=steps,
        eval_freq=steps,
        skip_initial_evaluation=True,
    ).replace(eval_callback=lambda algorithm, state, key: ())


def rejax(steps: int, devices: int = 1) -> Player:
    """rejax, which compiles a whole training."""
    del devices
    from rejax.evaluate import evaluate as play

    algorithm = rejax_ppo(steps)
    start = jax.jit(algorithm.init_state)
    state = start(jax.random.key(0))
    run = jax.jit(lambda state: algorithm.train(train_state=state)[0]).lower(state).compile()

    def train(seed: int) -> Training:
        key, games = jax.random.split(jax.random.key(seed))
        state = jax.block_until_ready(start(key))
        began = clock()
        trained = jax.block_until_ready(run(state))
        seconds = since(began)

        def evaluate() -> float:
            act = algorithm.make_act(trained)
            _, returns = play(act, games, algorithm.env, algorithm.env_params, EPISODES)
            return float(returns.mean())

        assert int(trained.global_step) == steps
        return Training(seconds, evaluate)

    return train


def sb3(steps: int, devices: int = 1) -> Player:
    """Stable-Baselines3 on a CPU, with games in the same process."""
    del devices
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    torch.set_num_threads(cores())

    def train(seed: int) -> Training:
        model = PPO(
            "MlpPolicy",
            make_vec_env(GAME, n_envs=NUM_ENVS, seed=seed),
            n_steps=NUM_STEPS,
            batch_size=NUM_ENVS * NUM_STEPS // MINIBATCHES,
            n_epochs=EPOCHS,
            learning_rate=LEARNING_RATE,
            gamma=GAMMA,
            gae_lambda=GAE_LAMBDA,
            clip_range=CLIP,
            ent_coef=ENT_COEF,
            vf_coef=VF_COEF,
            max_grad_norm=MAX_GRAD_NORM,
            policy_kwargs={"net_arch": list(WIDTHS), "activation_fn": torch.nn.Tanh},
            seed=seed,
            device="cpu",
        )
        began = clock()
        model.learn(steps)
        seconds = since(began)
        assert model.num_timesteps == steps

        def evaluate() -> float:
            games = make_vec_env(GAME, n_envs=NUM_ENVS, seed=1000 + seed)
            played = evaluate_policy(model, games, n_eval_episodes=EPISODES, deterministic=False)
            return float(played[0])

        return Training(seconds, evaluate)

    return train


PLAYERS: dict[str, Callable[[int, int], Player]] = {
    "ours": ours,
    "rejax": rejax,
    "sb3": sb3,
    "ours-shared": partial(ours, network=shared),
}


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions() -> dict[str, str]:
    """The packages that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            continue
    return found


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The speeds and returns of each player, and the speed of the first player relative to it.

    Each is by the clock and by CPU time.
    """
    runs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        runs.setdefault(row["player"], []).append(row)
    first = next(iter(runs.values()))
    lines = []
    for name, own in runs.items():
        line = {"player": name, "compile_seconds": own[0]["compile_seconds"]}
        for kind in ("clock", "cpu"):
            speeds = [row[kind] for row in own]
            pairs = zip(first, speeds, strict=True)
            line[kind] = spread(speeds)
            line[f"{kind}_ratio"] = spread([ahead[kind] / speed for ahead, speed in pairs])
        line["returns"] = {row["seed"]: row["return"] for row in own if "return" in row}
        lines.append(line)
    return lines


def spread(figures: list[float]) -> dict[str, float]:
    return {"median": statistics.median(figures), "min": min(figures), "max": max(figures)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=list(PLAYERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--repeats", type=int, default=1, help="trainings of each seed")
    parser.add_argument("--steps", type=int, default=32 * NUM_ENVS * NUM_STEPS)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--devices", type=int, default=1, help="CPU devices of `ours`")
    options = parser.parse_args()
    if options.steps < 1 or options.steps % (NUM_ENVS * NUM_STEPS):
        parser.error(f"--steps {options.steps}: a multiple of {NUM_ENVS * NUM_STEPS}, one update.")
    if options.repeats < 1:
        parser.error(f"--repeats {options.repeats}: at least 1.")
    jax.config.update("jax_num_cpu_devices", options.devices)
    print(f"{cores()} cores, {', '.join(' '.join(pair) for pair in versions().items())}")
    players, compiling = {}, {}
    for name in options.players:
        began = clock()
        players[name] = PLAYERS[name](options.steps, options.devices)
        compiling[name] = since(began)[0]
    rows: list[dict[str, Any]] = []
    for repeat in range(options.repeats):
        for seed in options.seeds:
            for name, train in players.items():
                trained = train(seed)
                row = {
                    "player": name,
                    "seed": seed,
                    "clock": options.steps / trained.seconds[0],
                    "cpu": options.steps / trained.seconds[1],
                    "compile_seconds": compiling[name],
                }
                if repeat == 0:
                    row["return"] = trained.evaluate()
                rows.append(row)
                print(f"{name:>11} seed {seed} {row['clock']:9,.0f} steps/s, {row['cpu']:9,.0f} by "
                      f"CPU time  return {row.get('return', float('nan')):.1f}",
                      flush=True)  # fmt: skip
    found = {"steps": options.steps, "versions": versions(), "rows": summary(rows)}
    for line in found["rows"]:
        print(f"{line['player']:>11}:", end="")
        for kind, unit in (("clock", "steps/s"), ("cpu", "by CPU time")):
            speed, ratio = line[kind], line[f"{kind}_ratio"]
            print(f" {speed['median']:,.0f} {unit} ({speed['min']:,.0f} to {speed['max']:,.0f}), "
                  f"{options.players[0]} is {ratio['median']:.2f} times as fast "
                  f"({ratio['min']:.2f} to {ratio['max']:.2f});", end="")  # fmt: skip
        print(" returns", *(f"{each:.1f}" for each in line["returns"].values()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
