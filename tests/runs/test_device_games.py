"""Games, minibatches and length of the presets `gpu` and `tpu`, by the devices."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from etils import epath

from hackmatrix_rl.runs import _device_games, config_here
from hackmatrix_rl.runs._resume import ResumableRun
from hackmatrix_rl.runs.config import DeviceGames, make_config
from hackmatrix_rl.system import ACCELERATORS, Target, multiprocessors
from hackmatrix_rl.system.errors import ConfigError

GIB = 2**30
H100 = "NVIDIA H100 80GB HBM3"


class Card(SimpleNamespace):
    """A device, or the description of one if it has no `limit`."""

    process_index = 0

    def memory_stats(self):
        if self.limit is None:
            raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: only for addressable devices")
        return {"bytes_limit": self.limit}


def card(kind, *, platform="gpu", limit=None, **given):
    return Card(device_kind=kind, platform=platform, limit=limit, **given)


@pytest.fixture(autouse=True)
def estimate(monkeypatch):
    """The estimated bytes of a game, which a test may change; no trainer is composed."""
    needs = SimpleNamespace(bytes=13_600, here=[])

    def composed(config, *, target, trust_code):
        devices = needs.here if target is None else target.devices
        mesh = SimpleNamespace(devices=SimpleNamespace(flat=devices))
        return SimpleNamespace(mesh=mesh, config=config, number=len(devices))

    def estimated(trainer):
        games = trainer.config.num_envs * trainer.config.members // trainer.number
        return SimpleNamespace(sure=games * needs.bytes)

    monkeypatch.setattr(_device_games, "compose", composed)
    monkeypatch.setattr(_device_games, "estimate_memory", estimated)
    return needs


def sized(device, number=1, report=lambda line: None, **settings):
    target = Target("there", (device,) * number, None)
    return config_here(None, {"algorithm": "ppo", **settings}, target=target, report=report)


SIZES = [
    (H100, {}, 1, 65_536, 64),
    (H100, {}, 8, 524_288, 512),
    ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", {"core_count": 16}, 1, 8192, 8),
    ("NVIDIA H200", {}, 1, 65_536, 64),
    ("NVIDIA A100-SXM4-80GB", {}, 1, 32_768, 32),
    ("NVIDIA L4", {}, 1, 16_384, 16),
    ("NVIDIA L4", {}, 3, 49_152, 64),  # three devices share a minibatch of 768 games
    ("NVIDIA GeForce RTX 4090", {}, 1, 65_536, 64),
    ("Tesla T4", {"core_count": 40}, 1, 16_384, 16),
    ("TPU v4", {"platform": "tpu"}, 4, 16_384, 16),
    ("TPU v5 lite", {"platform": "tpu"}, 256, 1_048_576, 512),  # 8 games of each on a device
]


@pytest.mark.parametrize(("kind", "given", "number", "games", "minibatches"), SIZES)
def test_a_card_has_its_sizes(kind, given, number, games, minibatches):
    found = sized(card(kind, **given), number)
    assert (found.num_envs, found.minibatches, found.num_updates) == (games, minibatches, 1526)
    assert found.batch // found.minibatches <= 32_768 or games // minibatches == 8 * number
    # The last of a training in stages has the same; imitation keeps its own.
    stages = [{"algorithm": "imitation"}, {"algorithm": "ppo"}]
    taught, last = sized(card(kind, **given), number, stages=stages).stages
    assert (taught.num_envs, taught.total_timesteps) == (4096, 24_000_000)
    assert (last.num_envs, last.minibatches) == (games, minibatches)
    assert last.total_timesteps == 200_000_000 * games // 4096
    shorter = {"total_timesteps": 2_240_000}
    target = Target("there", (card(kind, **given),) * number, None)
    settings = {"stages": stages, **shorter}
    first, last = config_here(None, settings, given=shorter, target=target).stages
    assert (first.total_timesteps, last.total_timesteps) == (240_000, 2_000_000)


@pytest.mark.parametrize("limit", [None, 60 * GIB])
def test_a_card_that_is_here_has_the_sizes_of_its_target(monkeypatch, estimate, limit):
    here = card(H100, limit=limit, core_count=132)
    estimate.bytes, estimate.here = 200_000, [here, here]
    fake = {"devices": lambda kind: [here, here], "local_devices": lambda backend: [here]}
    for name, function in fake.items():
        monkeypatch.setattr(jax, name, function)
    found = config_here("gpu", {"algorithm": "ppo"})
    assert found == sized(card(H100), 2)
    assert found.num_envs == 65_536  # half, by the memory


def test_settings_win_over_the_sizes():
    device = card(H100)
    given = sized(device, num_envs=1024)
    assert (given.num_envs, given.minibatches, given.total_timesteps) == (1024, 8, 200_000_000)
    assert sized(device, num_envs=262_144).minibatches == 256
    assert sized(device).with_games(1024).minibatches == 8  # as `bench --full` does
    assert sized(device, num_minibatches=4).with_games(1024).minibatches == 4
    assert sized(device, total_timesteps=1000).total_timesteps == 1000
    assert sized(device, num_minibatches=16_384).minibatches == 16_384
    assert sized(device, minibatch_size=4096).minibatches == 512
    assert sized(device, num_steps=8).minibatches == 16
    assert sized(device, grad_accum=4).at_once == 256
    other = sized(device, env="cartpole")
    assert (other.num_envs, other.minibatches, other.total_timesteps) == (16, 4, 500_000)
    for name, games in (("imitation", 4096), ("pqn", 1024), ("r2d2", 64)):
        assert sized(device, algorithm=name).num_envs == games
    with pytest.raises(ConfigError, match="--num-steps -1 is too small"):
        sized(device, num_steps=-1)


def test_several_trainings_share_the_games_of_a_card():
    assert sized(card(H100), seeds=8).num_envs == 8192
    assert sized(card(H100), 2, seeds=3, vary="gamma=0.9,0.99").num_envs == 16_384
    assert sized(card(H100), seeds=4096).num_envs == 64


def test_games_fit_into_the_memory_of_a_card(estimate):
    estimate.bytes = 2**20
    assert sized(card(H100)).num_envs == 4096  # 4 GiB of 59, and compilers need more
    assert sized(card("NVIDIA L4"), 2).num_envs == 4096
    assert sized(card(H100), env="hackmatrix").num_envs == 4096
    assert sized(card(H100, limit=8 * GIB)).num_envs == 1024  # JAX may take no more of the card
    assert sized(card("Unknown", core_count=132, limit=60 * GIB)).num_envs == 4096
    estimate.bytes = 2**40
    assert sized(card(H100)).num_envs == 256  # what does not fit is refused later
    assert sized(card(H100), num_envs=8192).num_envs == 8192


def test_a_card_that_does_not_say_what_it_has_is_reported_once():
    said = []
    device = card("New GPU", limit=60 * GIB)
    assert multiprocessors(device) is None
    assert sized(device, report=said.append).num_envs == 4096
    (line,) = said
    assert line.startswith("New GPU is unknown: JAX does not say how many multiprocessors it has")
    assert "assumes 8, so 4,096 games on each device; --num-envs sets another number" in line
    # Nothing was assumed.
    sized(device, report=said.append, num_envs=64)
    sized(device, report=said.append, algorithm="r2d2")
    sized(card(H100), report=said.append)
    assert said == [line]


def test_a_run_keeps_its_sizes_on_another_card():
    begun = make_config("gpu", {"algorithm": "ppo"}, room=DeviceGames(65_536, 1))
    assert (begun.num_envs, begun.num_minibatches) == (65_536, 64)
    stored = SimpleNamespace(
        metadata={"config": begun.as_dict()},
        path=Path("run"),
        checkpoints=epath.Path("run/checkpoints"),
    )
    resumed = partial(ResumableRun.config, stored)
    assert replace(resumed({}), checkpoint_dir=None) == begun
    # Other games have minibatches of their size, unless a number is given.
    assert resumed({"num_envs": 64}).num_minibatches == 8
    assert resumed({"num_envs": 96}).num_minibatches == 8
    assert resumed({"num_envs": 64, "num_minibatches": 2}).num_minibatches == 2
    own = make_config("gpu", {"algorithm": "ppo", "num_minibatches": 16})
    stored.metadata = {"config": own.as_dict()}
    assert resumed({"num_envs": 64}).num_minibatches == 16


def test_every_known_gpu_has_its_number_of_multiprocessors():
    counts = {kind: each.multiprocessors for kind, each in ACCELERATORS.items()}
    assert all((count is None) == kind.startswith("TPU") for kind, count in counts.items())
    assert multiprocessors(card("NVIDIA L4")) == 58
    assert multiprocessors(card("NVIDIA L4", core_count=29)) == 29
