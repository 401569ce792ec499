"""The settings of imitation: its fields are its flags."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast, final, no_type_check

from hackmatrix_rl import agent, evaluation, training
from hackmatrix_rl import env as envs
from hackmatrix_rl.agent import networks
from hackmatrix_rl.algorithms import ppo as of_ppo
from hackmatrix_rl.games import hackmatrix as rules
from hackmatrix_rl.runs.config import (
    ACCELERATOR,
    CPU,
    DEBUG,
    HACKMATRIX,
    SMALL,
    ActorCriticConfig,
    Given,
    Words,
    options_in,
    without_width,
)
from hackmatrix_rl.system.errors import ArgumentError, ConfigError, in_flags, refusing

if TYPE_CHECKING:
    from hackmatrix_rl.algorithms.imitation._imitation import Imitation

in_imitation = options_in("Imitation")

_OWN = "--teacher my_module:factory, a function of the environment that returns an Agent"
_TAUGHT: Mapping[str, Any] = {
    "teacher": "expert",
    "observation": "tactical",
    "total_timesteps": 3_000_000,
    "width": 192,
    "num_minibatches": 32,
    "update_epochs": 3,
    "gamma": 0.997,
}
# Four times as many games per update, and twice as many updates.
_WIDE: Mapping[str, Any] = {
    **_TAUGHT,
    **ACCELERATOR,
    "num_envs": 4096,
    "updates_per_dispatch": 8,
    "total_timesteps": 24_000_000,
    "buffer_size": 2_097_152,
}


@final
@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class ImitationConfig(ActorCriticConfig):
    """The settings of a training that imitates a teacher; see `PPOConfig`."""

    algorithm: ClassVar[str] = "imitation"
    summary: ClassVar[str] = "from a teacher"
    continues: ClassVar[bool] = True
    elsewhere: ClassVar[Mapping[str, Any]] = {**SMALL, "teacher": None, "buffer_size": 65_536}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cpu": {**CPU, **_TAUGHT},  # a few minutes on two cores
        **{kind: {**_WIDE, "device": kind} for kind in ("gpu", "tpu")},
        "debug": {**DEBUG, "num_steps": 16, "num_minibatches": 2, "update_epochs": 2},
    }

    # Imitation
    teacher: str | None = in_imitation(
        None,
        'Player to learn from: expert, "search(expert, 30)", "harvest(pretrained)", a run, or '
        "my_module:factory.",
    )
    teacher_search: int | None = in_imitation(
        None,
        "Simulations per move of a tree search with a network teacher; none: no search.",
        minimum=1,
        env=HACKMATRIX,
    )
    soft_labels: bool = in_imitation(
        False, "Learn the teacher's action probabilities instead of its actions."
    )
    teacher_games: float | str = in_imitation(
        "linear:1.0:0.0@0.5",
        "DAgger mixing: the share of games that the teacher plays; a number or a schedule.",
        minimum=0,
        maximum=1,
    )
    random_actions: float = in_imitation(
        0.02, "Share of random actions, to diversify the positions.", minimum=0, maximum=1
    )
    buffer_size: int = in_imitation(
        524_288,
        "Capacity of the buffer in positions, over all games; rounded down to whole updates.",
        minimum=1,
    )
    symmetries: bool = in_imitation(
        True, "Augment the labelled positions with random symmetries of the board.", env=HACKMATRIX
    )
    program_weight: float = in_imitation(
        1.0, "Loss weight of siphons and programs; moves have weight 1.", above=0, env=HACKMATRIX
    )

    @classmethod
    def preset_settings(cls, preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a preset, with the width of the default network."""
        chosen = super().preset_settings(preset, settings)
        return without_width(chosen, settings if preset != "debug" else {})

    def check(self) -> None:
        super().check()
        if self.teacher is None:
            here = self.env == HACKMATRIX
            use = "--teacher runner, say" if here else f"a run in --env {self.env}, or {_OWN}"
            raise ConfigError(f"--algorithm imitation needs a player to learn from. Use {use}.")
        with in_flags():
            training.check_capacity(
                self.buffer_size, num_envs=self.num_envs, num_steps=self.num_steps
            )

    def build(
        self, policy: "networks.ActorCritic", *, trust_code: bool = False, **given: Unpack[Given]
    ) -> "Imitation":
        """Imitation of the teacher that these settings name; see `RunConfig.build`."""
        from hackmatrix_rl.algorithms.imitation._imitation import Imitation
        from hackmatrix_rl.algorithms.imitation._loss import CloneLoss

        teacher = self.find_teacher(trust_code=trust_code)
        here = self.env == HACKMATRIX
        ppo = of_ppo.PPO(
            self.environment(),
            policy,
            loss=CloneLoss(
                vf_coef=self.vf_coef, special_from=rules.SIPHON, special_weight=self.program_weight
            ),
            gae=agent.GAE(gamma=self.schedule(self.gamma), gae_lambda=self.gae_lambda),
            **self.shared_arguments(given),
        )
        try:
            return Imitation(
                ppo,
                teacher,
                beta=self.over_time(self.teacher_games),
                random_share=self.random_actions,
                buffer_size=self.buffer_size,
                augment=envs.BoardSymmetries() if self.symmetries and here else None,
                soft_labels=self.soft_labels,
            )
        except ArgumentError as error:
            if error.argument == "augment":
                raise ConfigError(
                    f"--network {self.network} has a memory, which board symmetries cannot "
                    "transform. Use --no-symmetries, or a network without memory."
                ) from error
            if error.argument == "soft_labels":
                raise ConfigError(
                    f"--soft-labels: --teacher {self.teacher} only acts, and has no "
                    "probabilities. Use --no-soft-labels, or a run or pretrained as the teacher."
                ) from error
            raise
        except ValueError as error:
            raise ConfigError(f"--teacher {self.teacher}: {error}.") from error

    def find_teacher(self, *, trust_code: bool = False) -> "evaluation.Agent":
        """The player that `teacher` names.

        Raises:
            ConfigError: there is no such player, or it plays another game than the student.
        """
        # Imported here, because a notebook that imitates does not need `runs`.
        from hackmatrix_rl.runs import find_player

        name, environment = self.teacher, self.environment()
        assert name is not None, "the config is checked"
        if networks.module_of(name) is not None:
            return self._own_teacher(name, environment)
        game = environment.config if isinstance(environment, envs.HackMatrix) else None
        try:
            teacher, its_own = find_player(
                name,
                league=None if game is None else self.league,
                game=game,
                trust_code=trust_code,
                simulations=self.teacher_search,
                simulations_flag="--teacher-search",
            )
        except ConfigError as error:
            if str(error).startswith("--teacher-search"):
                raise
            raise ConfigError(f"--teacher {error}") from error
        if not (isinstance(environment, envs.HackMatrix) and isinstance(its_own, envs.HackMatrix)):
            if its_own != environment:
                raise ConfigError(
                    f"--teacher {name}: plays another game than --env {self.env}. Use a run in "
                    f"that environment, or {_OWN}."
                )
        elif (
            isinstance(teacher, evaluation.PolicyAgent)
            and its_own.observation != environment.observation
        ):
            raise ConfigError(
                f"--teacher {name}: sees the observation {its_own.observation}, and the student "
                f"the observation {environment.observation}. Both must see the same."
            )
        return teacher

    def _own_teacher(self, name: str, environment: "envs.Environment") -> "evaluation.Agent":
        """The player that the factory `module:factory` makes for an environment."""
        with refusing(f"--teacher {name}: ", of=(TypeError, ValueError)):
            teacher = networks.import_factory(name, "teacher")(environment)
            evaluation.check_player(teacher, environment)
        return (
            evaluation.PolicyAgent(teacher)
            if isinstance(teacher, networks.ActorCritic)
            else cast(evaluation.Agent, teacher)
        )

    def words(self, devices: int = 1) -> Words:
        """Also the teacher, and how to continue with PPO."""
        return replace(
            super().words(devices),
            details=(f"Teacher: {self.teacher}",),
            advice=("Continue with PPO:  hackmatrix-rl train --algorithm ppo --init",),
        )
