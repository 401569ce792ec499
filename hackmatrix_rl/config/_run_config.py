"""The settings that every run has, whatever it learns by."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, no_type_check

from hackmatrix_rl.agent.precision import parse_parts
from hackmatrix_rl.config._options import (
    check_range,
    most,
    option,
    typed,
)
from hackmatrix_rl.training.sharding import AUTO

KEPT = most(1_000_000, "each save looks through all of them")


@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class RunConfig(ABC):
    """The settings that every run has. Each field is a flag and a key of a TOML file.

    A subclass adds those of an algorithm and its game.
    """

    # The run
    seed: int = option(
        0, "Run", "Seed of all random numbers in the run.", minimum=0, maximum=2**32 - 1
    )
    deterministic: bool = option(
        False, "Run", "Make runs repeat bit for bit on this kind of device; slower."
    )
    device: str = option(
        "auto", "Run", "Kind of device to compute on.", choices=("auto", "cpu", "gpu", "tpu")
    )
    run_dir: str | None = option(
        None,
        "Run",
        "The run's folder; by default runs/ and the date, which is the run's id.",
        maximum=10_000,  # `check_path` knows what a path may be
    )
    checkpoint_dir: str | None = option(
        None,
        "Run",
        "Folder for checkpoints; by default checkpoints/ in the run's folder.",
        maximum=10_000,
    )
    save_interval_minutes: float | None = option(
        10.0,
        "Run",
        "Minutes between checkpoints; none: save only at the start and at the end.",
        above=0,
    )
    save_interval: int | None = option(
        None, "Run", "Updates between checkpoints, instead of minutes.", minimum=1
    )
    keep: int = option(
        3, "Run", "Number of checkpoints to keep: the newest ones.", minimum=1, **KEPT
    )

    # Devices
    mesh: str = option(
        AUTO,
        "Devices",
        "Devices that share the games: auto (all), data=8, or data=4,fsdp=2; fsdp also splits the "
        "learner.",
    )
    cpu_devices: int | None = option(
        None,
        "Devices",
        "Number of devices to split the CPU into; --mesh auto uses as many as divide the games.",
        minimum=1,
        **most(512, "they share the cores"),
    )

    # Collecting
    updates_per_dispatch: int = option(
        1,
        "Collecting",
        "Updates per call of the compiled program; metrics are logged once per call.",
        minimum=1,
    )

    # The network
    network: str = option(
        "cells",
        "Network",
        "mlp, cells, conv, gru, lstm, residual, resnet, transformer, or my_module:factory.",
    )
    width: int | None = option(
        None,
        "Network",
        "Width of the hidden layers; none: the network's default.",
        minimum=1,
        **most(65_536, "a layer would take more than 16 GiB"),
    )
    depth: int | None = option(
        None,
        "Network",
        "Number of hidden layers or blocks; none: the network's default.",
        minimum=1,
        **most(1_000, "no deeper network is known to learn"),
    )
    precision: str = option(
        "f32",
        "Network",
        "Number format to compute in: f32, bf16, f16 or a jmp policy; parameters stay float32.",
    )
    precision_parts: str | None = option(
        None,
        "Network",
        "Other formats for parts of the network: '.heads.value*=f32'; commas separate several.",
    )

    # Learning
    learning_rate: float | str = option(
        1e-3, "Learning", "Step size of Adam; a number or a schedule.", minimum=0
    )
    max_grad_norm: float = option(
        0.5, "Learning", "Scale gradients with a larger norm down to this norm.", above=0
    )

    # Watching
    wandb: bool = option(False, "Watching", "Also log to Weights & Biases.")
    wandb_project: str = option("hackmatrix-rl", "Watching", "Project on Weights & Biases.")
    wandb_group: str | None = option(
        None, "Watching", "Group of the run there, such as the seeds of one experiment."
    )
    wandb_name: str | None = option(
        None, "Watching", "Name of the run there; none: that of its folder."
    )
    wandb_tags: str | None = option(None, "Watching", "Tags of the run there, between commas.")
    wandb_notes: str | None = option(
        None, "Watching", "A note on the run, shown beside it there.", maximum=10_000
    )
    wandb_mode: str = option(
        "online",
        "Watching",
        "Send metrics at once, or store them in the run's folder for `wandb sync`.",
        choices=("online", "offline"),
    )
    tensorboard: bool = option(
        False,
        "Watching",
        "Also write TensorBoard events into the run's folder.",
    )
    stop_after_nonfinite: int | None = option(
        20,
        "Watching",
        "Stop after this many updates in a row with only NaN or infinity; none: only warn.",
        minimum=1,
    )
    profile: int | None = option(
        None,
        "Watching",
        "Write a profiler trace of this many updates, after the first, into the run's folder.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = typed(each, getattr(self, each.name))
            object.__setattr__(self, each.name, value)
            if value is not None:
                check_range(each, value)
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Raises a ConfigError if settings cannot go together. Types and ranges are right."""

    @property
    @abstractmethod
    def goal(self) -> int:
        """Where training ends, in what its algorithm counts (`Algorithm.progress`)."""

    @property
    @abstractmethod
    def counts(self) -> str:
        """The metric that says how near the goal is."""

    @property
    @abstractmethod
    def batch(self) -> int:
        """Environment steps in one update."""

    @property
    @abstractmethod
    def label(self) -> Mapping[str, str]:
        """By what a stored config is told from those of other classes."""

    @abstractmethod
    def lasting(self, updates: int) -> "RunConfig":
        """These settings for a run of so many updates or few more, without anything at its end."""

    @property
    def precision_table(self) -> dict[str, str]:
        """`precision_parts` as a table from patterns to policies."""
        return {} if self.precision_parts is None else parse_parts(self.precision_parts)

    def as_dict(self) -> dict[str, Any]:
        """Plain values by field name, as JSON and TOML can hold them, and the label."""
        return {**self.label, **dataclasses.asdict(self)}
