"""What is true of every training by an algorithm, whatever its settings are."""

from collections.abc import Mapping
from typing import Any, ClassVar


class Traits:
    """What commands, presets and reports know of an algorithm: constants of its config's class.

    Attributes:
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
        varies: the settings that may differ between the trainings of one program (`--vary`).
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
    varies: ClassVar[tuple[str, ...]] = ("learning_rate",)
    synonyms: ClassVar[Mapping[str, str]] = {}
    memory: ClassVar[tuple[str, ...]] = ()
