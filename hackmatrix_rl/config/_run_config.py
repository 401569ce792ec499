"""The settings that every run has, whatever it learns by."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, Unpack, no_type_check

from hackmatrix_rl import agent, evaluation, training
from hackmatrix_rl import env as envs
from hackmatrix_rl.agent import networks
from hackmatrix_rl.agent import precision as formats
from hackmatrix_rl.agent.networks import REMAT
from hackmatrix_rl.config._members import MOST_MEMBERS, Members
from hackmatrix_rl.config._options import (
    HIDDEN,
    check_range,
    in_collecting,
    in_devices,
    in_learning,
    in_memory,
    in_network,
    in_run,
    in_watching,
    most,
    settings_of,
    typed,
)
from hackmatrix_rl.config._words import Words
from hackmatrix_rl.errors import ConfigError, as_given, flag, in_flags, refusing
from hackmatrix_rl.system import check_path
from hackmatrix_rl.training import sharding

if TYPE_CHECKING:
    import optax
    from jax.sharding import Mesh
    from jaxtyping import Array, Key


class Given(TypedDict):
    """What a run hands to the algorithm that a config builds."""

    mesh: "Mesh"
    """The devices that train."""
    precision: "formats.PrecisionPolicy"
    """Of the network."""
    value_scale: "agent.ValueScale | None"
    """The units of the network's value at the start."""


WEIGHTS = {"alike": True, "arrays": True}
"""Of fields that decide both what the weights mean and which arrays there are."""


@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class RunConfig(Members, ABC):
    """The settings that every run has. Each field is a flag and a key of a TOML file.

    A subclass adds the settings of an algorithm and its game, builds the `Algorithm`, and describes
    it.

    Attributes:
        begun_at: where the training stood when this stage began, in what its algorithm counts.
        then: the settings of the next stage, which starts from the weights of this one.
        algorithm: the name of the algorithm, as `--algorithm` takes it.
        command: the command that trains by it.
        summary: how it learns, in a few words for a help.
        counts: the name of the metric that measures progress towards the goal.
        goal_by: the setting that is the goal.
        presets: what each preset sets, by name.
        continued: what a device's preset also sets for a training that starts from the weights of
            another one (`--init`).
        greedy: whether the network's logits are Q-values, so that the likeliest action is played.
        loader: what loads an agent of its in Python.
        continues: whether it can start from the state that another algorithm has reached, as a
            later stage of a training.
        best_by: the metric by which the best of several trainings plays, the larger the better;
            `None`: there is none, and the first one plays.
        two_players: whether it trains players of a game of two, whom a person can play against.
        copies: arrays of the size of the parameters that a training holds on each device.
        panels: what the panels of a learning curve show: names of metrics, with labels. One that a
            run does not have is left out.
        synonyms: flags of this algorithm's command, by the flags of other commands.
        memory: the settings that decide how much memory an update takes, the first one most.
    """

    algorithm: ClassVar[str]
    command: ClassVar[str] = "train"
    summary: ClassVar[str]
    counts: ClassVar[str]
    goal_by: ClassVar[str] = "total_timesteps"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    continued: ClassVar[Mapping[str, Any]] = {}
    greedy: ClassVar[bool] = False
    continues: ClassVar[bool] = False
    loader: ClassVar[str] = "hm.load"
    best_by: ClassVar[str | None] = None
    two_players: ClassVar[bool] = False
    copies: ClassVar[int] = 3  # the optimizer holds two numbers for each parameter
    panels: ClassVar[tuple[tuple[str, str], ...]]
    synonyms: ClassVar[Mapping[str, str]] = {}
    memory: ClassVar[tuple[str, ...]] = ()

    # Of a training in stages (`[[stage]]`): what a run sets itself.
    begun_at: int = field(default=0, metadata=HIDDEN)
    then: "RunConfig | None" = field(default=None, metadata=HIDDEN)

    # The run
    seed: int = in_run(0, "Seed of all random numbers in the run.", minimum=0, maximum=2**32 - 1)
    seeds: int = in_run(
        1,
        "Trainings at once in one program, with the seeds from --seed on; steps are of each.",
        minimum=1,
        resume="all of its trainings continue",
        **most(MOST_MEMBERS, "a program has room for few more"),
    )
    deterministic: bool = in_run(
        False, "Make runs bitwise repeatable on this kind of device; slower."
    )
    device: str = in_run(
        "auto", "Kind of device to compute on.", choices=("auto", "cpu", "gpu", "tpu")
    )
    run_dir: str | None = in_run(
        None,
        "The run's folder; by default runs/ and the date, which is the run's id.",
        maximum=10_000,  # `check_path` knows what a path may be
    )
    checkpoint_dir: str | None = in_run(
        None, "Folder for checkpoints; by default checkpoints/ in the run's folder.", maximum=10_000
    )
    save_interval_minutes: float | None = in_run(
        10.0, "Minutes between checkpoints; none: save only at the start and at the end.", above=0
    )
    save_interval: int | None = in_run(
        None, "Updates between checkpoints, instead of minutes.", minimum=1
    )
    keep: int = in_run(
        3,
        "Number of checkpoints to keep: the newest ones.",
        minimum=1,
        **most(1_000_000, "each save looks through all of them"),
    )

    # Devices
    mesh: str = in_devices(
        "auto",
        "Devices that share the games: auto (all), data=8, or data=4,fsdp=2; fsdp also splits the "
        "learner.",
    )
    cpu_devices: int | None = in_devices(
        None,
        "Number of devices to split the CPU into; --mesh auto uses as many as pay.",
        minimum=1,
        **most(512, "they share the cores"),
    )

    # Collecting
    updates_per_dispatch: int = in_collecting(
        1, "Updates per call of the compiled program; metrics are logged once per call.", minimum=1
    )

    # The network
    network: str = in_network(
        "cells",
        "mlp, cells, conv, gru, lstm, mpn, residual, resnet, transformer, recursive, or "
        "my_module:factory.",
        **WEIGHTS,
    )
    width: int | None = in_network(
        None,
        "Width of the hidden layers; none: the network's default.",
        minimum=1,
        **most(65_536, "a layer would take more than 16 GiB"),
        **WEIGHTS,
    )
    depth: int | None = in_network(
        None,
        "Number of hidden layers or blocks; none: the network's default.",
        minimum=1,
        **most(1_000, "no deeper network is known to learn"),
        **WEIGHTS,
    )
    precision: str = in_network(
        "f32",
        "Number format to compute in: f32, bf16, f16 or a jmp policy; parameters stay float32.",
    )
    precision_parts: str | None = in_network(
        None,
        "Other formats for parts of the network: '.heads.value*=f32'; commas separate several.",
    )

    # Learning
    learning_rate: float | str = in_learning(
        1e-3, "Step size of Adam; a number or a schedule.", minimum=0
    )
    vary: str | None = in_learning(
        None,
        "Trainings at once with other settings, each with all --seeds: learning_rate=1e-4,3e-4.",
        resume="each of its trainings keeps its settings",
    )
    max_grad_norm: float = in_learning(
        0.5, "Scale gradients with a larger norm down to this norm.", above=0
    )
    ema: float | None = in_learning(
        None,
        "Evaluate and play an average of the weights with this decay, such as 0.999; none: the "
        "weights themselves.",
        above=0,
        resume="the average is part of its state",
        **most(0.9999999, "with 1 it would stay at the first weights"),
    )

    # Memory
    grad_accum: int = in_memory(
        1, "Accumulate each gradient over this many parts of the batch; saves memory.", minimum=1
    )
    remat: str = in_memory(
        "none",
        "Recompute in the backward pass instead of storing: nothing, blocks, or everything.",
        choices=REMAT,
    )
    offload_optimizer: bool = in_memory(
        False, "Keep the optimizer's state in the host's memory between gradient steps."
    )

    # Watching
    wandb: bool = in_watching(False, "Also log to Weights & Biases.")
    wandb_project: str = in_watching("hackmatrix-rl", "Project on Weights & Biases.")
    wandb_group: str | None = in_watching(
        None, "Group of the run there, such as the seeds of one experiment."
    )
    wandb_name: str | None = in_watching(None, "Name of the run there; none: its folder's name.")
    wandb_tags: str | None = in_watching(None, "Tags of the run there, separated by commas.")
    wandb_notes: str | None = in_watching(None, "A note on the run, shown there.", maximum=10_000)
    wandb_mode: str = in_watching(
        "online",
        "Send metrics at once, or store them in the run's folder for `wandb sync`.",
        choices=("online", "offline"),
    )
    wandb_artifacts: bool = in_watching(
        False, "Also upload checkpoints there; --resume-run wandb:ENTITY/PROJECT/RUN_ID."
    )
    wandb_members: bool = in_watching(
        False, "Of several trainings at once, log each as a run there, too, in one group."
    )
    metric_names: str = in_watching(
        "own",
        "Names and units of metrics on Weights & Biases: own, or the original project's.",
        choices=("own", "original"),
    )
    tensorboard: bool = in_watching(False, "Also write TensorBoard events into the run's folder.")
    stop_after_nonfinite: int | None = in_watching(
        20,
        "Stop after this many updates in a row with only NaN or infinity; none: only warn.",
        minimum=1,
    )
    stop_unhealthy_members: bool = in_watching(
        False, "Of several trainings at once, leave out one that must stop, and continue."
    )
    profile: int | None = in_watching(
        None,
        "Write a profiler trace of this many updates, after the first, into the run's folder.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        for each in settings_of(self):
            value = typed(each, getattr(self, each.name))
            object.__setattr__(self, each.name, value)
            if value is not None:
                check_range(each, value)
        self.check()

    def check(self) -> None:
        """Raises a ConfigError if settings cannot go together. Types and ranges are right."""
        for name in ("run_dir", "checkpoint_dir"):
            check_path(getattr(self, name), flag(name))
        with in_flags():
            sharding.parse_mesh(self.mesh)
        try:
            formats.parse_policy(self.precision)
        except ValueError as error:
            said = f"{error}" if str(error).endswith("?") else f"{error}."
            raise ConfigError(f"--precision {self.precision}: {said}") from error
        with refusing(f"--precision-parts {self.precision_parts}: "):
            computes = formats.precision(self.precision, self.precision_table)
        check_platform(computes, self.device)
        if self.learning_rate == 0:
            raise ConfigError("--learning-rate 0.0 is too small. Use more than 0.")
        self.check_members()

    @classmethod
    def of_preset(cls, preset: str, settings: Mapping[str, Any]) -> "RunConfig":
        """The preset of a name in `presets`, with some settings changed.

        Raises:
            ConfigError: a value cannot work.
        """
        return cls(**{**cls.preset_settings(preset, settings), **settings})

    @classmethod
    def preset_settings(cls, preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What a preset sets for a training with these other settings."""
        return dict(cls.presets[preset])

    @property
    @abstractmethod
    def goal(self) -> int:
        """The end of training, in the unit of `Algorithm.progress`."""

    @property
    @abstractmethod
    def batch(self) -> int:
        """Environment steps in one update."""

    @property
    @abstractmethod
    def at_once(self) -> int:
        """Environments that are computed at the same time: devices of a mesh must divide them."""

    @property
    def has_value(self) -> bool:
        """Whether the network has a value of a position, in addition to values of actions."""
        return True

    @property
    def one_device(self) -> bool:
        """Whether only one device can play the games."""
        return False

    @property
    def eager(self) -> bool:
        """Whether each operation runs alone (`Trainer(..., eager=True)`)."""
        return False

    @abstractmethod
    def shorten(self, updates: int) -> "RunConfig":
        """These settings, shortened to `updates` updates or few more, without an evaluation."""

    @classmethod
    @abstractmethod
    def game_identity(cls, settings: Mapping[str, Any]) -> "envs.GameIdentity":
        """The game in this version that stored settings, unchecked, are about."""

    @abstractmethod
    def spec(self) -> "envs.EnvSpec":
        """The spec of the environment."""

    @abstractmethod
    def policy(self, *, key: "Key[Array, '']", copies: int = 1) -> "networks.ActorCritic":
        """The network before training; `copies` is the number of parameter copies per device.

        Raises:
            ConfigError: there is no such network, it lacks what the settings ask for, or it does
                not fit into memory.
        """

    def initial_scale(self) -> "agent.ValueScale | None":
        """The units of the network's value before training; `None` if it has none."""
        return None

    @abstractmethod
    def build(
        self, policy: "networks.ActorCritic", *, trust_code: bool = False, **given: Unpack[Given]
    ) -> "training.Algorithm[Any]":
        """The algorithm, which starts from this network. Nothing is compiled yet.

        Args:
            policy: the network.
            trust_code: whether code that other runs name, such as a teacher's, may be imported.
            given: devices, precision and units of the value.

        Raises:
            ArgumentError: an argument of the algorithm cannot work; its name is a field's.
            ConfigError: a setting cannot work.
        """

    @abstractmethod
    def rate(self) -> "agent.Schedule":
        """The learning rate over what the algorithm counts."""

    def make_optimizer(self) -> "optax.GradientTransformation":
        """The optimizer; its changes are multiplied by `rate`."""
        return training.adam(self.max_grad_norm)

    def optimization(self, given: Given) -> "training.Optimization":
        """How the algorithm optimizes, on these devices and in this precision."""
        return training.Optimization(
            self.make_optimizer(),
            self.rate(),
            precision=given["precision"],
            grad_accum=self.grad_accum,
            remat=self.remat,
            offload_optimizer=self.offload_optimizer,
            ema=self.ema,
            mesh=given["mesh"],
        )

    def opponent(self, policy: "networks.ActorCritic") -> "evaluation.Opponent":
        """Who plays the game by a network.

        Raises:
            ConfigError: the game is not for two players (`two_players`).
        """
        raise ConfigError(f"--algorithm {self.algorithm}: it trains no player of a game of two.")

    def check_mesh(self, lengths: Mapping[str, int]) -> None:
        """Raises a ConfigError if the environments do not divide over a mesh of these lengths."""
        del lengths

    def check_changes(self, run: object, changes: Mapping[str, Any]) -> None:
        """Refuses changes of settings that would invalidate what a run has learned.

        Raises:
            ConfigError: one of them must stay. The message names its flag.
        """
        for each in settings_of(self):
            was, why = getattr(self, each.name), each.metadata["resume"]
            if why and changes.get(each.name, was) != was:
                given = as_given(each.name, changes[each.name])
                weights = "" if each.metadata["alike"] else f" from its weights: --init {run}"
                begin = f"begin a new run{weights if self.starts_from_weights else ''}"
                raise ConfigError(
                    f"{given}: the run {run} was trained with {as_given(each.name, was)}, and {why}"
                    f". Leave {flag(each.name)} out, or {begin}."
                )

    def check_algorithm(self, algorithm: "training.Algorithm[Any]", run: object) -> None:
        """Refuses to restore a state of these settings into another game.

        Raises:
            ConfigError: the algorithm's game is another one, although the arrays may fit.
        """
        del algorithm, run

    @property
    def starts_from_weights(self) -> bool:
        """Whether a training can start from the weights of another one (`--init`)."""
        return "init" in {each.name for each in settings_of(self)}

    def check_provable(self) -> None:
        """Raises a ConfigError if a resume cannot be the same bit for bit."""
        return

    def health(self) -> dict[str, Any]:
        """The limits of the health checks, as arguments of `Health`."""
        return {
            "stop_after_nonfinite": self.stop_after_nonfinite,
            "entropy_floor": None,
            "kl_alarm": None,
        }

    def hooks(self, folder: Any, sink: Any) -> "list[training.Hook]":
        """The hooks of this algorithm, in addition to every run's."""
        return []

    @abstractmethod
    def words(self, devices: int = 1) -> Words:
        """What a run on `devices` devices prints of this algorithm."""

    def judge(self, policy: "networks.ActorCritic") -> tuple[str, Mapping[str, Any]] | None:
        """What a trained network is worth, where no games say it: a line, and the numbers.

        The numbers are what the run's summary holds of it. By default `None`: games say it.
        """
        return None

    @property
    def precision_table(self) -> dict[str, str]:
        """`precision_parts` as a table from patterns to policies."""
        return {} if self.precision_parts is None else formats.parse_parts(self.precision_parts)

    def as_dict(self) -> dict[str, Any]:
        """Plain values by field name, as JSON and TOML can hold them, and the algorithm's name."""
        plain = {each.name: getattr(self, each.name) for each in settings_of(self)}
        begun = {"begun_at": self.begun_at} if self.begun_at else {}
        then = {"then": self.then.as_dict()} if self.then else {}
        return {"algorithm": self.algorithm, **plain, **begun, **then}

    @property
    def last_goal(self) -> int:
        """Where the last stage ends, up to whole updates."""
        then = self.then
        return self.goal if then is None else replace(then, begun_at=self.goal).last_goal

    @property
    def stages(self) -> "list[RunConfig]":
        """These settings, and the settings of each later stage."""
        return [self, *([] if self.then is None else self.then.stages)]


def check_platform(computes: "formats.PrecisionPolicy", platform: str) -> None:
    """Raises a ConfigError if a kind of device does not compute in a dtype of the policy."""
    if platform == "tpu" and isinstance(computes, formats.MixedPrecision) and computes.scales:
        raise ConfigError(
            "--precision (or --precision-parts) asks for f16, in which no TPU computes. Use "
            "--precision bf16 there, or --device gpu or cpu."
        )
