"""Loads a network of self-play."""

import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax
from etils import epath

from hackmatrix_rl.agent.networks import ON_EVERY_BOARD, ActorCritic
from hackmatrix_rl.algorithms.self_play._config import SETTINGS, SelfPlayConfig
from hackmatrix_rl.algorithms.self_play._match import SearchPlayer
from hackmatrix_rl.env import CliqueGame
from hackmatrix_rl.games.clique import CliqueConfig
from hackmatrix_rl.runs import checkpoints
from hackmatrix_rl.runs.config import check_trusted, config_from_dict
from hackmatrix_rl.system.errors import ConfigError, difference, instance


@dataclass(frozen=True)
class LoadedSelfPlay:
    """A network trained by self-play, with the game and the config of its training.

    `folder` is the folder of the checkpoint, and `metadata` its metadata: `update`, `counters`,
    `versions`.
    """

    policy: ActorCritic
    game: CliqueGame
    config: SelfPlayConfig
    folder: epath.Path
    metadata: Mapping[str, Any]

    def player(self, num_simulations: int | None = None) -> SearchPlayer:
        """The network with the search of its training.

        `num_simulations` replaces the simulations of both sides; by default, they are the
        training's, including a handicap.
        """
        search = self.config.search()
        if num_simulations is not None:
            search = dataclasses.replace(
                search, num_simulations=num_simulations, simulations_second=None
            )
        return SearchPlayer(self.policy, search)

    def on(self, board: CliqueConfig) -> "LoadedSelfPlay":
        """The same network and search on another board.

        Args:
            board: the sizes and the variant. Another number of vertices needs a network whose
                weights fit every board, such as `--network graph`.

        Raises:
            TypeError: `board` is not a `CliqueConfig`.
            ConfigError: the weights do not fit the board.
        """
        instance("board", board, CliqueConfig, "CliqueConfig(8, 3)")
        settings: dict[str, Any] = {
            SETTINGS.get(name, name): value for name, value in dataclasses.asdict(board).items()
        }
        opening = min(self.config.opening, board.num_edges - 1)
        config = dataclasses.replace(self.config, **settings, opening=opening)
        there = eqx.filter_eval_shape(config.policy, key=jax.random.key(0))
        here = eqx.filter_eval_shape(lambda: self.policy)
        if difference("policy", here, there) is not None:
            raise ConfigError(
                f"--vertices {board.vertices}: --network {config.network} was trained on "
                f"{self.config.vertices} vertices, and its weights fit no other number. Train with "
                f"--network {ON_EVERY_BOARD}, whose weights fit every board."
            )
        return dataclasses.replace(self, game=CliqueGame(board), config=config)


def load_self_play(
    run: str | Path,
    *,
    network: str | None = None,
    trust_code: bool = False,
    report: checkpoints.Report = warnings.warn,
) -> LoadedSelfPlay:
    """Loads a network of self-play: the newest of a run, or the one in a checkpoint.

    Args:
        run: a run's folder, its name under `runs/`, a folder of checkpoints (also remote), or one
            checkpoint.
        network: see `load`.
        trust_code: see `load`.
        report: takes a message about each skipped checkpoint.

    Raises:
        ConfigError: there is no checkpoint; it is not from self-play; its format or network is
            incompatible; or its network is custom code and `trust_code` is false.
    """
    folder, _hold = checkpoints.hold_checkpoint(run, report=report)
    metadata = checkpoints.read_metadata(folder)
    checkpoints.check_playable(folder, metadata)
    config = config_from_dict(metadata["config"])
    if not isinstance(config, SelfPlayConfig):
        raise ConfigError(
            f"{folder}: trained by --algorithm {config.algorithm}. Use {config.loader}."
        )
    if network is not None:
        config = dataclasses.replace(config, network=network)
    else:
        check_trusted(config, folder, trust_code=trust_code)
    game = CliqueGame(config.game())
    policy = config.policy(key=jax.random.key(0))
    return LoadedSelfPlay(
        policy=checkpoints.to_device(checkpoints.restore(folder, "policy", policy, report=report)),
        game=game,
        config=config,
        folder=folder,
        metadata=MappingProxyType(metadata),
    )
