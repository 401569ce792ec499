"""The fields of a training on HackMatrix. Flags and files follow from them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import no_type_check

from hackmatrix_rl.agent.networks import REMAT, VALUE_HEADS
from hackmatrix_rl.algorithms.r2d2 import Sizes
from hackmatrix_rl.config._algorithms import ALGORITHMS, FROM_REWARDS, FROM_SEQUENCES
from hackmatrix_rl.config._options import most, option
from hackmatrix_rl.config._replay_config import ReplayConfig
from hackmatrix_rl.config._reward import parse_reward
from hackmatrix_rl.config._run_config import RunConfig
from hackmatrix_rl.game import LEAGUES, GameConfig, RewardConfig

DEFAULT_MINIBATCHES = 8
MOST_EPISODES = 10_000_000
TURNS = most(65_536, "no game has so many turns")
CAPACITY = most(GameConfig.MAX_CAPACITY, "WARP numbers enemies and transmissions in 7 bits")


@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class TrainFields(ReplayConfig, RunConfig):
    """The settings of a training on HackMatrix and what follows from them, without their checks."""

    # The run
    total_timesteps: int = option(
        24_000_000,
        "Run",
        "Actions to train on, over all games; rounded up to whole updates.",
        minimum=1,
        **most(2**63 - 1, "steps are counted in 64 bits"),
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

    # Collecting
    num_envs: int = option(1024, "Collecting", "Games played in parallel.", minimum=1)
    num_steps: int = option(32, "Collecting", "Actions in each game for one update.", minimum=1)

    # The network

    # Learning. Numbers that may be schedules: `0.5`, `linear:0.5:0`, `cosine:0.5:0@0.3`.
    algorithm: str = option(
        FROM_REWARDS,
        "Learning",
        "ppo: from rewards; imitation: from a teacher; r2d2: Q-learning.",
        choices=ALGORITHMS,
        chosen="imitation, unless the preset or a flag that only another has says otherwise",
        because="Self-play has a command of its own: hackmatrix-rl selfplay",
    )
    init: str | None = option(
        None,
        "Learning",
        "Start from the weights of this run or checkpoint of the same network; none: random ones.",
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
    target_kl: float | None = option(
        None,
        "Learning",
        "End an update early once its KL from the old policy exceeds this; none: never.",
        above=0,
    )

    # Imitation
    teacher: str | None = option(
        None,
        "Imitation",
        'Player to learn from: a script, expert, pretrained, "search(expert, 30)", a run or a '
        "checkpoint.",
    )
    teacher_search: int | None = option(
        None,
        "Imitation",
        "Actions that a teacher with a network tries out for a move, in a tree search; none: none.",
        minimum=1,
    )
    soft_labels: bool = option(
        False,
        "Imitation",
        "Learn the teacher's probabilities of all actions, instead of the action that it takes.",
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
        "Newest positions to learn from, over all games, in whole updates; also of Q-learning.",
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
        "Cut each gradient step's batch into this many parts, one after another; saves memory.",
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

    @property
    def goal(self) -> int:
        """Environment steps to reach."""
        return self.total_timesteps

    @property
    def counts(self) -> str:
        """Environment steps."""
        return "env_steps"

    @property
    def label(self) -> Mapping[str, str]:
        """None: the field `algorithm` says it."""
        return {}

    @property
    def batch(self) -> int:
        """Environment steps in one update."""
        return self.num_envs * self.steps_of_each

    @property
    def steps_of_each(self) -> int:
        """Steps of each game in one update."""
        return self.train_freq if self.algorithm == FROM_SEQUENCES else self.num_steps

    def lasting(self, updates: int) -> "TrainFields":
        """These settings for a run of so many updates, without a summary."""
        return replace(self, total_timesteps=updates * self.batch, eval_episodes=0)

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

    def replay_sizes(self) -> Sizes:
        """The sizes of an update of Q-learning."""
        return Sizes(
            num_envs=self.num_envs,
            train_freq=self.train_freq,
            buffer_size=self.buffer_size,
            sequence_length=self.sequence_length,
            burn_in=self.burn_in,
            n_step=self.n_step,
            sequence_batch_size=self.sequence_batch_size,
            train_steps=self.train_steps,
            grad_accum=self.grad_accum,
            learning_starts=self.learning_starts,
            target_update=self.target_update,
        )

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
