"""The settings that every run has, whatever it learns by."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, no_type_check

from hackmatrix_rl import agent, evaluation, training
from hackmatrix_rl import env as envs
from hackmatrix_rl.agent import networks
from hackmatrix_rl.agent import precision as formats
from hackmatrix_rl.runs.config._members import Members
from hackmatrix_rl.runs.config._options import HIDDEN, check_each, settings_of
from hackmatrix_rl.runs.config._precision import check_platform, precision_of
from hackmatrix_rl.runs.config._resuming import check_kept
from hackmatrix_rl.runs.config._texts import bounds_of
from hackmatrix_rl.runs.config._words import Words
from hackmatrix_rl.system import check_path
from hackmatrix_rl.system.errors import ConfigError, flag, in_flags
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


@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class RunConfig(Members, ABC):
    """The settings that every run has. Each field is a flag and a key of a TOML file.

    A subclass adds the settings of an algorithm and its game, builds the `Algorithm`, and describes
    it.

    Attributes:
        begun_at: where the training stood when this stage began, in what its algorithm counts.
        then: the settings of the next stage, which starts from the weights of this one.
    """

    # Of a training in stages (`[[stage]]`): what a run sets itself.
    begun_at: int = field(default=0, metadata=HIDDEN)
    then: "RunConfig | None" = field(default=None, metadata=HIDDEN)

    def __post_init__(self) -> None:
        check_each(self)
        self.check()

    def check(self) -> None:
        """Raises a ConfigError if settings cannot go together. Types and ranges are right."""
        for name in ("run_dir", "checkpoint_dir"):
            check_path(getattr(self, name), flag(name))
        with in_flags():
            sharding.parse_mesh(self.mesh)
        check_platform(precision_of(self), self.device)
        if not any(bounds_of(self.learning_rate)):
            raise ConfigError(
                f"--learning-rate {self.learning_rate} is too small. Use more than 0."
            )
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
        # A setting with the name of an argument is that argument; four are more than their text.
        names = training.OptimizationArguments.__annotations__
        arguments = {name: getattr(self, name) for name in names if hasattr(self, name)}
        arguments |= {"optimizer": self.make_optimizer(), "learning_rate": self.rate()}
        arguments |= {"precision": given["precision"], "mesh": given["mesh"]}
        return training.Optimization(**arguments)

    def opponent(self, policy: "networks.ActorCritic") -> "evaluation.Opponent":
        """Who plays the game by a network.

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
        check_kept(self, run, changes)

    def check_algorithm(self, algorithm: "training.Algorithm[Any]", run: object) -> None:
        """Refuses to restore a state of these settings into another game.

        Raises:
            ConfigError: the algorithm's game is another one, although the arrays may fit.
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
        """What a run on `devices` devices prints of this algorithm."""

    def judge(self, policy: "networks.ActorCritic") -> tuple[str, Mapping[str, Any]] | None:
        """What a trained network is worth, where no games say it: a line, and the numbers.

        The numbers are what the run's summary holds of it. By default `None`: games say it.
        """
        return None

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
