"""The settings of every training of a single player, in any environment."""

import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast, no_type_check

from hackmatrix_rl import agent
from hackmatrix_rl import env as envs
from hackmatrix_rl.agent import networks
from hackmatrix_rl.env import KINDS
from hackmatrix_rl.games import hackmatrix as rules
from hackmatrix_rl.games.hackmatrix import LEAGUES, GameConfig
from hackmatrix_rl.runs.config._device_games import following
from hackmatrix_rl.runs.config._environments import HACKMATRIX, check_env, make_environment
from hackmatrix_rl.runs.config._options import COUNTED, other_env, settings_of
from hackmatrix_rl.runs.config._population_based import check_exploits
from hackmatrix_rl.runs.config._run_config import Given, RunConfig
from hackmatrix_rl.runs.config._texts import (
    CONSTANT,
    always_schedule,
    constant_vary,
    parse_reward,
    rate_text,
    reward_text,
    schedule_of,
)
from hackmatrix_rl.runs.config._train_fields import MAX_STEPS, TrainFields
from hackmatrix_rl.runs.config._traits import Heads, Words
from hackmatrix_rl.system import check_path
from hackmatrix_rl.system.errors import ConfigError, flag, refusing, shortened

if TYPE_CHECKING:
    from jaxtyping import Array, Key

# Two CPU devices of one thread each wait less for each other than one of two threads.
CPU: Mapping[str, Any] = {"device": "cpu", "cpu_devices": 2}
# Large batches keep an accelerator busy, and its matrix units compute in bfloat16.
ACCELERATOR: Mapping[str, Any] = {"precision": "bf16"}
# A few seconds, to see that everything works.
DEBUG: Mapping[str, Any] = {
    "mesh": "data=1",  # few games may not divide over many devices
    "total_timesteps": 2048,
    "num_envs": 16,
    "updates_per_dispatch": 2,
    "width": 16,
    "max_steps": 200,
    "eval_episodes": 16,
}

# Environments other than HackMatrix are mostly small: more updates, of fewer steps.
SMALL: Mapping[str, Any] = {
    "total_timesteps": 500_000,
    "num_envs": 16,
    "num_steps": 64,
    "num_minibatches": 4,
    "update_epochs": 4,
    "updates_per_dispatch": 8,
    "network": "mlp",
    "width": 64,
    "eval_episodes": 100,
}


@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class TrainConfig(TrainFields, RunConfig, ABC):
    """The settings of every training of a single player, with any algorithm.

    Each field is a flag and a key of a TOML file; its help text documents it. `None` disables an
    optional field (`none` on the command line).

    Attributes:
        steps_by: the field with the steps of each game between updates.
        elsewhere: settings that override a preset in environments other than HackMatrix, if the
            algorithm has them.

    Raises:
        ConfigError: a value cannot work.
    """

    counts: ClassVar[str] = "env_steps"
    best_by: ClassVar[str | None] = "return"
    steps_by: ClassVar[str] = "num_steps"
    elsewhere: ClassVar[Mapping[str, Any]] = SMALL
    panels: ClassVar[tuple[tuple[str, str], ...]] = (
        ("return", "mean return"),
        ("score", "mean score"),
        ("won", "share of games won"),
        ("stage", "mean stage reached"),
        ("entropy", "entropy (nats)"),
        ("value_loss", "value loss"),
    )

    @classmethod
    def preset_settings(cls, preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a preset for the environment; see `RunConfig.preset_settings`."""
        chosen = super().preset_settings(preset, settings)
        env = settings.get("env", HACKMATRIX)
        if env == HACKMATRIX:
            return chosen
        own = {each.name for each in settings_of(cls) if each.metadata["env"] in ("", env)}
        small = cls.elsewhere if preset != "debug" else {"network": cls.elsewhere["network"]}
        return {name: each for name, each in {**chosen, **small}.items() if name in own}

    def check(self) -> None:
        """Also checks environment, sizes and `--init`; normalizes reward and learning rate."""
        check_env(self.env, self.env_args)
        for each in fields(self):
            value = getattr(self, each.name)
            if each.metadata["env"] not in ("", self.env) and value != each.default:
                raise ConfigError(other_env(each, value, self.env))
        object.__setattr__(self, "reward", reward_text(parse_reward(self.reward)))
        super().check()
        check_path(self.init, "--init")
        self._check_sizes()
        check_exploits(self)
        self._read_rate()

    def _read_rate(self) -> None:
        """Makes the learning rate a schedule, with the retired `learning_rate_schedule` in it."""
        schedule = self.learning_rate_schedule
        with refusing("", ""):
            object.__setattr__(self, "learning_rate", rate_text(self.learning_rate, schedule))
            if schedule == CONSTANT and self.vary is not None:
                object.__setattr__(self, "vary", constant_vary(self.vary))
        object.__setattr__(self, "learning_rate_schedule", None)

    def _check_sizes(self) -> None:
        """Checks that all counts of 32 bits fit."""
        steps = flag(self.steps_by)
        if self.batch > COUNTED:
            fits = max(1, COUNTED // self.steps_of_each)
            raise ConfigError(
                f"--num-envs {self.num_envs} x {steps} {self.steps_of_each} are {self.batch} "
                f"actions in an update, which numbers them in 32 bits. Use --num-envs {fits}, or "
                f"fewer {steps}."
            )
        if self.num_updates > COUNTED:
            raise ConfigError(
                f"--total-timesteps {self.total_timesteps} are {self.num_updates} updates of "
                f"{self.batch} actions, and updates are counted in 32 bits. Use --total-timesteps "
                f"{COUNTED * self.batch}, or more --num-envs."
            )

    @property
    def goal(self) -> int:
        """Environment steps to reach."""
        return self.begun_at + self.total_timesteps

    @property
    def steps_of_each(self) -> int:
        """Steps of each game in one update."""
        return int(getattr(self, self.steps_by))

    @property
    def batch(self) -> int:
        return self.num_envs * self.steps_of_each

    @property
    def num_updates(self) -> int:
        """Number of updates that reach `total_timesteps`."""
        return math.ceil(self.total_timesteps / self.batch)

    @property
    def steps_taken(self) -> int:
        """Environment steps of the training, rounded up to full updates; the span of schedules."""
        return self.num_updates * self.batch

    def with_games(self, num_envs: int) -> "TrainConfig":
        """These settings with other games; minibatches that follow the games still do."""
        games: dict[str, Any] = {"num_envs": num_envs}
        return replace(self, **games, **following(self.as_dict(), games))

    def shorten(self, updates: int) -> "TrainConfig":
        """These settings, shortened to `updates` updates over all stages, without a summary."""
        own = max(1, updates // len(self.stages))
        then = None if self.then is None else self.then.shorten(updates - own)
        return replace(self, total_timesteps=own * self.batch, eval_episodes=0, then=then)

    @property
    def reward_config(self) -> "rules.RewardConfig":
        """The weights in the text of `reward`."""
        return parse_reward(self.reward)

    def game(self) -> GameConfig:
        """The game's sizes and league."""
        return GameConfig(
            max_enemies=self.max_enemies,
            max_transmissions=self.max_transmissions,
            history=self.history,
            rewind_across_stages=self.league == "original",
        )

    def environment(self) -> "envs.Environment":
        """The environment of these settings. Custom code that they name is imported."""
        if self.env != HACKMATRIX:
            return make_environment(self.env, self.env_args)
        return envs.HackMatrix(
            self.game(),
            max_steps=self.max_steps,
            observation=cast(envs.Kind, self.observation),  # as the field's choices say
            reward=self.reward_config,
        )

    @classmethod
    def game_identity(cls, settings: Mapping[str, Any]) -> "envs.GameIdentity":
        """The identity of the environment; versions without `observation` had `compact`."""
        if (env := settings.get("env", HACKMATRIX)) != HACKMATRIX:
            return envs.other_identity(shortened(env))
        named = settings.get("observation")
        return envs.game_identity(next((kind for kind in KINDS if kind == named), "compact"))

    def spec(self) -> "envs.EnvSpec":
        return self.environment().spec

    @property
    def heads(self) -> Heads:
        return Heads()

    def policy(self, *, key: "Key[Array, '']", copies: int = 1) -> "networks.ActorCritic":
        """The network before training, with the heads that its losses need."""
        from hackmatrix_rl.runs.config._policies import build_policy

        return build_policy(self, self.spec(), self.heads, key=key, copies=copies)

    def schedule(self, value: float | str) -> "agent.Scheduled":
        """The number or schedule of a field, over the environment steps of the training."""
        return schedule_of(value, steps=self.steps_taken, after=self.begun_at)

    def over_time(self, value: float | str) -> "agent.Schedule":
        """`schedule`, with a number as a constant schedule."""
        return always_schedule(value, steps=self.steps_taken, after=self.begun_at)

    def rate(self) -> "agent.Schedule":
        return self.over_time(self.learning_rate)

    @property
    def at_once(self) -> int:
        """Environments in a part of a gradient step."""
        return self.num_envs // self.grad_accum

    def words(self, devices: int = 1) -> Words:
        """By default the summary."""
        return Words(learning=self.summary)

    def shared_arguments(self, given: Given) -> dict[str, Any]:
        """The arguments that all algorithms have in common."""
        return {"optimization": self.optimization(given), "value_scale": given["value_scale"]}

    def health(self) -> dict[str, Any]:
        return {**super().health(), "max_steps": self.max_steps}

    @property
    def one_device(self) -> bool:
        """Whether Python plays the games."""
        return not self.environment().pure

    def check_provable(self) -> None:
        """Raises a ConfigError if Python plays the games, which no checkpoint holds."""
        if not self.environment().pure:
            raise ConfigError(
                f"--env {self.env}: Python plays these games, and no checkpoint holds them, so a "
                "resumed run does not end in the same bits. Use an environment in JAX."
            )


def default_environment(league: str = LEAGUES[0]) -> "envs.HackMatrix":
    """HackMatrix with the default settings of a training, in a league."""
    game = GameConfig(rewind_across_stages=league == LEAGUES[0])
    return envs.HackMatrix(game, max_steps=MAX_STEPS)


def without_width(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a preset, without its width if another network is given."""
    left_out = {"width"} if given.get("network") is not None else set()
    return {name: value for name, value in settings.items() if name not in left_out}
