"""The settings of R2D2: its fields are its flags."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final, no_type_check

from hackmatrix_rl import agent
from hackmatrix_rl.agent import networks
from hackmatrix_rl.runs import config
from hackmatrix_rl.system.errors import ConfigError, in_flags

if TYPE_CHECKING:
    from hackmatrix_rl.algorithms.r2d2._learning import Sizes
    from hackmatrix_rl.algorithms.r2d2._r2d2 import R2D2

in_q = config.options_in("Q-learning")

# R2D2's batches are small, so an accelerator gets the same sizes as a CPU.
_REPLAYED: Mapping[str, Any] = {
    "total_timesteps": 4_000_000,
    "num_envs": 64,
    "network": "gru",
    "width": 64,
    "buffer_size": 131_072,
    "updates_per_dispatch": 64,
    "learning_rate": "linear:0.0003:0",
    "gamma": 0.997,
}
_UNITS = "its Q-values depend on it"


@final
@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class R2D2Config(config.TrainConfig):
    """The settings of a training by R2D2; see `PPOConfig`."""

    algorithm: ClassVar[str] = "r2d2"
    summary: ClassVar[str] = "Q-learning with sequence replay"
    greedy: ClassVar[bool] = True
    copies: ClassVar[int] = 4  # one of them is the target network
    memory: ClassVar[tuple[str, ...]] = ("buffer_size", "num_envs", "sequence_batch_size")
    steps_by: ClassVar[str] = "train_freq"
    elsewhere: ClassVar[Mapping[str, Any]] = {
        "total_timesteps": 200_000,
        "num_envs": 16,
        "buffer_size": 65_536,
        "updates_per_dispatch": 64,
        "learning_starts": 1_000,
        "network": "gru",
        "width": 64,
        "gamma": 0.99,
        "eval_episodes": 100,
    }
    panels: ClassVar[tuple[tuple[str, str], ...]] = (
        *config.TrainConfig.panels[:4],
        ("q_value", "mean Q-value (reward)"),
        ("q_loss", "loss of the Q-values"),
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cpu": {**config.CPU, **_REPLAYED},
        **{kind: {**config.ACCELERATOR, **_REPLAYED, "device": kind} for kind in ("gpu", "tpu")},
        "debug": {
            **config.DEBUG,
            "network": "gru",
            "buffer_size": 1024,
            "sequence_batch_size": 16,
            "sequence_length": 4,
            "learning_starts": 0,
        },
        # For any device.
        "fast": {**_REPLAYED, "cpu_devices": 2, "sequence_batch_size": 64, "train_freq": 4},
        "max": {**_REPLAYED, "cpu_devices": 2, "sequence_batch_size": 128, "train_freq": 8},
        "quality": {**_REPLAYED, "cpu_devices": 2, "sequence_batch_size": 32, "train_freq": 1},
    }

    # Q-learning
    buffer_size: int = in_q(
        524_288,
        "Capacity of the replay buffer in steps, over all games; rounded down to whole updates.",
        minimum=1,
    )
    sequence_length: int = in_q(10, "Steps of a replayed sequence after burn-in.", minimum=1)
    burn_in: int = in_q(
        0, "Steps before each sequence that only refresh the recurrent state.", minimum=0
    )
    sequence_batch_size: int = in_q(64, "Sequences in the batch of a gradient step.", minimum=1)
    train_freq: int = in_q(
        4, "Steps in each game per update: 1 is the most sample-efficient, 8 is fast.", minimum=1
    )
    train_steps: int = in_q(1, "Gradient steps per update.", minimum=1)
    learning_starts: int = in_q(
        10_000, "Environment steps before the first gradient step.", minimum=0
    )
    n_step: int = in_q(
        5, "Rewards in an n-step target before it bootstraps from the target network.", minimum=1
    )
    target_update: int = in_q(
        100, "Gradient steps between updates of the target network.", minimum=1
    )
    epsilon: float = in_q(
        0.4,
        "Epsilon of the most exploratory game; the least exploratory has its 8th power.",
        above=0,
        maximum=1,
    )
    dueling: bool = in_q(
        True,
        "Learn the value and the advantages separately (dueling heads).",
        resume=_UNITS,
        alike=True,
    )
    prioritized: bool = in_q(
        False, "Prioritized replay: sample sequences with large TD errors more often."
    )
    rescale_values: bool = in_q(
        True,
        "Learn Q-values under value rescaling, close to a square root of the reward.",
        resume=_UNITS,
        alike=True,
    )
    keep_buffer: bool = in_q(
        True,
        "Store the buffer in checkpoints; without it they are small, but resuming is not bitwise.",
    )

    @classmethod
    def preset_settings(cls, preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a preset, with the width of its network.

        In a memory task, a sequence is at least twice as long as the longest dependence.
        """
        chosen = super().preset_settings(preset, settings)
        env, arguments = settings.get("env", config.HACKMATRIX), settings.get("env_args")
        if preset != "debug" and (needed := config.dependence_of(env, arguments)) is not None:
            chosen["sequence_length"] = max(cls.sequence_length, 2 * needed)
        return config.without_width(chosen, settings if preset != "debug" else {})

    def check(self) -> None:
        super().check()
        if isinstance(self.gamma, str):
            raise ConfigError(
                f"--gamma {self.gamma}: --algorithm r2d2 needs a constant discount. Use a number, "
                "such as --gamma 0.997."
            )
        with in_flags():
            self.sizes()
        if self.learning_starts >= self.total_timesteps:
            raise ConfigError(
                f"--learning-starts {self.learning_starts} leaves nothing of --total-timesteps "
                f"{self.total_timesteps} to learn in. Use less."
            )

    def check_provable(self) -> None:
        """Also raises a ConfigError if checkpoints lack the buffer."""
        super().check_provable()
        if not self.keep_buffer:
            raise ConfigError(
                "--no-keep-buffer: a resumed run does not end in the same bits without the buffer. "
                "Leave it out."
            )

    def sizes(self) -> "Sizes":
        from hackmatrix_rl.algorithms.r2d2._learning import Sizes

        return Sizes(**{each.name: getattr(self, each.name) for each in fields(Sizes)})

    @property
    def at_once(self) -> int:
        """Number of blocks of games; each gives equally many sequences to a gradient step."""
        return self.sizes().in_blocks.number

    def initial_scale(self) -> "agent.ValueScale | None":
        """The normalization of the Q-values."""
        from hackmatrix_rl.algorithms.r2d2._q_values import ValueRescaling

        return ValueRescaling() if self.rescale_values else agent.IdentityScale()

    @property
    def has_value(self) -> bool:
        """Whether the value output of the network is used (`dueling`)."""
        return self.dueling

    def build(
        self,
        policy: "networks.ActorCritic",
        *,
        trust_code: bool = False,
        **given: Unpack[config.Given],
    ) -> "R2D2":
        from hackmatrix_rl.algorithms.r2d2._acting import EpsilonGreedy
        from hackmatrix_rl.algorithms.r2d2._buffer import Prioritized, Uniform
        from hackmatrix_rl.algorithms.r2d2._r2d2 import R2D2

        assert isinstance(self.gamma, float), "the config is checked"
        return R2D2(
            self.environment(),
            policy,
            gamma=self.gamma,
            dueling=self.dueling,
            sampling=Prioritized() if self.prioritized else Uniform(),
            explore=EpsilonGreedy(self.epsilon),
            keep_buffer=self.keep_buffer,
            **self.shared_arguments(given),
            **asdict(self.sizes()),
        )

    def words(self, devices: int = 1) -> config.Words:
        """The gradient steps and sequences of an update."""
        several = f"{self.train_steps} gradient steps"
        steps = "a gradient step" if self.train_steps == 1 else several
        before = f" after {self.burn_in} of burn-in" if self.burn_in else ""
        learning = (
            f"{steps} on {self.sequence_batch_size} sequences of {self.sequence_length} "
            f"actions{before}"
        )
        return config.Words(
            learning=learning,
            plan={"sequences": f"{learning}; of the newest {self.buffer_size:,} steps"},
            gradient_steps=f"{self.num_updates * self.train_steps:,} gradient steps at most",
        )
