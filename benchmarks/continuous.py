"""PPO with real-valued actions: `--preset continuous` beside rejax with its own configurations.

    pip install --group peers
    python benchmarks/continuous.py [--games Pendulum-v1] [--players ours rejax] [--json FILE]
    pip install brax
    python benchmarks/continuous.py --games brax:ant --players ours brax --steps 3_276_800

The seeds of a player train in one compiled program, except that Brax's train one after another. A
return is the mean over the last 10% of the training: of its episodes here, and of evaluations with
sampled actions elsewhere, which have 128 episodes each. Neither compilation nor evaluations are
timed: rejax trains a second time without them, and Brax times its own epochs, of which the first
two compile. A training of rejax or Brax ends after whole updates.

Source: the settings of rejax are those of its configs/gymnax; those of Brax are from its
notebooks/training.ipynb, which trains for 50 M steps. Its `spring` physics is the fastest on a CPU.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from peers import BeforeGymnax1

EVALUATIONS = 100
BACKEND = "spring"
ENTROPY = "linear:0.01:0"  # the preset's is too much for several numbers of an action
# Both have 10 epochs of 10 minibatches.
REJAX: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "num_envs": 100,
        "learning_rate": 1e-3,
        "total_timesteps": 150_000,
        "gamma": 0.995,
        "agent_kwargs": {"activation": "swish"},
        "normalize_observations": True,
    },
    "MountainCarContinuous-v0": {
        "num_envs": 5,
        "learning_rate": 3e-4,
        "total_timesteps": 200_000,
        "gamma": 0.9,
        "agent_kwargs": {"activation": "relu"},
    },
}
BRAX: dict[str, dict[str, Any]] = {
    "ant": {
        "reward_scaling": 10,
        "unroll_length": 5,
        "num_updates_per_batch": 4,
        "discounting": 0.97,
        "entropy_cost": 1e-2,
        "num_envs": 4096,
        "batch_size": 2048,
    }
}
AIMS = {"Pendulum-v1": -200, "MountainCarContinuous-v0": 90}


def ours(game: str, steps: int | None, seeds: int) -> dict[str, Any]:
    """The command with the preset's defaults."""
    env = game if ":" in game else f"gymnax:{game}"
    command = [sys.executable, "-m", "hackmatrix_rl", "train", "--env", env]
    command += ["--preset", "continuous", "--seeds", str(seeds), "--eval-episodes", "0"]
    if env.startswith("brax:"):
        command += ["--env-args", f"backend={BACKEND}", "--ent-coef", ENTROPY]
    if steps is not None:
        command += ["--total-timesteps", str(steps)]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        subprocess.run([*command, "--run-dir", run], check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    end = rows[-1]["env_steps"]
    last = [row for row in rows if row["env_steps"] > 0.9 * end]
    returns = []
    for member in range(seeds):
        key = f"member/{member}/return" if seeds > 1 else "return"
        seen = [row.get(key) for row in last]
        seen = [each for each in seen if each is not None]
        returns.append(sum(seen) / len(seen))
    # Each seed takes `env_steps`.
    took = sum(row["seconds"] for row in rows[1:])
    speed = seeds * (end - rows[0]["env_steps"]) / took
    return {"returns": returns, "steps": end, "speed": speed}


def rejax(game: str, steps: int | None, seeds: int) -> dict[str, Any]:
    """The configuration of rejax, unless there are `steps`."""
    import gymnax
    from rejax import PPO

    environment, params = gymnax.make(game)
    settings = {**REJAX[game], "num_steps": 100, "num_epochs": 10, "num_minibatches": 10}
    settings |= {"max_grad_norm": 10, "ent_coef": 0.0, "clip_eps": 0.2, "vf_coef": 0.5}
    steps = steps or settings["total_timesteps"]
    update = settings["num_envs"] * settings["num_steps"]
    every = max(1, steps // EVALUATIONS // update) * update
    steps -= steps % every
    settings["agent_kwargs"] = dict(settings["agent_kwargs"])  # rejax empties it
    algorithm = PPO.create(
        env=BeforeGymnax1(environment),
        env_params=params,
        **{**settings, "total_timesteps": steps},
        eval_freq=every,
        skip_initial_evaluation=True,
    )
    keys = jax.random.split(jax.random.key(0), seeds)
    _, (_, returns) = jax.jit(jax.vmap(algorithm.train))(keys)
    late = jnp.mean(returns, axis=2)[:, -max(1, returns.shape[1] // 10) :]
    silent = algorithm.replace(eval_callback=lambda algorithm, state, key: ())
    train = jax.jit(jax.vmap(silent.train)).lower(keys).compile()
    began = time.perf_counter()
    jax.block_until_ready(train(keys))
    seconds = time.perf_counter() - began
    return {"returns": late.mean(axis=1).tolist(), "steps": steps, "speed": seeds * steps / seconds}


def brax(game: str, steps: int | None, seeds: int) -> dict[str, Any]:
    """Brax's own training, in ten epochs with an evaluation after each."""
    from brax import envs
    from brax.training.agents.ppo import train

    # Brax 0.14 calls this function, which JAX 0.10 no longer has.
    jax.device_put_replicated = lambda tree, devices: jax.tree.map(
        lambda leaf: jnp.stack([leaf] * len(devices)), tree
    )
    name = game.removeprefix("brax:")
    returns, speeds, taken = [], [], 0
    for seed in range(seeds):
        rows: list[tuple[int, dict[str, Any]]] = []
        train.train(
            environment=envs.get_environment(name, backend=BACKEND),
            num_timesteps=steps or 50_000_000,
            num_evals=11,
            episode_length=1000,
            normalize_observations=True,
            num_minibatches=32,
            learning_rate=3e-4,
            seed=seed,
            progress_fn=lambda *row, rows=rows: rows.append(row),
            **BRAX[name],
        )
        taken = rows[-1][0]
        returns.append(float(rows[-1][1]["eval/episode_reward"]))
        speeds += [float(row["training/sps"]) for _, row in rows[3:]]
        print(f"{game} brax, seed {seed}: {returns[-1]:.1f}, {speeds[-1]:,.0f} steps/s", flush=True)
    return {"returns": returns, "steps": taken, "speed": statistics.harmonic_mean(speeds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", nargs="+", default=list(REJAX))
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=["ours", "rejax"])
    parser.add_argument("--steps", type=int, help="of each seed; default: the configuration's")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    rows = []
    for game in options.games:
        for name in options.players:
            row = {
                "game": game,
                "player": name,
                **PLAYERS[name](game, options.steps, options.seeds),
            }
            rows.append(row)
            print(f"{game} {name}: {row['steps']:,} steps, {row['speed']:,.0f} steps/s, returns",
                  *(f"{each:.1f}" for each in row["returns"]), f"aim {AIMS.get(game, 'none')}",
                  flush=True)  # fmt: skip
            if options.json:
                options.json.write_text(json.dumps(rows, indent=2) + "\n")


PLAYERS = {"ours": ours, "rejax": rejax, "brax": brax}

if __name__ == "__main__":
    main()
