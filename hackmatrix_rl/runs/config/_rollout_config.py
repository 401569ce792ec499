"""The settings of algorithms that learn from rollouts, split into minibatches."""

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, no_type_check

from hackmatrix_rl import agent, training
from hackmatrix_rl.agent.networks import VALUE_HEADS
from hackmatrix_rl.runs.config._device_games import DeviceGames, minibatches
from hackmatrix_rl.runs.config._environments import HACKMATRIX
from hackmatrix_rl.runs.config._members import member_settings
from hackmatrix_rl.runs.config._options import (
    check_range,
    in_collecting,
    in_learning,
    in_watching,
    most,
    typed,
)
from hackmatrix_rl.runs.config._run_config import Given
from hackmatrix_rl.runs.config._train_config import TrainConfig
from hackmatrix_rl.runs.config._traits import Heads, Words
from hackmatrix_rl.system.errors import ConfigError, in_flags, refusing
from hackmatrix_rl.training import sharding

if TYPE_CHECKING:
    from jax.sharding import Mesh

DEFAULT_MINIBATCHES = 8


@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class RolloutConfig(TrainConfig, ABC):
    """The settings of a training that learns from rollouts, in minibatches split by games."""

    memory: ClassVar[tuple[str, ...]] = ("num_envs", "num_steps")

    # Collecting
    num_steps: int = in_collecting(32, "Environment steps in each game per update.", minimum=1)

    # Learning
    update_epochs: int = in_learning(
        2,
        "Passes over the collected actions in each update.",
        minimum=1,
        **most(10_000, "more passes over the same games teach nothing"),
    )
    num_minibatches: int | None = in_learning(
        None,
        "Minibatches in each pass, split by games; 8 unless --minibatch-size is given.",
        minimum=1,
    )
    minibatch_size: int | None = in_learning(
        None, "Actions in each minibatch, instead of the number of minibatches.", minimum=1
    )

    @property
    def minibatches(self) -> int:
        """Number of minibatches in a pass, whichever field sets it."""
        if self.minibatch_size is not None:
            return self.batch // self.minibatch_size
        return DEFAULT_MINIBATCHES if self.num_minibatches is None else self.num_minibatches

    @property
    def at_once(self) -> int:
        """Number of games in a part of a minibatch."""
        return 1 if self.eager else self.num_envs // (self.minibatches * self.grad_accum)

    def shared_arguments(self, given: Given) -> dict[str, Any]:
        names = ("num_envs", "num_steps", "update_epochs")
        sizes = {name: getattr(self, name) for name in names}
        return {**super().shared_arguments(given), **sizes, "num_minibatches": self.minibatches}

    def words(self, devices: int = 1) -> Words:
        parts, games = self.minibatches, self.num_envs // self.minibatches
        accumulated = f" in {self.grad_accum} parts" if self.grad_accum > 1 else ""
        sizes = (
            f"{parts} of {games:,} games x {self.num_steps} steps{accumulated}, "
            f"{games // devices:,} games on each device; {self.update_epochs} epochs"
        )
        return Words(
            learning=f"{self.update_epochs} epochs of {parts} minibatches",
            plan={"minibatches": sizes},
            gradient_steps=f"{self.num_updates * self.update_epochs * parts:,} gradient steps",
        )

    @classmethod
    def of_preset(
        cls, preset: str, settings: Mapping[str, Any], room: DeviceGames | None = None
    ) -> "RolloutConfig":
        """A preset with some settings changed; `minibatch_size` replaces `num_minibatches`."""
        chosen = cls.preset_settings(preset, settings)
        if preset in cls.sized_presets and settings.get("env", HACKMATRIX) == HACKMATRIX:
            chosen |= cls._sizes(chosen, settings, room)
        if settings.get("minibatch_size") is not None:
            chosen.pop("num_minibatches", None)
        return cls(**{**chosen, **settings})

    @classmethod
    def _sizes(
        cls, preset: Mapping[str, Any], settings: Mapping[str, Any], room: DeviceGames | None
    ) -> dict[str, Any]:
        """The sizes of a preset in `sized_presets`: games, minibatches and length.

        The number of updates stays, since it decides what is learned more than the steps of each.
        """
        changed = {**preset, **settings}

        def given(name: str) -> Any:
            field = cls.__dataclass_fields__[name]
            value = typed(field, changed.get(name, field.default))
            check_range(field, value)
            return value

        usual = num_envs = given("num_envs")
        sizes: dict[str, Any] = {}
        if room is not None and "num_envs" not in settings:
            with refusing(f"--vary {given('vary')}: "):
                members = len(member_settings(given("vary"), given("seeds")))
            num_envs = room.of_each(members)
            sizes["num_envs"] = num_envs
            if num_envs > usual:
                sizes["total_timesteps"] = preset["total_timesteps"] * num_envs // usual
        devices = 1 if room is None else room.devices
        sizes["num_minibatches"] = minibatches(
            num_envs, given("num_steps"), devices * given("grad_accum")
        )
        return sizes

    def check(self) -> None:
        """Also checks that the games divide into minibatches and parts of them."""
        super().check()
        size = self.minibatch_size
        if size is not None and self.num_minibatches is not None:
            raise ConfigError(
                f"--minibatch-size {size} and --num-minibatches {self.num_minibatches}: both split "
                "the batch. Use one of them."
            )
        if size is not None and (size % self.num_steps or self.batch % size):
            whole = [self.num_steps * games for games in sharding.divisors(self.num_envs)]
            near = [f"--minibatch-size {each}" for each in sharding.neighbours(size, whole)]
            raise ConfigError(
                f"--minibatch-size {size} does not split the {self.batch} actions of an update "
                f"(--num-envs {self.num_envs} x --num-steps {self.num_steps}) by games into equal "
                f"parts. Use {' or '.join(near)}."
            )
        with in_flags():
            self.sizes()

    def sizes(self) -> "training.RolloutSizes":
        of_minibatches = self.minibatches, self.update_epochs, self.grad_accum
        return training.RolloutSizes(self.num_envs, self.num_steps, *of_minibatches)

    def check_mesh(self, mesh: "Mesh") -> None:
        """Raises a ConfigError if the games do not divide over a mesh."""
        with in_flags():
            self.sizes().check_mesh(mesh)


@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(RolloutConfig, ABC):
    """The settings of a training whose network has a policy and a value learned by GAE."""

    # Learning
    gae_lambda: float = in_learning(
        0.95,
        "Lambda of GAE: 0 trusts the value network, 1 trusts the returns.",
        minimum=0,
        maximum=1,
    )
    value_scale: str = in_learning(
        "standard",
        "Scale of the value network: standardized returns, compressed and standardized, or plain.",
        choices=("standard", "compressed", "none"),
    )
    value_head: str = in_learning(
        "scalar",
        "Loss of the value: squared error, or cross-entropy over bins.",
        choices=VALUE_HEADS,
        arrays=True,
    )
    vf_coef: float = in_learning(0.5, "Weight of the value loss.", minimum=0)

    # Watching
    entropy_floor: float | None = in_watching(
        0.02,
        "Warn if the policy's entropy (nats) stays lower for ten updates; none: never.",
        above=0,
    )
    kl_alarm: float | None = in_watching(
        0.2, "Warn if an update moves the policy further (KL, in nats); none: never.", above=0
    )
    stop_after_kl: int | None = in_watching(
        None, "Stop after this many updates in a row beyond --kl-alarm; none: only warn.", minimum=1
    )

    def check(self) -> None:
        """Also checks that value head and value scale, and the KL limits, are compatible."""
        super().check()
        if self.value_head != "scalar" and self.value_scale == "none":
            raise ConfigError(
                f"--value-head {self.value_head} has bins around the mean return, but "
                "--value-scale none keeps plain returns. Use --value-scale standard or compressed."
            )
        if self.stop_after_kl is not None and self.kl_alarm is None:
            raise ConfigError(
                f"--stop-after-kl {self.stop_after_kl} counts updates beyond --kl-alarm, which is "
                "none. Use --kl-alarm 0.2, say, or --stop-after-kl none."
            )

    @property
    def heads(self) -> Heads:
        return Heads(value=self.value_head)

    def initial_scale(self) -> "agent.ValueScale | None":
        if self.value_scale == "none":
            return agent.IdentityScale()
        return agent.RunningScale(compress=self.value_scale == "compressed")

    def health(self) -> dict[str, Any]:
        return super().health() | {
            "entropy_floor": self.entropy_floor,
            "kl_alarm": self.kl_alarm,
            "stop_after_kl": self.stop_after_kl,
        }
