"""The constants of an algorithm, its heads and its texts, as its config declares them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


class Traits:
    """The constants of an algorithm that commands, presets and reports use.

    Attributes:
        algorithm: the name of the algorithm, as `--algorithm` takes it.
        command: the command that trains with it.
        summary: its method in a few words, for a help text.
        counts: the name of the metric that measures progress towards the goal.
        goal_by: the setting that is the goal.
        presets: the settings of each preset, by name.
        sized_presets: presets whose games, minibatches and length follow the devices, in the
            default environment; `presets` has what they are without a known device.
        continued: further settings of a device's preset for a training that starts from the weights
            of another one (`--init`).
        greedy: whether the network's logits are Q-values, and the agent plays the best action.
        loader: the function that loads such an agent in Python.
        continues: whether it can be a later stage of a training, and start from the weights of
            another algorithm.
        best_by: the metric that selects the best of several trainings to play, larger is better;
            with `None`, the first one plays.
        two_players: whether it trains players of a two-player game, whom a person can play against.
        copies: number of copies of the parameters on each device, with two numbers for each
            parameter in the optimizer's state.
        optimizers: default settings of optimizers that differ from those of `OPTIMIZERS`.
        panels: the metrics of the learning curve, with labels. Those that a run lacks are left out.
        varies: the settings that may differ between the trainings of one program (`--vary`).
        synonyms: flags of this algorithm's command, by the flags of other commands.
        memory: the settings that decide the memory of an update, the most important one first.
    """

    algorithm: ClassVar[str]
    command: ClassVar[str] = "train"
    summary: ClassVar[str]
    counts: ClassVar[str]
    goal_by: ClassVar[str] = "total_timesteps"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    sized_presets: ClassVar[tuple[str, ...]] = ()
    continued: ClassVar[Mapping[str, Any]] = {}
    greedy: ClassVar[bool] = False
    continues: ClassVar[bool] = False
    loader: ClassVar[str] = "hm.load"
    best_by: ClassVar[str | None] = None
    two_players: ClassVar[bool] = False
    copies: ClassVar[int] = 3
    optimizers: ClassVar[Mapping[str, Mapping[str, float]]] = {}
    panels: ClassVar[tuple[tuple[str, str], ...]]
    varies: ClassVar[tuple[str, ...]] = ("learning_rate",)
    synonyms: ClassVar[Mapping[str, str]] = {}
    memory: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class Heads:
    """The heads of a network that a config decides, and whether it is `normalized`.

    `value` is one of `VALUE_HEADS`. The `auxiliary` head also predicts the `victory` if asked for.
    """

    value: str = "scalar"
    auxiliary: bool = False
    victory: bool = False
    normalized: bool = False


@dataclass(frozen=True, kw_only=True)
class Words:
    """The texts of an algorithm that a run prints, in addition to what every run prints.

    Attributes:
        learning: the data of an update.
        length: the length of the training; by default, its goal.
        plan: lines of the plan of a run, by topic; by default, `learning`.
        gradient_steps: the gradient steps of the training, for the plan.
        details: lines at the start of a run.
        advice: commands for a completed training; they take its folder as the last argument.
    """

    learning: str
    length: str | None = None
    plan: Mapping[str, str] = field(default_factory=dict)
    gradient_steps: str | None = None
    details: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
