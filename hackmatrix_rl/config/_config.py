"""What a training run is made with: one frozen dataclass, from which flags and files follow."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, no_type_check

from hackmatrix_rl.agent.networks import REMAT
from hackmatrix_rl.agent.precision import parse_parts
from hackmatrix_rl.config._checks import check_together
from hackmatrix_rl.config._options import (
    check_range,
    most,
    option,
    typed,
)
from hackmatrix_rl.game import GameConfig
from hackmatrix_rl.training.sharding import AUTO

DEFAULT_MINIBATCHES = 8
MOST_EPISODES = 10_000_000
KEPT = most(1_000_000, "each save looks through all of them")
TURNS = most(65_536, "no game lasts for so many turns")
CAPACITY = most(GameConfig.MAX_CAPACITY, "WARP numbers enemies and transmissions in 7 bits")


@no_type_check  # at run time, that is: it checks its own types, with messages for users
@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that decides a training run. Each field is a flag and a key of a TOML file.

    The explanation of each field stands beside it. Fields that may be `None` are switched off
    by it (`none` on the command line).

    Raises:
        ConfigError: if a value cannot work, before anything is compiled.
    """

    # The run
    total_timesteps: int = option(
        24_000_000,
        "Run",
        "Actions to train on, over all games; whole updates are done.",
        minimum=1,
        **most(2**63 - 1, "steps are counted in 64 bits"),
    )
    seed: int = option(
        0, "Run", "Seed of everything random in the run.", minimum=0, maximum=2**32 - 1
    )
    deterministic: bool = option(
        False, "Run", "Set what makes runs repeat bit for bit on this kind of device; costs speed."
    )
    device: str = option("auto", "Run", "Where to compute.", choices=("auto", "cpu", "gpu", "tpu"))
    run_dir: str | None = option(
        None, "Run", "The run's own folder; by default runs/ and a dated name, the run's id."
    )
    checkpoint_dir: str | None = option(
        None, "Run", "Where checkpoints go; by default checkpoints/ in the run's folder."
    )
    save_interval_minutes: float | None = option(
        10.0, "Run", "Minutes between checkpoints; none saves at the end alone.", above=0
    )
    save_interval: int | None = option(
        None, "Run", "Updates between checkpoints, in place of minutes.", minimum=1
    )
    keep: int = option(3, "Run", "How many of the newest checkpoints are kept.", minimum=1, **KEPT)
    keep_best: bool = option(
        False, "Run", "Also keep the checkpoint before which the mean return was highest."
    )
    eval_episodes: int = option(
        1000,
        "Run",
        "Games for the summary at the end, for each policy in it; 0 skips it.",
        minimum=0,
        **most(MOST_EPISODES, "more say nothing new"),
    )

    # The game
    max_steps: int | None = option(
        1000,
        "Game",
        "Cut an episode after so many actions (truncation); none lets it run.",
        minimum=1,
    )
    max_enemies: int = option(
        GameConfig.max_enemies,
        "Game",
        "Room for enemies in a game; spawns beyond are dropped and counted.",
        minimum=1,
        **CAPACITY,
    )
    max_transmissions: int = option(
        GameConfig.max_transmissions,
        "Game",
        "Room for transmissions in a game, likewise.",
        minimum=1,
        **CAPACITY,
    )
    history: int = option(
        GameConfig.history, "Game", "Turns that UNDO can take back.", minimum=1, **TURNS
    )

    # Devices
    mesh: str = option(
        AUTO,
        "Devices",
        "Devices that share the games: auto (all), data=8, or data=4,fsdp=2, which cuts the "
        "learner in two.",
    )

    cpu_devices: int | None = option(
        None,
        "Devices",
        "Devices that a CPU counts as, sharing its cores; auto takes those that games divide over.",
        minimum=1,
        **most(512, "they share the cores"),
    )

    # Collecting
    num_envs: int = option(1024, "Collecting", "Games played side by side.", minimum=1)
    num_steps: int = option(
        32, "Collecting", "Actions in each game between two updates.", minimum=1
    )
    updates_per_dispatch: int = option(
        1,
        "Collecting",
        "Updates done by one call of the compiled program; metrics are logged once for each call.",
        minimum=1,
    )

    # The network
    network: str = option(
        "cells",
        "Network",
        "mlp, cells, conv, gru, residual, or my_module:factory for one of your own.",
    )
    width: int | None = option(
        None,
        "Network",
        "Width of its hidden layers; none is the network's own.",
        minimum=1,
        **most(65_536, "a layer would take more than 16 GiB"),
    )
    depth: int | None = option(
        None,
        "Network",
        "Number of its hidden layers, or blocks; none is the network's own.",
        minimum=1,
        **most(1_000, "no deeper network is known to learn"),
    )
    precision: str = option(
        "f32",
        "Network",
        "Number format to compute in: f32, bf16, f16 or a policy of jmp; parameters stay float32.",
    )
    precision_parts: str | None = option(
        None,
        "Network",
        "Other formats for parts of it, by patterns of paths: '.heads.value*=f32', with commas.",
    )

    # Learning
    learning_rate: float = option(1e-3, "Learning", "Step size of Adam.", above=0)
    learning_rate_schedule: str = option(
        "linear",
        "Learning",
        "Hold the step size, or lower it to 0 over the run.",
        choices=("constant", "linear"),
    )
    update_epochs: int = option(
        2,
        "Learning",
        "Passes over what was collected in an update.",
        minimum=1,
        **most(10_000, "more passes over the same games teach nothing"),
    )
    num_minibatches: int | None = option(
        None,
        "Learning",
        "Parts that each pass is cut into, by games; 8, unless --minibatch-size says.",
        minimum=1,
    )
    minibatch_size: int | None = option(
        None,
        "Learning",
        "Actions in such a part, instead: a larger batch has more parts.",
        minimum=1,
    )
    gamma: float = option(
        0.99, "Learning", "What a reward one step later is worth (gamma).", minimum=0, maximum=1
    )
    gae_lambda: float = option(
        0.95,
        "Learning",
        "Trust in returns over the value network: lambda of GAE.",
        minimum=0,
        maximum=1,
    )
    clip_coef: float = option(
        0.2, "Learning", "How far the probability ratio may move before it is clipped.", above=0
    )
    value_clip: float | None = option(
        None, "Learning", "Clip changes of the value likewise; none does not.", above=0
    )
    value_scale: str = option(
        "standard",
        "Learning",
        "Units of the value network: standardised returns, compressed and "
        "then standardised, or as they are.",
        choices=("standard", "compressed", "none"),
    )
    vf_coef: float = option(0.5, "Learning", "Weight of the value loss.", minimum=0)
    ent_coef: float = option(
        0.05, "Learning", "Weight of the entropy bonus, which keeps the policy trying.", minimum=0
    )
    normalize_advantage: bool = option(
        True, "Learning", "Bring the advantages of each minibatch to mean 0, deviation 1."
    )
    aux_coefficient: float = option(
        0.0,
        "Learning",
        "Weight of predicting each part of the next reward, and death; 0 does without.",
        minimum=0,
    )
    aux_every: int = option(1, "Learning", "Do so at every so-manieth minibatch alone.", minimum=1)
    max_grad_norm: float = option(
        0.5, "Learning", "Longer gradients are shortened to this norm.", above=0
    )
    target_kl: float | None = option(
        None,
        "Learning",
        "Skip the rest of an update once the policy moved so far; none never does.",
        above=0,
    )

    # Memory
    grad_accum: int = option(
        1,
        "Memory",
        "Parts of a minibatch that are learned from one after another, to the same result.",
        minimum=1,
    )
    remat: str = option(
        "none",
        "Memory",
        "What the backward pass computes again instead of keeping it: inside of blocks, or all.",
        choices=REMAT,
    )
    offload_optimizer: bool = option(
        False, "Memory", "Keep the optimizer's state in the host's memory between gradient steps."
    )

    # Watching
    wandb: bool = option(False, "Watching", "Also log to Weights & Biases.")
    wandb_project: str = option("hackmatrix-rl", "Watching", "Project there.")
    wandb_mode: str = option(
        "online",
        "Watching",
        "Send at once, or keep in the run's folder for `wandb sync`.",
        choices=("online", "offline"),
    )
    tensorboard: bool = option(
        False,
        "Watching",
        "Also write TensorBoard events into the run's folder.",
    )
    stop_after_nonfinite: int | None = option(
        20,
        "Watching",
        "Stop after so many updates in a row with nothing but NaN or infinity; none warns alone.",
        minimum=1,
    )
    entropy_floor: float | None = option(
        0.02,
        "Watching",
        "Warn while the policy's entropy (nats) is lower, ten updates in a row; none never does.",
        above=0,
    )
    kl_alarm: float | None = option(
        0.2, "Watching", "Warn when an update moves the policy further; none never does.", above=0
    )
    stop_after_kl: int | None = option(
        None,
        "Watching",
        "Stop after so many updates in a row beyond --kl-alarm; none warns alone.",
        minimum=1,
    )
    debug: str | None = option(
        None,
        "Watching",
        "Find NaN (nans), bad indices and divisions too (checks), or compile nothing (nojit).",
        choices=("nans", "checks", "nojit"),
    )
    profile: int | None = option(
        None,
        "Watching",
        "Write a profiler trace of so many updates, after the first, into the run's folder.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = typed(each, getattr(self, each.name))
            object.__setattr__(self, each.name, value)
            if value is not None:
                check_range(each, value)
        check_together(self)

    @property
    def batch(self) -> int:
        """Environment steps in one update."""
        return self.num_envs * self.num_steps

    @property
    def minibatches(self) -> int:
        """Parts that each pass over a batch is cut into, however that was said."""
        if self.minibatch_size is not None:
            return self.batch // self.minibatch_size
        return DEFAULT_MINIBATCHES if self.num_minibatches is None else self.num_minibatches

    @property
    def num_updates(self) -> int:
        """Whole updates that reach `total_timesteps`."""
        return math.ceil(self.total_timesteps / self.batch)

    @property
    def precision_table(self) -> dict[str, str]:
        """`precision_parts` as a table from patterns to policies."""
        return {} if self.precision_parts is None else parse_parts(self.precision_parts)

    def game(self) -> GameConfig:
        """The game's static sizes."""
        return GameConfig(
            max_enemies=self.max_enemies,
            max_transmissions=self.max_transmissions,
            history=self.history,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values by field name, as JSON and TOML can hold them."""
        return dataclasses.asdict(self)
