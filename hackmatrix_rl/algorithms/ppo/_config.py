"""The settings of PPO: its fields are its flags."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final, no_type_check

from hackmatrix_rl import agent, training
from hackmatrix_rl import env as envs
from hackmatrix_rl.agent import networks
from hackmatrix_rl.agent import precision as formats
from hackmatrix_rl.games import hackmatrix as rules
from hackmatrix_rl.runs import config
from hackmatrix_rl.system.errors import ConfigError, as_given, flag, refusing, shortened

if TYPE_CHECKING:
    from hackmatrix_rl.algorithms.ppo._ppo import PPO

in_game = config.options_in("Game")
in_learning = config.options_in("Learning")
in_watching = config.options_in("Watching")

# Of a device that is not known; `sized_presets` have more.
_WIDE: Mapping[str, Any] = {
    **config.ACCELERATOR,
    "total_timesteps": 200_000_000,
    "num_envs": 4096,
    "updates_per_dispatch": 8,
}

_CONTINUOUS: Mapping[str, Any] = {
    **config.SMALL,
    "cpu_devices": 2,
    "total_timesteps": 1_000_000,
    "num_envs": 64,
    "num_steps": 256,
    "num_minibatches": 16,
    "update_epochs": 10,
    "ent_coef": "linear:0.3:0@0.5",  # less does not reach the goal of MountainCarContinuous
    "entropy_floor": None,  # the entropy of a density may be negative
    "normalize_observations": True,
}

CONTINUED: Mapping[str, Any] = {
    "total_timesteps": 24_000_000,
    # At equal time, more games teach more than a second pass over the same ones.
    "update_epochs": 1,
    # Without the terms that UNDO can repeat; a stage and a point are rewarded immediately.
    "reward": "stage_completion=2,score_gain=10,data_siphon=0,kills=0,distance_shaping=0",
    "gamma": "linear:0.997:0.9996",
    "ent_coef": "linear:0.003:0.0005",
    "learning_rate": "linear:0.0007:0",
    "target_kl": 0.03,
    # Without a teacher, one seed in five lost its data siphons in the first million steps.
    "teacher_kl": "linear:0.2:0@0.3",
    "critic_warmup_timesteps": 200_000,
    "aux_coefficient": 0.05,
    "aux_every": 2,
    "aux_victory": True,
}
"""Settings that a device's preset adds if training starts from stored weights (`--init`)."""

_WARMUP_SHARE = 0.05
"""Maximum share of a short training in which only the value head is updated."""

_OF_POSITIONS = ("history", "max_enemies", "max_transmissions")
"""Settings that fix the shapes of stored positions."""

_NEEDED = {
    "aux_every": ("aux_coefficient", 0.1),
    "aux_victory": ("aux_coefficient", 0.1),
    "frontier": ("frontier_share", 0.25),
    "start_stages": ("frontier_share", 0.25),
}
"""Settings that have no effect while another one is 0, and a usual value of it."""


@final
@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class PPOConfig(config.ActorCriticConfig):
    """The settings of a training by PPO.

    Each field is a flag and a key of a TOML file; its help text documents it. `None` disables an
    optional field (`none` on the command line).

    Raises:
        ConfigError: a value is invalid, or settings are incompatible.
    """

    algorithm: ClassVar[str] = "ppo"
    summary: ClassVar[str] = "from rewards"
    continued: ClassVar[Mapping[str, Any]] = CONTINUED
    continues: ClassVar[bool] = True
    varies: ClassVar[tuple[str, ...]] = (
        "learning_rate",
        "gamma",
        "gae_lambda",
        "ent_coef",
        "vf_coef",
        "clip_coef",
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cpu": {**config.CPU, "total_timesteps": 24_000_000},  # some 15 minutes on two shared cores
        **{kind: {**_WIDE, "device": kind} for kind in ("gpu", "tpu")},
        "debug": {**config.DEBUG, "num_steps": 16, "num_minibatches": 2, "update_epochs": 2},
        "continuous": _CONTINUOUS,  # for real-valued actions, on any device
    }

    sized_presets: ClassVar[tuple[str, ...]] = ("gpu", "tpu")

    # The game
    frontier_share: float = in_game(
        0.0,
        "Share of games that start from rarely reached positions of the agent's games, or at "
        "--start-stages; 0: none.",
        minimum=0,
        maximum=0.9,
        env=config.HACKMATRIX,
    )
    frontier: str = in_game(
        "milestones",
        "Positions that --frontier-share archives: milestones of a game, or by the points left in "
        "each stage.",
        choices=("milestones", "points"),
        env=config.HACKMATRIX,
    )
    start_stages: str | None = in_game(
        None,
        "Stages in which --frontier-share starts new games, such as 4:8; none: it starts games at "
        "archived positions.",
        env=config.HACKMATRIX,
    )
    without_undo_share: float = in_game(
        0.0,
        "Share of games in which UNDO is never legal, to train the agent to win without it.",
        minimum=0,
        maximum=0.9,
        env=config.HACKMATRIX,
        resume="its games keep whether UNDO is legal",
    )

    # Learning
    clip_coef: float = in_learning(
        0.2, "Clip the probability ratio to 1 plus or minus this.", above=0
    )
    value_clip: float | None = in_learning(
        None, "Clip value changes to plus or minus this; none: no clipping.", above=0
    )
    ent_coef: float | str = in_learning(
        0.05,
        "Weight of the entropy bonus, which encourages exploration; a number or a schedule.",
        minimum=0,
    )
    teacher_kl: float | str = in_learning(
        0.0,
        "Weight of the KL to the policy of --init: linear:0.5:0@0.3 decays over 0.3 of the run.",
        minimum=0,
    )
    critic_warmup_timesteps: int = in_learning(
        0,
        "Environment steps at the start in which only the value head is updated.",
        minimum=0,
        **config.most(2**63 - 1, "steps are counted in 64 bits"),
    )
    normalize_advantage: bool = in_learning(
        True, "Scale the advantages of each minibatch to mean 0 and standard deviation 1."
    )
    normalize_observations: bool = in_learning(
        False,
        "Give the network observations in standard deviations from their running mean.",
        resume="the statistics are part of its network",
        alike=True,
        arrays=True,
    )
    aux_coefficient: float = in_learning(
        0.0,
        "Weight of the auxiliary loss: predict the terms of the next reward, and death; 0: off.",
        minimum=0,
        arrays=True,
        env=config.HACKMATRIX,
    )
    aux_every: int = in_learning(
        1,
        "Compute the auxiliary loss only on every N-th minibatch.",
        minimum=1,
        env=config.HACKMATRIX,
    )
    aux_victory: bool = in_learning(
        False,
        "Also predict the win probability in the auxiliary loss.",
        arrays=True,
        env=config.HACKMATRIX,
    )
    target_kl: float | None = in_learning(
        None,
        "Stop an update early once its KL from the old policy exceeds this; none: never.",
        above=0,
    )

    # Watching
    debug: str | None = in_watching(
        None,
        "Find NaN (nans), also invalid indices and divisions (checks), or run uncompiled (nojit).",
        choices=("nans", "checks", "nojit"),
    )

    @classmethod
    def preset_settings(cls, preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a preset; with `init`, a device's preset adds `CONTINUED`.

        Args:
            preset: a name in `presets`.
            settings: the settings that override it.
        """
        if preset == "continuous":
            return dict(_CONTINUOUS)
        chosen = super().preset_settings(preset, settings)
        elsewhere = settings.get("env", config.HACKMATRIX) != config.HACKMATRIX
        if "device" not in chosen or settings.get("init") is None or elsewhere:
            return chosen
        continued = dict(CONTINUED)
        if preset != "cpu":
            # An accelerator trains for longer; the schedules are relative to the total.
            continued["total_timesteps"] = chosen["total_timesteps"]
            del continued["update_epochs"]  # it has fewer updates, so it needs both passes
        steps = settings.get("total_timesteps", continued["total_timesteps"])
        if isinstance(steps, int):  # other values are refused later
            warmup = min(continued["critic_warmup_timesteps"], int(_WARMUP_SHARE * steps))
            continued["critic_warmup_timesteps"] = warmup
        usual = cls.__dataclass_fields__["network"].default
        if settings.get("network", usual) != usual:
            del continued["teacher_kl"]  # a network with memory cannot have a teacher
        if settings.get("aux_coefficient") == 0:
            for name in ("aux_coefficient", "aux_every", "aux_victory"):
                del continued[name]
        return {**chosen, **continued}

    def check(self) -> None:
        super().check()
        if self.value_head != "scalar" and self.value_clip is not None:
            raise ConfigError(
                f"--value-clip {self.value_clip:g} clips squared errors, which --value-head "
                f"{self.value_head} does not have. Leave --value-clip out."
            )
        for name, (switch, some) in _NEEDED.items():
            value = getattr(self, name)
            if value != type(self).__dataclass_fields__[name].default and not getattr(self, switch):
                raise ConfigError(
                    f"{as_given(name, value)}: has no effect while {flag(switch)} is 0. Use "
                    f"{flag(switch)} {some}, say, or leave {flag(name)} out."
                )
        if self.start_stages is not None:
            stages_of(self.start_stages)
            if self.frontier != type(self).__dataclass_fields__["frontier"].default:
                raise ConfigError(
                    f"--start-stages {self.start_stages} and --frontier {self.frontier}: games "
                    "start at one of them. Leave one out."
                )
        if self.teacher_kl != 0 and self.init is None:
            raise ConfigError(
                f"--teacher-kl {self.teacher_kl}: the teacher is the policy that training starts "
                "from. Add --init RUN, or leave --teacher-kl out."
            )
        if self.critic_warmup_timesteps >= self.total_timesteps:
            raise ConfigError(
                f"--critic-warmup-timesteps {self.critic_warmup_timesteps} leaves nothing of "
                f"--total-timesteps {self.total_timesteps} for the policy. Use less."
            )
        computes = config.precision_of(self)
        scales = isinstance(computes, formats.MixedPrecision) and computes.scales
        if self.debug in (training.NANS, training.CHECKS) and scales:
            raise ConfigError(
                f"--debug {self.debug} would stop at the overflows that the loss scale of float16 "
                "provokes on purpose. Use --precision f32 or --precision bf16 with it."
            )

    def check_changes(self, run: object, changes: Mapping[str, Any]) -> None:
        """Also refuses other sizes of the game if positions are archived (`frontier_share`)."""
        super().check_changes(run, changes)
        stays = changes.get("frontier_share", 1) > 0 and changes.get("start_stages") is None
        if not (self.frontier_share > 0 and self.start_stages is None and stays):
            return
        for name in _OF_POSITIONS:
            if changes.get(name, getattr(self, name)) != getattr(self, name):
                was = as_given(name, getattr(self, name))
                raise ConfigError(
                    f"{as_given(name, changes[name])}: the positions that --frontier-share "
                    f"{self.frontier_share:g} saved are of games with {was}. Use {was}, "
                    f"--frontier-share 0, which drops them, or start a new run with --init {run}."
                )

    @property
    def eager(self) -> bool:
        """Whether each operation runs uncompiled (`--debug nojit`)."""
        return self.debug == training.NOJIT

    @property
    def heads(self) -> config.Heads:
        auxiliary, normalized = self.aux_coefficient != 0, self.normalize_observations
        return config.Heads(self.value_head, auxiliary, self.aux_victory, normalized)

    def build(
        self,
        policy: "networks.ActorCritic",
        *,
        trust_code: bool = False,
        **given: Unpack[config.Given],
    ) -> "PPO":
        from hackmatrix_rl.algorithms.ppo._ppo import PPO

        self._check_start(policy)
        mesh, warmup = given["mesh"], self.critic_warmup_timesteps
        loss: training.Loss = agent.PPOLoss(
            clip_coef=self.clip_coef,
            vf_coef=self.vf_coef,
            ent_coef=self.schedule(self.ent_coef),
            value_clip=self.value_clip,
            normalize_advantage=self.normalize_advantage,
            auxiliary=self._auxiliary(),
            teacher_kl_coef=self.schedule(self.teacher_kl),
        )
        gae: agent.AdvantageEstimator = agent.GAE(
            gamma=self.schedule(self.gamma), gae_lambda=self.gae_lambda
        )
        if self.debug in (training.NANS, training.CHECKS):
            loss, gae = training.checked(loss, gae, self.debug)
        if self.eager and mesh.size > 1:
            raise ConfigError(
                f"--debug nojit works on one device, not on {mesh.size} (--mesh {self.mesh}). Add "
                "--mesh data=1."
            )
        return PPO(
            self._train_environment(),
            policy,
            loss=loss,
            gae=gae,
            target_kl=self.target_kl,
            critic_warmup=warmup and self.begun_at + warmup,
            normalize_observations=self.normalize_observations,
            **self.shared_arguments(given),
        )

    def _train_environment(self) -> "envs.Environment":
        """The environment, with `without_undo_share` and `frontier_share`."""
        environment = self.environment()
        if self.without_undo_share == 0 and self.frontier_share == 0:
            return environment
        assert isinstance(environment, envs.HackMatrix), "the config is checked"
        environment = replace(environment, without_undo_share=self.without_undo_share)
        if self.frontier_share == 0:
            return environment
        if self.start_stages is None:
            return envs.frontier(environment, self.frontier_share, by=self.frontier)
        return envs.at_stages(environment, *stages_of(self.start_stages), self.frontier_share)

    def _check_start(self, policy: "networks.ActorCritic") -> None:
        """Raises a ConfigError if the network does not support a teacher or a critic warmup."""
        from hackmatrix_rl.algorithms.ppo._arguments import critic_warmup_of
        from hackmatrix_rl.algorithms.ppo._teacher import check_teacher

        if self.teacher_kl != 0:
            with refusing(f"--teacher-kl {self.teacher_kl}: ", ". Use another --network."):
                check_teacher(policy)
        with refusing(f"--critic-warmup-timesteps {self.critic_warmup_timesteps}: "):
            critic_warmup_of(self.critic_warmup_timesteps, policy)

    def _auxiliary(self) -> "agent.AuxiliaryLoss | None":
        if self.aux_coefficient == 0:
            return None
        victory = rules.TERM_NAMES.index(networks.VICTORY) if self.aux_victory else None
        return agent.AuxiliaryLoss(self.aux_coefficient, self.aux_every, victory)


def stages_of(text: str) -> tuple[int, int]:
    """The first and the last stage of `--start-stages`."""
    found = re.fullmatch(r"([1-8])(?::([1-8]))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if first > last:
        raise ConfigError(
            f"--start-stages {shortened(text)}: not understood. Use two stages of 1 to 8, in "
            "order: 4:8."
        )
    return first, last
