"""The settings of every run, with any algorithm."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, no_type_check

from hackmatrix_rl import agent, evaluation, training
from hackmatrix_rl import env as envs
from hackmatrix_rl.agent import networks
from hackmatrix_rl.agent import precision as formats
from hackmatrix_rl.runs.config._device_games import DeviceGames
from hackmatrix_rl.runs.config._members import Members
from hackmatrix_rl.runs.config._options import HIDDEN, check_each, settings_of
from hackmatrix_rl.runs.config._precision import check_platform, precision_of
from hackmatrix_rl.runs.config._run_fields import TRACKERS
from hackmatrix_rl.runs.config._texts import bounds_of
from hackmatrix_rl.runs.config._traits import Words
from hackmatrix_rl.system import check_path
from hackmatrix_rl.system.errors import ConfigError, as_given, flag, in_flags, shortened
from hackmatrix_rl.training import sharding

if TYPE_CHECKING:
    import optax
    from jax.sharding import Mesh
    from jaxtyping import Array, Key


class Given(TypedDict):
    """Arguments of `RunConfig.build` that depend on the machine or on stored weights."""

    mesh: "Mesh"
    precision: "formats.PrecisionPolicy"
    value_scale: "agent.ValueScale | None"
    """The initial value scale."""


@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class RunConfig(Members, ABC):
    """The settings of every run. Each field is a flag and a key of a TOML file.

    A subclass adds the settings of an algorithm and its game, builds the `Algorithm`, and describes
    it.

    Attributes:
        begun_at: the progress of the training at the start of this stage (`Algorithm.progress`).
        then: the settings of the next stage, which starts from the weights of this one.
    """

    # A run sets these itself, for a training in stages (`[[stage]]`).
    begun_at: int = field(default=0, metadata=HIDDEN)
    then: "RunConfig | None" = field(default=None, metadata=HIDDEN)

    def __post_init__(self) -> None:
        check_each(self)
        self.check()

    def check(self) -> None:
        """Raises a ConfigError if settings are incompatible. Their types and ranges are valid."""
        for name in ("run_dir", "checkpoint_dir"):
            check_path(getattr(self, name), flag(name))
        self._read_trackers()
        with in_flags():
            sharding.parse_mesh(self.mesh)
        check_platform(precision_of(self), self.device)
        if not any(bounds_of(self.learning_rate)):
            raise ConfigError(
                f"--learning-rate {self.learning_rate} is too small. Use more than 0."
            )
        self.optimizer_settings()
        self.check_members()

    def _read_trackers(self) -> None:
        """Puts `tracker` in order, with the retired `tensorboard` and `wandb` in it."""
        named = {name.strip() for name in (self.tracker or "").split(",")} - {""}
        for name in sorted(named.difference(TRACKERS)):
            raise ConfigError(
                f"--tracker {shortened(name)}: unknown. Use {', '.join(TRACKERS)}, or several of "
                "them separated by commas."
            )
        for name in ("tensorboard", "wandb"):
            if (given := getattr(self, name)) is not None:
                named = named | {name} if given else named - {name}
            object.__setattr__(self, name, None)
        chosen = ",".join(name for name in TRACKERS if name in named)
        object.__setattr__(self, "tracker", chosen or None)

    @property
    def trackers(self) -> tuple[str, ...]:
        """The trackers that get its metrics."""
        return tuple(self.tracker.split(",")) if self.tracker else ()

    @classmethod
    def of_preset(
        cls, preset: str, settings: Mapping[str, Any], room: DeviceGames | None = None
    ) -> "RunConfig":
        """A preset with some settings changed.

        Args:
            preset: a name in `presets`.
            settings: the settings that override it.
            room: the games of the devices, for `sized_presets`; `None` if they are not known.

        Raises:
            ConfigError: a value cannot work.
        """
        del room
        return cls(**{**cls.preset_settings(preset, settings), **settings})

    @classmethod
    def preset_settings(cls, preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a preset for a training with these other settings."""
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
        """Environments computed in parallel; the devices of a mesh must divide them."""

    @property
    def has_value(self) -> bool:
        """Whether the network has a state value, in addition to values of actions."""
        return True

    @property
    def one_device(self) -> bool:
        """Whether all games must be played on one device."""
        return False

    @property
    def eager(self) -> bool:
        """Whether the training runs without `jit` (`Trainer(..., eager=True)`)."""
        return False

    @abstractmethod
    def shorten(self, updates: int) -> "RunConfig":
        """These settings, shortened to about `updates` updates, without an evaluation."""

    @classmethod
    @abstractmethod
    def game_identity(cls, settings: Mapping[str, Any]) -> "envs.GameIdentity":
        """This version's identity of the game of stored, unchecked settings."""

    @abstractmethod
    def spec(self) -> "envs.EnvSpec":
        """The spec of the environment."""

    @abstractmethod
    def policy(self, *, key: "Key[Array, '']", copies: int = 1) -> "networks.ActorCritic":
        """The network before training; `copies` is the number of parameter copies per device.

        Raises:
            ConfigError: there is no such network, it does not support a setting, or it does not fit
                into memory.
        """

    def initial_scale(self) -> "agent.ValueScale | None":
        """The initial value scale; `None` without a value."""
        return None

    @abstractmethod
    def build(
        self, policy: "networks.ActorCritic", *, trust_code: bool = False, **given: Unpack[Given]
    ) -> "training.Algorithm[Any]":
        """The algorithm, which starts from this network. Nothing is compiled yet.

        Args:
            policy: the network.
            trust_code: whether code that other runs name, such as a teacher's, may be imported.
            given: mesh, precision and value scale.

        Raises:
            ArgumentError: an argument of the algorithm cannot work; it has the name of a setting.
            ConfigError: a setting cannot work.
        """

    @abstractmethod
    def rate(self) -> "agent.Schedule":
        """The schedule of the learning rate over the algorithm's progress."""

    def make_optimizer(self) -> "optax.GradientTransformation":
        """The optimizer; its updates are multiplied by `rate`."""
        settings = self.optimizer_settings()
        return training.named_optimizer(self.optimizer, self.max_grad_norm, **settings)

    def optimizer_settings(self) -> dict[str, float]:
        """The settings of the optimizer, with their defaults.

        Raises:
            ConfigError: it has no such setting.
        """
        given = {name: getattr(self, name) for name in training.SETTINGS}
        own = {k: v for k, v in self.optimizers.get(self.optimizer, {}).items() if given[k] is None}
        with in_flags():
            return training.optimizer_settings(self.optimizer, **{**given, **own})

    def optimization(self, given: Given) -> "training.Optimization":
        """The optimization of the algorithm, on these devices and in this precision."""
        # Settings are the arguments of the same names, except for these four.
        names = training.OptimizationArguments.__annotations__
        arguments = {name: getattr(self, name) for name in names if hasattr(self, name)}
        arguments |= {"optimizer": self.make_optimizer(), "learning_rate": self.rate()}
        arguments |= {"precision": given["precision"], "mesh": given["mesh"]}
        return training.Optimization(**arguments)

    def opponent(self, policy: "networks.ActorCritic") -> "evaluation.Opponent":
        """An opponent that plays by a network.

        Raises:
            ConfigError: the game is not for two players (`two_players`).
        """
        raise ConfigError(f"--algorithm {self.algorithm}: it trains no player of a game of two.")

    def check_mesh(self, mesh: "Mesh") -> None:
        """Raises a ConfigError if the environments do not divide over a mesh."""
        del mesh

    def check_changes(self, run: object, changes: Mapping[str, Any]) -> None:
        """Refuses changes of settings that would invalidate what a run has learned.

        Raises:
            ConfigError: one of them must stay. The message names its flag.
        """
        settings = settings_of(self)
        starts_from_weights = "init" in {each.name for each in settings}
        for each in settings:
            was, why = getattr(self, each.name), each.metadata["resume"]
            if why and changes.get(each.name, was) != was:
                given = as_given(each.name, changes[each.name])
                weights = "" if each.metadata["alike"] else f" from its weights: --init {run}"
                begin = f"begin a new run{weights if starts_from_weights else ''}"
                raise ConfigError(
                    f"{given}: the run {run} was trained with {as_given(each.name, was)}, and {why}"
                    f". Leave {flag(each.name)} out, or {begin}."
                )

    def check_algorithm(self, algorithm: "training.Algorithm[Any]", run: object) -> None:
        """Refuses to restore a state of these settings into an algorithm with another game.

        Raises:
            ConfigError: the games differ, although the arrays may fit.
        """
        del algorithm, run

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
        """The texts of this algorithm that a run on `devices` devices prints."""

    def judge(self, policy: "networks.ActorCritic") -> tuple[str, Mapping[str, Any]] | None:
        """Evaluates a trained network without games: a line to print, and the run's summary.

        By default `None`: the run plays games to evaluate the network.
        """
        return None

    def as_dict(self) -> dict[str, Any]:
        """The settings and the algorithm's name, as plain values for JSON and TOML."""
        plain = {each.name: getattr(self, each.name) for each in settings_of(self)}
        begun = {"begun_at": self.begun_at} if self.begun_at else {}
        then = {"then": self.then.as_dict()} if self.then else {}
        return {"algorithm": self.algorithm, **plain, **begun, **then}

    @property
    def last_goal(self) -> int:
        """The goal of the last stage, before rounding to full updates."""
        then = self.then
        return self.goal if then is None else replace(then, begun_at=self.goal).last_goal

    @property
    def stages(self) -> "list[RunConfig]":
        """This config, and the config of each later stage."""
        return [self, *([] if self.then is None else self.then.stages)]
