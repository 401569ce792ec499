"""The fields of every training of a single player: each one is a flag and a key of a TOML file."""

from dataclasses import dataclass
from functools import partial
from typing import no_type_check

from hackmatrix_rl.env import KINDS
from hackmatrix_rl.games.hackmatrix import LEAGUES, GameConfig
from hackmatrix_rl.runs.config._environments import HACKMATRIX
from hackmatrix_rl.runs.config._options import (
    changed,
    in_collecting,
    in_game,
    in_learning,
    in_run,
    most,
)
from hackmatrix_rl.runs.config._run_fields import RunFields

MAX_STEPS = 1000
MOST_EPISODES = 10_000_000
GAMES = most(MOST_EPISODES, "more games do not tighten the interval usefully")
CAPACITY = most(GameConfig.MAX_CAPACITY, "WARP numbers enemies and transmissions in 7 bits")

in_hackmatrix = partial(in_game, env=HACKMATRIX)
"""An option that only the default environment has."""


@no_type_check  # of beartype at run time: `RunConfig` checks the types, with clear messages
@dataclass(frozen=True, kw_only=True)
class TrainFields:
    """The settings of every training of a single player; `TrainConfig` checks them."""

    # The run
    total_timesteps: int = in_run(
        24_000_000,
        "Environment steps of the training, over all games; rounded up to full updates.",
        minimum=1,
        **most(2**63 - 1, "steps are counted in 64 bits"),
    )
    keep_best: bool = in_run(False, "Also keep the checkpoint whose mean return was highest.")
    eval_episodes: int = in_run(
        1000,
        "Games that each policy plays for the summary at the end; 0: no summary.",
        minimum=0,
        **GAMES,
    )
    eval_interval: int = in_run(
        0, "Updates between evaluations during training, on separate games; 0: none.", minimum=0
    )
    eval_interval_episodes: int = in_run(
        100, "Games in each of these evaluations.", minimum=1, **GAMES
    )
    replays: int = in_run(
        20,
        "Replays of evaluation games to keep in the run's folder: the newest ones; 0: none.",
        minimum=0,
        **most(10_000, "a report reads all of them"),
    )

    # The game
    env: str = in_game(
        HACKMATRIX,
        "Environment: hackmatrix, cartpole, a memory task, gymnax:NAME (brax, mjx, pgx, "
        "gymnasium), module:factory.",
        resume="it learns in that environment",
        alike=True,
    )
    env_args: str | None = in_game(
        None,
        "Arguments of an environment other than hackmatrix: corridor=10,max_steps=200.",
        resume="it learns in that environment",
    )
    max_steps: int | None = in_hackmatrix(
        MAX_STEPS, "Truncate an episode after this many actions; none: never.", minimum=1
    )
    max_enemies: int = in_hackmatrix(
        GameConfig.max_enemies,
        "Maximum number of enemies in a game; further spawns are dropped and counted.",
        minimum=1,
        **CAPACITY,
    )
    max_transmissions: int = in_hackmatrix(
        GameConfig.max_transmissions,
        "Maximum number of transmissions in a game; further ones are dropped and counted.",
        minimum=1,
        **CAPACITY,
    )
    history: int = in_hackmatrix(
        GameConfig.history,
        "Turns that UNDO can take back.",
        minimum=1,
        **most(65_536, "no game has more turns"),
    )
    league: str = in_hackmatrix(
        "original",
        "original: UNDO reaches across stages, as in the original game; no-rewind: a new stage "
        "clears the history.",
        choices=LEAGUES,
        resume="it stays in its league",
    )
    reward: str | None = in_hackmatrix(
        None, "Weights of the reward terms: victory=0.1,score_gain=0; 1 for the others."
    )
    observation: str = in_hackmatrix(
        "compact",
        "compact: the screen; tactical: also what a player remembers and infers; classic: the "
        "original's floats.",
        choices=KINDS,
        resume="its network takes that observation",
        alike=True,
    )

    # Collecting
    num_envs: int = in_collecting(1024, "Games played in parallel.", minimum=1)

    # Learning. Numbers that may be schedules: `0.5`, `linear:0.5:0`, `cosine:0.5:0@0.3`.
    init: str | None = in_learning(
        None,
        "Start from the weights of this run or checkpoint of the same network; none: random ones.",
    )
    pbt_interval: int | None = in_learning(
        None,
        "Updates after which the worst of several trainings copy the best ones; none: never.",
        minimum=1,
        resume="its trainings copy each other at that interval",
    )
    pbt_fraction: float = in_learning(
        0.25,
        "Fraction of the trainings that --pbt-interval replaces.",
        above=0,
        **most(0.5, "the others are copied"),
    )
    pbt_metric: str = in_learning(
        "return", "Metric by which --pbt-interval ranks trainings; larger is better."
    )
    pbt_perturb: float = in_learning(
        1.25, "Multiply or divide each copied setting of --vary by this.", above=1
    )
    pbt_resample: float = in_learning(
        0.0,
        "Probability that a copied setting becomes one of --vary's values instead.",
        minimum=0,
        maximum=1,
    )
    pbt_burn_in: int = in_learning(0, "Updates before the first copy.", minimum=0)
    pbt_bounds: str | None = in_learning(
        None, "Bounds of settings: learning_rate=1e-5:1e-2,gamma=0.9:0.999; none: by their kind."
    )
    learning_rate: float | str = changed(
        RunFields,
        "learning_rate",
        "linear:0.001:0",
        "Learning rate: 0.001 falls linearly to 0, constant:0.001 does not; or a schedule.",
    )
    learning_rate_schedule: str | None = in_learning(
        None, "Retired: `learning_rate` says it.", choices=("constant", "linear")
    )
    gamma: float | str = in_learning(
        0.99,
        "Discount factor of rewards, per action; also a schedule: linear:0.997:0.9995.",
        minimum=0,
        maximum=1,
    )
