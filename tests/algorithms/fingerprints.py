"""What a tiny training of each algorithm ends in, written down before code is moved.

`pytest --write-fingerprints` writes data/fingerprints.json again, after a change that is meant to
change a training.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from training.states import arrays

from hackmatrix_rl.algorithms.self_play import SelfPlayConfig
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs._keys import run_keys
from hackmatrix_rl.runs.config import RunConfig, make_config

STORED = Path(__file__).parents[1] / "data" / "fingerprints.json"
UPDATES = 3

_CARTPOLE = {"env": "cartpole", "num_envs": 8, "width": 8, "updates_per_dispatch": 1}
_GAME = {
    **{"max_enemies": 4, "max_transmissions": 4, "history": 1, "max_steps": 50},
    **{"num_envs": 8, "num_steps": 8, "width": 8, "updates_per_dispatch": 1},
}
_PPO = {"algorithm": "ppo", "num_steps": 8, "num_minibatches": 2, **_CARTPOLE}
_SUPERVISED = {"algorithm": "supervised", "updates_per_dispatch": 1}
_SELF_PLAY = {
    **{"vertices": 4, "opening": 1, "width": 8, "num_simulations": 3},
    **{"game_batch_size": 8, "moves_per_update": 4, "training_batch_size": 16, "train_steps": 2},
    **{"buffer_size": 96, "league_games": 0},
}
TRAININGS: Mapping[str, Mapping[str, Any]] = {
    "ppo": {**_PPO, "mesh": "data=1"},
    "ppo, two devices": {**_PPO, "mesh": "data=2"},
    "ppo, bf16": {**_PPO, "mesh": "data=1", "precision": "bf16"},
    "ppo, gru, accumulated, averaged": {
        **_PPO,
        **{"mesh": "data=1", "network": "gru", "grad_accum": 2, "ema": 0.9},
        **{"learning_rate": "linear:0.01:0.001", "max_grad_norm": 0.1},
    },
    "ppo, population": {**_PPO, "mesh": "data=1", "seeds": 2, "vary": "learning_rate=0.01,0.001"},
    "pqn": {"algorithm": "pqn", "num_steps": 8, **_CARTPOLE, "mesh": "data=1"},
    "pqn, two devices": {"algorithm": "pqn", "num_steps": 8, **_CARTPOLE, "mesh": "data=2"},
    "r2d2": {
        **{"algorithm": "r2d2", "prioritized": True, "burn_in": 2, "buffer_size": 256},
        **{**_CARTPOLE, "mesh": "data=1", "sequence_batch_size": 8},
    },
    "imitation": {
        **{"algorithm": "imitation", "teacher": "runner", "buffer_size": 128},
        **{**_GAME, "mesh": "data=1"},
    },
    "self-play": {**_SELF_PLAY, "mesh": "data=1"},
    "self-play, two devices": {**_SELF_PLAY, "mesh": "data=2"},
    "supervised": {**_SUPERVISED, "mesh": "data=1", "ema": 0.9},
    "supervised, two devices": {**_SUPERVISED, "mesh": "data=2"},
}


def settings(name: str) -> RunConfig:
    """The settings of a training."""
    given = dict(TRAININGS[name])
    return make_config("debug", given) if "algorithm" in given else SelfPlayConfig(**given)


def fingerprint(name: str) -> dict[str, Any]:
    """The end of a training: its bits, whatever its arrays are called, and its numbers."""
    config = settings(name)
    trainer = compose(config)
    trainer.start(run_keys(config.seed)[1])  # a population gets one key, too
    found = trainer.dispatch(UPDATES)
    metrics = {**found.learning, **found.episode, **found.reward}
    return {**digest(arrays(trainer.state)), "metrics": dict(sorted(metrics.items()))}


def digest(state: Sequence[np.ndarray]) -> dict[str, Any]:
    """Of arrays, in any order."""
    hashed = sorted(hashlib.sha256(_bytes(each)).hexdigest() for each in state)
    size = sum(float(np.abs(each.astype(np.float64)).sum()) for each in state if _is_float(each))
    bits = hashlib.sha256("".join(hashed).encode()).hexdigest()
    return {"arrays": len(state), "size": size, "bits": bits}


def check(name: str, found: dict[str, Any], *, write: bool) -> None:
    """The bits of the machine that wrote them; elsewhere the numbers, but for rounding."""
    written = json.loads(STORED.read_text())
    if write:
        written["machine"], written["trainings"][name] = machine(), found
        STORED.write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
        return
    expected = written["trainings"][name]
    if machine() == written["machine"]:
        assert found == expected
    assert found.get("metrics", {}).keys() == expected.get("metrics", {}).keys()
    assert found["arrays"] == expected["arrays"]
    np.testing.assert_allclose(found["size"], expected["size"], rtol=1e-3)


def _bytes(array: np.ndarray) -> bytes:
    return f"{array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes()


def _is_float(array: np.ndarray) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.floating))


def machine() -> str:
    """Bits are those of a compiler and a processor."""
    try:
        flags = next(
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if "flags" in line
        )
    except (OSError, StopIteration):
        flags = platform.processor()
    words = " ".join(sorted(flags.split()))
    return f"jaxlib {version('jaxlib')}, {hashlib.sha256(words.encode()).hexdigest()[:12]}"
