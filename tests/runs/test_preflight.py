"""What is found before anything is compiled."""

import shutil
import sys
from types import SimpleNamespace

import equinox as eqx
import jax
import pytest

from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.algorithms.ppo import PPO, PPOConfig
from hackmatrix_rl.cli.bench import benchmark
from hackmatrix_rl.env import CartPole
from hackmatrix_rl.runs import compose, contender, estimate_memory, preflight
from hackmatrix_rl.runs._preflight import (
    MemoryEstimate,
    check_disk,
    check_memory,
    doubts,
    require_wandb,
)
from hackmatrix_rl.runs.config import algorithms, options_of
from hackmatrix_rl.system import format_bytes
from hackmatrix_rl.system._usage import _free_ram
from hackmatrix_rl.system.errors import ConfigError, as_given
from hackmatrix_rl.training import Trainer
from hackmatrix_rl.training.sharding import mesh

GIB = 2**30
NEEDED = MemoryEstimate(state=2 * GIB, working=2 * GIB, checkpoint=GIB)


def fields(kind):
    return {each.name for each in options_of(kind)}


def config(**changes):
    return PPOConfig(**{"num_envs": 1024, "num_minibatches": 8, **changes})


def trainer_of(**changes):
    environment = CartPole()
    policy = MLPActorCritic(environment.spec, width=64, key=jax.random.key(0))
    sizes = {"num_envs": 512, "num_steps": 64, "num_minibatches": 4}
    return Trainer(PPO(environment, policy, **sizes, **changes))


@pytest.fixture(scope="module")
def trainer():
    trainer = trainer_of()
    trainer.start(jax.random.key(0))
    return trainer


def test_the_state_is_counted_to_the_byte(trainer):
    arrays = jax.tree.leaves(eqx.filter(trainer.state, eqx.is_array))
    assert estimate_memory(trainer).state == sum(leaf.nbytes for leaf in arrays)


def test_what_is_seen_in_a_rollout_is_counted(trainer):
    update = trainer.algorithm
    rollout, _ = eqx.filter_eval_shape(
        update.collect, trainer.policy, update.environment, trainer.state.collector_state
    )
    seen = jax.tree.leaves((rollout.observation, rollout.action, rollout.mask))
    made = sum(leaf.size * leaf.dtype.itemsize for leaf in seen)
    assert estimate_memory(trainer).working == made


def test_over_several_devices_each_holds_its_part(trainer):
    two, one = estimate_memory(trainer_of(mesh=mesh("data=2"))), estimate_memory(trainer)
    assert two.working == one.working / 2
    assert two.checkpoint == one.checkpoint
    assert one.state / 2 < two.state < one.state, "parameters are whole on each"


def test_an_optimizer_on_the_host_takes_no_memory_of_a_device(trainer):
    plain = estimate_memory(trainer)
    offloaded = estimate_memory(trainer_of(offload_optimizer=True))
    # Two numbers for each parameter.
    parameters = jax.tree.leaves(eqx.filter(trainer.policy, eqx.is_array))
    assert plain.state - offloaded.state == 2 * sum(leaf.nbytes for leaf in parameters)
    assert offloaded.checkpoint == plain.checkpoint


@pytest.mark.parametrize(("shape", "games"), [("data=1", None), ("data=2", 4), ("data=8", 1)])
def test_a_device_with_fewer_than_eight_games_of_a_minibatch_is_said(shape, games):
    sizes = {"num_envs": 32, "num_minibatches": 4, "num_steps": 4}
    policy = MLPActorCritic(CartPole().spec, width=4, key=jax.random.key(0))
    made = Trainer(PPO(CartPole(), policy, **sizes, mesh=shape))
    told = doubts(PPOConfig(**sizes), made)
    assert [line.partition(",")[0] for line in told] == (
        [] if games is None else [f"A device has {games} of the 8 games of a minibatch"]
    )


@pytest.mark.parametrize(
    "begin",
    [
        lambda settings: preflight(settings, compose(settings), folder=None),
        lambda settings: contender(settings, "the baseline"),
        lambda settings: benchmark(settings, repeats=1),
    ],
    ids=["train", "compare", "bench"],
)
def test_far_too_many_games_are_refused_before_any_is_played(begin, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.runs._preflight.available_memory", lambda: (GIB, "RAM"))
    many = {"num_envs": 2**25, "num_steps": 1, "network": "mlp", "mesh": "data=1"}
    with pytest.raises(
        ConfigError, match=r"--num-envs .* needs at least .* a device, .*--num-envs"
    ):
        begin(config(env="cartpole", **many))


def test_what_surely_fits_is_said():
    (line,) = check_memory(config(), NEEDED, (100 * GIB, "GPU memory"))
    assert "state 2.0 GiB, an update 2.0 GiB; of 100 GiB GPU memory" in line
    assert check_memory(config(), NEEDED, None)


@pytest.mark.parametrize("kind", algorithms().values())
def test_what_cannot_fit_is_refused_with_what_decides_it(kind):
    settings = kind.of_preset("debug", {"teacher": "runner"} if "teacher" in fields(kind) else {})
    with pytest.raises(ConfigError) as error:
        check_memory(settings, NEEDED, (2 * GIB, "GPU memory"))
    said = str(error.value)
    assert "needs at least 4.0 GiB a device" in said
    for name in kind.memory:
        assert as_given(name, getattr(settings, name)) in said
    assert "Use a smaller" in said


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"seeds": 8}, "--seeds"), ({"seeds": 2, "vary": "gamma=0.9,0.99,0.997,0.999"}, "--vary")],
)
def test_of_trainings_at_once_it_is_said_how_many_can_fit(settings, named):
    with pytest.raises(ConfigError, match=rf"At most 6 trainings at once can fit.* {named},"):
        check_memory(config(**settings), NEEDED, (3 * GIB, "GPU memory"))
    with pytest.raises(ConfigError) as error:  # not even one
        check_memory(config(**settings), NEEDED, (GIB // 4, "GPU memory"))
    assert "can fit" not in str(error.value)


def test_a_container_that_may_take_less_than_is_free_counts():
    files = {
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    4096 kB\n",
        "/sys/fs/cgroup/memory.max": "3145728\n",
        "/sys/fs/cgroup/memory.current": "1048576\n",
    }

    def read(path):
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    assert _free_ram(read) == 2 * 2**20
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert _free_ram(read) == 4 * 2**20


def disk(free):
    return lambda place: SimpleNamespace(free=free)


def test_a_disk_that_cannot_hold_the_checkpoints_is_refused_with_what_would_fit():
    with pytest.raises(ConfigError) as error:
        check_disk(config(keep=5), GIB, "/nowhere/yet", disk(3 * GIB + 1))
    said = str(error.value)
    assert "--run-dir /: 3.0 GiB are free, but 5 checkpoints and one being written" in said
    assert "6.0 GiB. Use --keep 2, or make room." in said
    assert check_disk(config(keep=2), GIB, "/nowhere/yet", disk(3 * GIB + 1))
    with pytest.raises(ConfigError, match=r"--checkpoint-dir .*Make room"):
        check_disk(config(keep=1, checkpoint_dir="."), GIB, ".", disk(GIB))


def test_the_best_checkpoint_is_one_more_and_remote_folders_are_not_looked_at():
    with pytest.raises(ConfigError, match="2 checkpoints and one being written"):
        check_disk(config(keep=1, keep_best=True), GIB, ".", disk(2 * GIB))
    every = config(keep=1, keep_every=10, save_interval=5)
    with pytest.raises(ConfigError, match=r"4 checkpoints and one .* Use a larger --keep-every"):
        check_disk(every, GIB, ".", disk(3 * GIB), updates=30)
    assert check_disk(config(), GIB, "gs://bucket/run", disk(0)) == []


def test_it_looks_where_the_checkpoints_will_be_and_leaves_nothing_behind(trainer, tmp_path):
    looked = []

    def remember(place):
        looked.append(place)
        return shutil.disk_usage(place)

    check_disk(config(), 1, str(tmp_path / "a" / "b"), remember)
    assert looked == [tmp_path]
    assert len(preflight(config(), trainer, folder=str(tmp_path / "a" / "b"))) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("size", "words"), [(5, "5 bytes"), (1536, "1.5 KiB"), (20 * 2**20, "20 MiB"), (GIB, "1.0 GiB")]
)
def test_sizes_are_written_as_people_do(size, words):
    assert format_bytes(size) == words


@pytest.fixture
def account(monkeypatch, tmp_path):
    """Nobody is logged in; the service is not there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    sys.modules["wandb"].teardown() if "wandb" in sys.modules else None
    return monkeypatch


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, r"--tracker wandb: no login found\. Use `wandb login`"),
        ("short", r"--tracker wandb: .*API key.*--wandb-mode offline"),
        ("0" * 40, r"127\.0\.0\.1:9 cannot be reached: .*refused"),
    ],
)
def test_wandb_without_a_login_or_a_service_is_refused_before_anything_starts(account, key, said):
    if key is not None:
        account.setenv("WANDB_API_KEY", key)
    with pytest.raises(ConfigError, match=said):
        require_wandb(timeout=1.0)


def test_offline_nothing_is_asked(account, trainer):
    preflight(config(tracker="wandb", wandb_mode="offline"), trainer, folder=None)
    with pytest.raises(ConfigError, match="no login"):
        preflight(config(tracker="wandb"), trainer, folder=None)


def test_checkpoints_that_cannot_be_uploaded_are_said(trainer):
    elsewhere = config(tracker="wandb", wandb_artifacts=True)
    with pytest.raises(ConfigError, match=r"--wandb-artifacts: .* --checkpoint-dir gs://b/c is "):
        preflight(elsewhere, trainer, folder="gs://b/c")
    lines = preflight(config(wandb_artifacts=True), trainer, folder=None)
    assert lines[0] == "--wandb-artifacts: nothing is uploaded without --tracker wandb"
