"""The settings of a training run: one frozen dataclass. Flags and files follow from it."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, no_type_check

from hackmatrix_rl.agent.networks import REMAT, VALUE_HEADS
from hackmatrix_rl.agent.precision import parse_parts
from hackmatrix_rl.config._checks import check_together
from hackmatrix_rl.config._options import (
    check_range,
    most,
    option,
    typed,
)
from hackmatrix_rl.config._reward import parse_reward, reward_text
from hackmatrix_rl.game import LEAGUES, GameConfig, RewardConfig
from hackmatrix_rl.training.sharding import AUTO

DEFAULT_MINIBATCHES = 8
ALGORITHMS = ("ppo", "imitation")
"""What a run may learn by."""
MOST_EPISODES = 10_000_000
KEPT = most(1_000_000, "each save looks through all of them")
TURNS = most(65_536, "no game has so many turns")
CAPACITY = most(GameConfig.MAX_CAPACITY, "WARP numbers enemies and transmissions in 7 bits")


@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that decides a training run. Each field is a flag and a key of a TOML file.

    Each field explains itself in its help text. `None` switches a field off that may be `None`
    (`none` on the command line).

    Raises:
        ConfigError: if a value cannot work, before anything is compiled.
    """

    # The run
    total_timesteps: int = option(
        24_000_000,
        "Run",
        "Actions to train on, over all games; rounded up to whole updates.",
        minimum=1,
        **most(2**63 - 1, "steps are counted in 64 bits"),
    )
    seed: int = option(
        0, "Run", "Seed of all random numbers in the run.", minimum=0, maximum=2**32 - 1
    )
    deterministic: bool = option(
        False, "Run", "Make runs repeat bit for bit on this kind of device; slower."
    )
    device: str = option(
        "auto", "Run", "Kind of device to compute on.", choices=("auto", "cpu", "gpu", "tpu")
    )
    run_dir: str | None = option(
        None, "Run", "The run's folder; by default runs/ and the date, which is the run's id."
    )
    checkpoint_dir: str | None = option(
        None, "Run", "Folder for checkpoints; by default checkpoints/ in the run's folder."
    )
    save_interval_minutes: float | None = option(
        10.0, "Run", "Minutes between checkpoints; none: save only at the end.", above=0
    )
    save_interval: int | None = option(
        None, "Run", "Updates between checkpoints, instead of minutes.", minimum=1
    )
    keep: int = option(
        3, "Run", "Number of checkpoints to keep: the newest ones.", minimum=1, **KEPT
    )
    keep_best: bool = option(
        False, "Run", "Also keep the checkpoint whose mean return was highest."
    )
    eval_episodes: int = option(
        1000,
        "Run",
        "Games that each policy plays for the summary at the end; 0: no summary.",
        minimum=0,
        **most(MOST_EPISODES, "more say nothing new"),
    )
    eval_interval: int = option(
        0,
        "Run",
        "Updates between evaluations during training, on separate games; 0: none.",
        minimum=0,
    )
    eval_interval_episodes: int = option(
        100,
        "Run",
        "Games in each of these evaluations.",
        minimum=1,
        **most(MOST_EPISODES, "more say nothing new"),
    )
    replays: int = option(
        20,
        "Run",
        "Replays of evaluation games to keep in the run's folder: the newest ones; 0: none.",
        minimum=0,
        **most(10_000, "nobody watches more"),
    )

    # The game
    max_steps: int | None = option(
        1000,
        "Game",
        "Truncate an episode after this many actions; none: never.",
        minimum=1,
    )
    max_enemies: int = option(
        GameConfig.max_enemies,
        "Game",
        "Most enemies in a game at once; further spawns are dropped and counted.",
        minimum=1,
        **CAPACITY,
    )
    max_transmissions: int = option(
        GameConfig.max_transmissions,
        "Game",
        "Most transmissions in a game at once; further ones are dropped and counted.",
        minimum=1,
        **CAPACITY,
    )
    history: int = option(
        GameConfig.history, "Game", "Turns that UNDO can take back.", minimum=1, **TURNS
    )
    league: str = option(
        "original",
        "Game",
        "original: UNDO reaches across stages, as in the original game; no-rewind: a new stage "
        "clears the history.",
        choices=LEAGUES,
    )
    frontier_share: float = option(
        0.0,
        "Game",
        "Share of games that begin at rarely reached positions of the agent's own play; 0: none.",
        minimum=0,
        maximum=0.9,
    )
    reward: str | None = option(
        None,
        "Game",
        "Weights of the reward's terms to learn from: victory=0.1,score_gain=0; 1 if not named.",
    )

    observation: str = option(
        "compact",
        "Game",
        "compact: the screen; tactical: also what a player remembers, with distances, threats and "
        "what a siphon takes.",
        choices=("compact", "tactical"),
    )

    # Devices
    mesh: str = option(
        AUTO,
        "Devices",
        "Devices that share the games: auto (all), data=8, or data=4,fsdp=2; fsdp also splits the "
        "learner.",
    )

    cpu_devices: int | None = option(
        None,
        "Devices",
        "Number of devices to split the CPU into; --mesh auto uses as many as divide the games.",
        minimum=1,
        **most(512, "they share the cores"),
    )

    # Collecting
    num_envs: int = option(1024, "Collecting", "Games played in parallel.", minimum=1)
    num_steps: int = option(32, "Collecting", "Actions in each game for one update.", minimum=1)
    updates_per_dispatch: int = option(
        1,
        "Collecting",
        "Updates per call of the compiled program; metrics are logged once per call.",
        minimum=1,
    )

    # The network
    network: str = option(
        "cells",
        "Network",
        "mlp, cells, conv, gru, residual, resnet, transformer, or my_module:factory for your own.",
    )
    width: int | None = option(
        None,
        "Network",
        "Width of the hidden layers; none: the network's default.",
        minimum=1,
        **most(65_536, "a layer would take more than 16 GiB"),
    )
    depth: int | None = option(
        None,
        "Network",
        "Number of hidden layers or blocks; none: the network's default.",
        minimum=1,
        **most(1_000, "no deeper network is known to learn"),
    )
    precision: str = option(
        "f32",
        "Network",
        "Number format to compute in: f32, bf16, f16 or a jmp policy; parameters stay float32.",
    )
    precision_parts: str | None = option(
        None,
        "Network",
        "Other formats for parts of the network: '.heads.value*=f32'; commas separate several.",
    )

    # Learning. Numbers that may be schedules: `0.5`, `linear:0.5:0`, `cosine:0.5:0@0.3`.
    algorithm: str = option(
        "ppo",
        "Learning",
        "Learn from rewards (ppo), or from a teacher (imitation; train's own choice on a CPU).",
        choices=ALGORITHMS,
    )
    init: str | None = option(
        None,
        "Learning",
        "Start from the weights of this run or checkpoint of the same network; none: random ones.",
    )
    learning_rate: float | str = option(
        1e-3, "Learning", "Step size of Adam; a number or a schedule.", minimum=0
    )
    learning_rate_schedule: str = option(
        "linear",
        "Learning",
        "Keep a learning rate that is a number constant, or lower it to 0 over the run.",
        choices=("constant", "linear"),
    )
    update_epochs: int = option(
        2,
        "Learning",
        "Passes over the collected actions in each update.",
        minimum=1,
        **most(10_000, "more passes over the same games teach nothing"),
    )
    num_minibatches: int | None = option(
        None,
        "Learning",
        "Minibatches in each pass, split by games; 8 unless --minibatch-size is given.",
        minimum=1,
    )
    minibatch_size: int | None = option(
        None,
        "Learning",
        "Actions in each minibatch, instead of the number of minibatches.",
        minimum=1,
    )
    gamma: float | str = option(
        0.99,
        "Learning",
        "Discount factor of rewards, per action; also a schedule: linear:0.997:0.9995.",
        minimum=0,
        maximum=1,
    )
    gae_lambda: float = option(
        0.95,
        "Learning",
        "Lambda of GAE: 0 trusts the value network, 1 trusts the returns.",
        minimum=0,
        maximum=1,
    )
    clip_coef: float = option(
        0.2, "Learning", "Clip the probability ratio to 1 plus or minus this.", above=0
    )
    value_clip: float | None = option(
        None,
        "Learning",
        "Clip changes of the value to plus or minus this; none: no clipping.",
        above=0,
    )
    value_scale: str = option(
        "standard",
        "Learning",
        "Units of the value network: standardized returns, compressed and standardized, or plain.",
        choices=("standard", "compressed", "none"),
    )
    value_head: str = option(
        "scalar",
        "Learning",
        "How the value learns: by squared errors, or by cross-entropy over bins.",
        choices=VALUE_HEADS,
    )
    vf_coef: float = option(0.5, "Learning", "Weight of the value loss.", minimum=0)
    ent_coef: float | str = option(
        0.05,
        "Learning",
        "Weight of the entropy bonus, which keeps the policy exploring; a number or a schedule.",
        minimum=0,
    )
    teacher_kl: float | str = option(
        0.0,
        "Learning",
        "Weight of the KL to the policy of --init: linear:0.5:0@0.3 fades in 0.3 of the run.",
        minimum=0,
    )
    critic_warmup_timesteps: int = option(
        0,
        "Learning",
        "Actions at the start from which only the value head learns.",
        minimum=0,
        **most(2**63 - 1, "steps are counted in 64 bits"),
    )
    normalize_advantage: bool = option(
        True,
        "Learning",
        "Scale the advantages of each minibatch to mean 0 and standard deviation 1.",
    )
    aux_coefficient: float = option(
        0.0,
        "Learning",
        "Weight of the auxiliary loss: predict the parts of the next reward, and death; 0: off.",
        minimum=0,
    )
    aux_every: int = option(
        1, "Learning", "Compute the auxiliary loss only on every N-th minibatch.", minimum=1
    )
    aux_victory: bool = option(
        False,
        "Learning",
        "The auxiliary loss also predicts whether the game will be won; watch shows it.",
    )
    max_grad_norm: float = option(
        0.5, "Learning", "Scale gradients with a larger norm down to this norm.", above=0
    )
    target_kl: float | None = option(
        None,
        "Learning",
        "End an update early once its KL from the old policy exceeds this; none: never.",
        above=0,
    )

    # Imitation
    teacher: str | None = option(
        None, "Imitation", "Player to learn from: a script, a run or a checkpoint."
    )
    teacher_games: float | str = option(
        "linear:1.0:0.0@0.5",
        "Imitation",
        "Share of the games that the teacher plays, and not the student; a number or a schedule.",
        minimum=0,
        maximum=1,
    )
    random_actions: float = option(
        0.02,
        "Imitation",
        "Share of random actions, which lead to more varied positions.",
        minimum=0,
        maximum=1,
    )
    buffer_size: int = option(
        524_288,
        "Imitation",
        "Newest labelled positions to learn from, over all games; rounded down to whole updates.",
        minimum=1,
    )
    symmetries: bool = option(
        True, "Imitation", "Turn and mirror the labelled positions at random."
    )
    program_weight: float = option(
        1.0,
        "Imitation",
        "Weight of a siphon or a program in the loss, beside 1 of a move.",
        above=0,
    )

    # Memory
    grad_accum: int = option(
        1,
        "Memory",
        "Split each minibatch into this many parts and add up their gradients; saves memory.",
        minimum=1,
    )
    remat: str = option(
        "none",
        "Memory",
        "What the backward pass computes again instead of storing it: nothing, blocks, or all.",
        choices=REMAT,
    )
    offload_optimizer: bool = option(
        False, "Memory", "Keep the optimizer's state in the host's memory between gradient steps."
    )

    # Watching
    wandb: bool = option(False, "Watching", "Also log to Weights & Biases.")
    wandb_project: str = option("hackmatrix-rl", "Watching", "Project on Weights & Biases.")
    wandb_group: str | None = option(
        None, "Watching", "Group of the run there, such as the seeds of one experiment."
    )
    wandb_name: str | None = option(
        None, "Watching", "Name of the run there; none: that of its folder."
    )
    wandb_tags: str | None = option(None, "Watching", "Tags of the run there, between commas.")
    wandb_notes: str | None = option(None, "Watching", "A note on the run, shown beside it there.")
    wandb_mode: str = option(
        "online",
        "Watching",
        "Send metrics at once, or store them in the run's folder for `wandb sync`.",
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
        "Stop after this many updates in a row with only NaN or infinity; none: only warn.",
        minimum=1,
    )
    entropy_floor: float | None = option(
        0.02,
        "Watching",
        "Warn if the policy's entropy (nats) stays lower for ten updates; none: never.",
        above=0,
    )
    kl_alarm: float | None = option(
        0.2,
        "Watching",
        "Warn if an update moves the policy further (KL, in nats); none: never.",
        above=0,
    )
    stop_after_kl: int | None = option(
        None,
        "Watching",
        "Stop after this many updates in a row beyond --kl-alarm; none: only warn.",
        minimum=1,
    )
    debug: str | None = option(
        None,
        "Watching",
        "Find NaN (nans), also bad indices and divisions (checks), or compile nothing (nojit).",
        choices=("nans", "checks", "nojit"),
    )
    profile: int | None = option(
        None,
        "Watching",
        "Write a profiler trace of this many updates, after the first, into the run's folder.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = typed(each, getattr(self, each.name))
            object.__setattr__(self, each.name, value)
            if value is not None:
                check_range(each, value)
        object.__setattr__(self, "reward", reward_text(parse_reward(self.reward)))
        check_together(self)

    @property
    def batch(self) -> int:
        """Environment steps in one update."""
        return self.num_envs * self.num_steps

    @property
    def minibatches(self) -> int:
        """Number of minibatches in a pass, whichever field sets it."""
        if self.minibatch_size is not None:
            return self.batch // self.minibatch_size
        return DEFAULT_MINIBATCHES if self.num_minibatches is None else self.num_minibatches

    @property
    def num_updates(self) -> int:
        """Number of whole updates that reach `total_timesteps`."""
        return math.ceil(self.total_timesteps / self.batch)

    @property
    def precision_table(self) -> dict[str, str]:
        """`precision_parts` as a table from patterns to policies."""
        return {} if self.precision_parts is None else parse_parts(self.precision_parts)

    @property
    def reward_config(self) -> RewardConfig:
        """The weights that `reward` says."""
        return parse_reward(self.reward)

    def game(self) -> GameConfig:
        """The game's sizes and league."""
        return GameConfig(
            max_enemies=self.max_enemies,
            max_transmissions=self.max_transmissions,
            history=self.history,
            rewind_across_stages=self.league == "original",
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values by field name, as JSON and TOML can hold them."""
        return dataclasses.asdict(self)
