"""From the trainer of a config to one that imitates the config's teacher."""

from collections.abc import Callable
from pathlib import Path

import equinox as eqx

from hackmatrix_rl.agent import Schedule
from hackmatrix_rl.algorithms.imitation import (
    BoardSymmetries,
    CloneLoss,
    DemonstrationsHeader,
    Imitation,
    record_demonstrations,
)
from hackmatrix_rl.algorithms.ppo import PPO
from hackmatrix_rl.config import TrainConfig, make_environment, schedule_of
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.evaluation import Agent, PolicyAgent
from hackmatrix_rl.game import SIPHON
from hackmatrix_rl.runs._players import find_player
from hackmatrix_rl.training import Constant, Trainer


def imitating(
    trainer: Trainer[PPO], config: TrainConfig, *, trust_code: bool = False
) -> Trainer[Imitation]:
    """A trainer that imitates, with the environment, network and optimizer of another.

    Args:
        trainer: as `compose` made it from the config; it has not started.
        config: the settings.
        trust_code: whether code that the teacher's run names may be imported.

    Raises:
        ConfigError: the teacher does not exist or does not fit, or the network cannot learn so.
    """
    environment = trainer.environment
    assert isinstance(environment, HackMatrix)
    teacher = find_teacher(config, environment, trust_code=trust_code)
    loss = CloneLoss(
        vf_coef=config.vf_coef, special_from=SIPHON, special_weight=config.program_weight
    )
    try:
        algorithm = Imitation(
            eqx.tree_at(lambda ppo: ppo.loss, trainer.algorithm, loss),
            teacher,
            beta=_beta(config),
            random_share=config.random_actions,
            buffer_size=config.buffer_size,
            augment=BoardSymmetries() if config.symmetries else None,
            soft_labels=config.soft_labels,
        )
    except ValueError as error:
        if str(error).startswith("augment"):
            raise ConfigError(
                f"--network {config.network} remembers the board as it was, which cannot be "
                "turned. Use --no-symmetries, or a network without memory."
            ) from error
        if str(error).startswith("soft_labels"):
            raise ConfigError(
                f"--soft-labels: --teacher {config.teacher} only acts, and tells no probabilities. "
                "Use --no-soft-labels, or a run or pretrained as the teacher."
            ) from error
        raise ConfigError(f"--teacher {config.teacher}: {error}.") from error
    return Trainer(algorithm, updates_per_dispatch=config.updates_per_dispatch)


def save_demonstrations(
    config: TrainConfig,
    folder: Path,
    *,
    games: int,
    trust_code: bool = False,
    on_progress: Callable[[int, int], None],
) -> DemonstrationsHeader:
    """Writes games of a config's teacher; see `record_demonstrations`.

    Args:
        config: the settings; seed, game, teacher, random actions and games at once count.
        folder: a new or empty folder.
        games: number of games.
        trust_code: whether code that the teacher's run names may be imported.
        on_progress: told the number of games written, and of all games.

    Raises:
        ConfigError: the teacher does not exist or does not fit, or the folder is not empty.
    """
    environment = make_environment(config)
    teacher = find_teacher(config, environment, trust_code=trust_code)
    assert config.teacher is not None
    try:
        return record_demonstrations(
            teacher,
            environment,
            folder,
            name=config.teacher,
            games=games,
            seed=config.seed,
            random_share=config.random_actions,
            num_envs=config.num_envs,
            on_progress=on_progress,
        )
    except OSError as error:
        raise ConfigError(
            f"--save-demonstrations {folder}: cannot be written ({error.strerror or error})."
        ) from error


def find_teacher(
    config: TrainConfig, environment: HackMatrix, *, trust_code: bool = False
) -> Agent:
    """The player that a config names as its teacher.

    Args:
        config: the settings.
        environment: of the student.
        trust_code: whether code that the teacher's run names may be imported.

    Raises:
        ConfigError: there is no such player, or it plays another game than the student.
    """
    name = config.teacher
    assert name is not None, "the config is checked"
    try:
        teacher, its_own = find_player(
            name,
            league=config.league,
            game=environment.config,
            trust_code=trust_code,
            simulations=config.teacher_search,
            simulations_flag="--teacher-search",
        )
    except ConfigError as error:
        if str(error).startswith("--teacher-search"):
            raise
        raise ConfigError(f"--teacher {error}") from error
    if isinstance(teacher, PolicyAgent) and its_own.observation != environment.observation:
        raise ConfigError(
            f"--teacher {name}: sees the observation {its_own.observation}, and the student the "
            f"observation {environment.observation}. Both must see the same."
        )
    return teacher


def _beta(config: TrainConfig) -> Schedule:
    beta = schedule_of(config.teacher_games, steps=config.num_updates * config.batch)
    if isinstance(beta, Schedule):
        return beta
    assert isinstance(beta, float)
    return Constant(beta)
