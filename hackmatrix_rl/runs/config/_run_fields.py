"""The fields that every run has: each one is a flag and a key of a TOML file."""

from dataclasses import dataclass
from typing import no_type_check

from hackmatrix_rl.agent.networks import REMAT
from hackmatrix_rl.runs.config._options import (
    in_collecting,
    in_devices,
    in_learning,
    in_memory,
    in_network,
    in_run,
    in_watching,
    most,
)
from hackmatrix_rl.runs.config._renamed import ENDS
from hackmatrix_rl.training import OPTIMIZERS

MOST_MEMBERS = 4096
TRACKERS = ("wandb", "tensorboard", "trackio")

_DECAY = {"minimum": 0, **most(0.9999999, "with 1 it would stay at its start")}

WEIGHTS = {"alike": True, "arrays": True}
"""Options of fields that decide both what the weights mean and which arrays there are."""


@no_type_check  # of beartype at run time: `RunConfig` checks the types, with clear messages
@dataclass(frozen=True, kw_only=True)
class RunFields:
    """The settings of every run; `RunConfig` checks them."""

    # The run
    seed: int = in_run(0, "Seed of all random numbers in the run.", minimum=0, maximum=2**32 - 1)
    seeds: int = in_run(
        1,
        "Number of trainings in one program, with the seeds from --seed on; steps count for each.",
        minimum=1,
        resume="all of its trainings continue",
        **most(MOST_MEMBERS, "a program has room for few more"),
    )
    deterministic: bool = in_run(
        False, "Make runs bitwise repeatable on this kind of device; slower."
    )
    device: str = in_run(
        "auto", "Kind of device to compute on.", choices=("auto", "cpu", "gpu", "tpu")
    )
    run_dir: str | None = in_run(
        None,
        "The run's folder; by default runs/ and the date, which is the run's id.",
        maximum=10_000,  # `check_path` knows what a path may be
    )
    checkpoint_dir: str | None = in_run(
        None, "Folder for checkpoints; by default checkpoints/ in the run's folder.", maximum=10_000
    )
    save_interval_minutes: float | None = in_run(
        10.0, "Minutes between checkpoints; none: save only at the start and at the end.", above=0
    )
    save_interval: int | None = in_run(
        None, "Updates between checkpoints, instead of minutes.", minimum=1
    )
    keep: int = in_run(
        3,
        "Number of checkpoints to keep: the newest ones.",
        minimum=1,
        **most(1_000_000, "each save looks through all of them"),
    )
    keep_every: int | None = in_run(
        None, "Also keep the first checkpoint of every so many updates; none: of none.", minimum=1
    )

    # Devices
    mesh: str = in_devices(
        "auto",
        "Devices that share the games: auto (all), data=8, or data=4,fsdp=2; fsdp also shards the "
        "learner.",
    )
    cpu_devices: int | None = in_devices(
        None,
        "Number of devices to split the CPU into; --mesh auto uses as many as save time.",
        minimum=1,
        **most(512, "they share the cores"),
    )

    # Collecting
    updates_per_dispatch: int = in_collecting(
        1, "Updates per call of the compiled program; metrics are logged once per call.", minimum=1
    )

    # The network
    network: str = in_network(
        "cells",
        "mlp, cells, conv, gru, lstm, mpn, residual, resnet, transformer, recursive, or "
        "my_module:factory.",
        **WEIGHTS,
    )
    width: int | None = in_network(
        None,
        "Width of the hidden layers; none: the network's default.",
        minimum=1,
        **most(65_536, "a layer would take more than 16 GiB"),
        **WEIGHTS,
    )
    depth: int | None = in_network(
        None,
        "Number of hidden layers or blocks; none: the network's default.",
        minimum=1,
        **most(1_000, "no deeper network is known to learn"),
        **WEIGHTS,
    )
    precision: str = in_network(
        "f32",
        "Number format to compute in: f32, bf16, f16 or a jmp policy; parameters stay float32.",
    )
    precision_parts: str | None = in_network(
        None,
        "Other formats for parts of the network: '.heads.value*=f32'; commas separate several.",
    )

    # Learning
    learning_rate: float | str = in_learning(
        1e-3, "Learning rate; a number or a schedule.", minimum=0
    )
    optimizer: str = in_learning(
        "adam",
        "Optimizer; each has its learning rate. muon trains matrices, and Adam the rest.",
        choices=tuple(OPTIMIZERS),
        resume="the optimizer's state is part of its state",
    )
    weight_decay: float | None = in_learning(
        None,
        "Decoupled weight decay, multiplied by the learning rate; none: the optimizer's default.",
        minimum=0,
    )
    beta1: float | None = in_learning(
        None, "Decay of the optimizer's average of gradients; none: its default.", **_DECAY
    )
    beta2: float | None = in_learning(
        None, "Decay of its average of squared gradients; none: its default.", **_DECAY
    )
    eps: float | None = in_learning(
        None, "Added to the denominator of its update; none: its default.", minimum=0
    )
    momentum: float | None = in_learning(
        None, "Momentum of sgd and muon; none: the optimizer's default.", **_DECAY
    )
    vary: str | None = in_learning(
        None,
        "Settings of several trainings in one program, each with all --seeds: "
        "learning_rate=1e-4,3e-4.",
        resume="each of its trainings keeps its settings",
    )
    max_grad_norm: float = in_learning(
        0.5, "Scale gradients with a larger norm down to this norm.", above=0
    )
    ema: float | None = in_learning(
        None,
        "Evaluate and play an average of the weights with this decay, such as 0.999; none: the "
        "weights themselves.",
        above=0,
        resume="the average is part of its state",
        **most(0.9999999, "with 1 it would stay at the first weights"),
    )

    # Memory
    grad_accum: int = in_memory(
        1, "Accumulate each gradient over this many parts of the batch; saves memory.", minimum=1
    )
    remat: str = in_memory(
        "none",
        "Activations to recompute in the backward pass: none, those of blocks, or all.",
        choices=REMAT,
    )
    offload_optimizer: bool = in_memory(
        False, "Keep the optimizer's state in the host's memory between gradient steps."
    )

    # Watching
    tracker: str | None = in_watching(
        None, f"Also log to these, separated by commas: {', '.join(TRACKERS)}; none: to no other."
    )
    wandb_project: str = in_watching("hackmatrix-rl", "Project on Weights & Biases and trackio.")
    wandb_group: str | None = in_watching(
        None, "Group of the run there, such as the seeds of one experiment."
    )
    wandb_name: str | None = in_watching(
        None, "Name of the run on Weights & Biases; none: its folder's name."
    )
    wandb_tags: str | None = in_watching(None, "Tags of the run there, separated by commas.")
    wandb_notes: str | None = in_watching(None, "A note on the run, shown there.", maximum=10_000)
    wandb_mode: str = in_watching(
        "online",
        "Send metrics immediately, or store them in the run's folder for `wandb sync`.",
        choices=("online", "offline"),
    )
    wandb_artifacts: bool = in_watching(
        False, "Also upload checkpoints there; --resume-run wandb:ENTITY/PROJECT/RUN_ID."
    )
    wandb_members: bool = in_watching(
        False, "Also log each of several trainings in one program as a run there, in one group."
    )
    metric_names: str = in_watching(
        "own",
        f"Metric names in trackers: own (train/return), flat (until {ENDS}), or the original's.",
        choices=("own", "flat", "original"),
    )
    tensorboard: bool | None = in_watching(None, "Retired: `tracker` says it.")
    wandb: bool | None = in_watching(None, "Retired: `tracker` says it.")
    stop_after_nonfinite: int | None = in_watching(
        20,
        "Stop after this many updates in a row with only NaN or infinity; none: only warn.",
        minimum=1,
    )
    stop_unhealthy_members: bool = in_watching(
        False, "Leave out an unhealthy one of several trainings in one program, and continue."
    )
    profile: int | None = in_watching(
        None,
        "Write a profiler trace of this many updates, after the first, into the run's folder.",
        minimum=1,
    )
