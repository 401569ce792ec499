"""What a training run is made with: one frozen dataclass, from which flags and files follow."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, get_args, no_type_check

from hackmatrix_rl.agent import REMAT, MixedPrecision, PrecisionPolicy, precision
from hackmatrix_rl.agent.precision_names import parse_parts, parse_policy
from hackmatrix_rl.game.config import GameConfig
from hackmatrix_rl.training.mesh import AUTO, check_split, parse_mesh

DEFAULT_MINIBATCHES = 8


class ConfigError(ValueError):
    """A setting that cannot work; the message names the flag and what would work."""


def flag(name: str) -> str:
    """The command line's spelling of a field: `num_envs` is `--num-envs`."""
    return "--" + name.replace("_", "-")


def _option(
    default: Any,
    group: str,
    explanation: str,
    *,
    minimum: int | float | None = None,
    maximum: int | float | None = None,
    above: int | float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field with its one-line explanation and its range; the command line reads both."""
    limits = {"minimum": minimum, "maximum": maximum, "above": above, "choices": choices}
    return field(default=default, metadata={"group": group, "help": explanation, **limits})


@no_type_check  # at run time, that is: it checks its own types, with messages for users
@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that decides a training run. Each field is a flag and a key of a TOML file.

    The explanation of each field stands beside it. Fields that may be `None` are switched off
    by it (`none` on the command line).

    Raises:
        ConfigError: if a value cannot work, before anything is compiled.
    """

    # The run
    total_timesteps: int = _option(
        24_000_000, "Run", "Actions to train on, over all games; whole updates are done.", minimum=1
    )
    seed: int = _option(
        0, "Run", "Seed of everything random in the run.", minimum=0, maximum=2**32 - 1
    )
    deterministic: bool = _option(
        False, "Run", "Set what makes runs repeat bit for bit on this kind of device; costs speed."
    )
    device: str = _option("auto", "Run", "Where to compute.", choices=("auto", "cpu", "gpu", "tpu"))
    run_dir: str | None = _option(
        None, "Run", "The run's own folder; by default runs/ and a dated name, the run's id."
    )
    checkpoint_dir: str | None = _option(
        None, "Run", "Where checkpoints go; by default checkpoints/ in the run's folder."
    )
    save_interval_minutes: float | None = _option(
        10.0, "Run", "Minutes between checkpoints; none saves at the end alone.", above=0
    )
    save_interval: int | None = _option(
        None, "Run", "Updates between checkpoints, in place of minutes.", minimum=1
    )
    keep: int = _option(3, "Run", "How many of the newest checkpoints are kept.", minimum=1)
    keep_best: bool = _option(
        False, "Run", "Also keep the checkpoint before which the mean return was highest."
    )
    eval_episodes: int = _option(
        1000,
        "Run",
        "Games for the summary at the end, for each policy in it; 0 skips it.",
        minimum=0,
    )

    # The game
    max_steps: int | None = _option(
        1000,
        "Game",
        "Cut an episode after so many actions (truncation); none lets it run.",
        minimum=1,
    )
    max_enemies: int = _option(
        GameConfig.max_enemies,
        "Game",
        "Room for enemies in a game; spawns beyond are dropped and counted.",
        minimum=1,
    )
    max_transmissions: int = _option(
        GameConfig.max_transmissions,
        "Game",
        "Room for transmissions in a game, likewise.",
        minimum=1,
    )
    history: int = _option(GameConfig.history, "Game", "Turns that UNDO can take back.", minimum=1)

    # Devices
    mesh: str = _option(
        AUTO,
        "Devices",
        "Devices that share the games: auto (all), data=8, or data=4,fsdp=2, which cuts the "
        "learner in two.",
    )

    # Collecting
    num_envs: int = _option(1024, "Collecting", "Games played side by side.", minimum=1)
    num_steps: int = _option(
        32, "Collecting", "Actions in each game between two updates.", minimum=1
    )
    updates_per_dispatch: int = _option(
        1,
        "Collecting",
        "Updates done by one call of the compiled program; metrics are logged once for each call.",
        minimum=1,
    )

    # The network
    network: str = _option(
        "cells",
        "Network",
        "mlp, cells, conv, gru, residual, or my_module:factory for one of your own.",
    )
    width: int | None = _option(
        None, "Network", "Width of its hidden layers; none is the network's own.", minimum=1
    )
    depth: int | None = _option(
        None,
        "Network",
        "Number of its hidden layers, or blocks; none is the network's own.",
        minimum=1,
    )
    precision: str = _option(
        "f32",
        "Network",
        "Number format to compute in: f32, bf16, f16 or a policy of jmp; parameters stay float32.",
    )
    precision_parts: str | None = _option(
        None,
        "Network",
        "Other formats for parts of it, by patterns of paths: '.heads.value*=f32', with commas.",
    )

    # Learning
    learning_rate: float = _option(1e-3, "Learning", "Step size of Adam.", above=0)
    learning_rate_schedule: str = _option(
        "linear",
        "Learning",
        "Hold the step size, or lower it to 0 over the run.",
        choices=("constant", "linear"),
    )
    num_epochs: int = _option(
        2, "Learning", "Passes over what was collected in an update.", minimum=1
    )
    num_minibatches: int | None = _option(
        None,
        "Learning",
        "Parts that each pass is cut into, by games; 8, unless --minibatch-size says.",
        minimum=1,
    )
    minibatch_size: int | None = _option(
        None,
        "Learning",
        "Actions in such a part, instead: a larger batch has more parts.",
        minimum=1,
    )
    discount: float = _option(
        0.99, "Learning", "What a reward one step later is worth (gamma).", minimum=0, maximum=1
    )
    trace_decay: float = _option(
        0.95,
        "Learning",
        "Trust in returns over the value network: lambda of GAE.",
        minimum=0,
        maximum=1,
    )
    clip: float = _option(
        0.2, "Learning", "How far the probability ratio may move before it is clipped.", above=0
    )
    value_clip: float | None = _option(
        None, "Learning", "Clip changes of the value likewise; none does not.", above=0
    )
    value_scale: str = _option(
        "standard",
        "Learning",
        "Units of the value network: standardised returns, compressed and "
        "then standardised, or as they are.",
        choices=("standard", "compressed", "none"),
    )
    value_coefficient: float = _option(0.5, "Learning", "Weight of the value loss.", minimum=0)
    entropy_coefficient: float = _option(
        0.05, "Learning", "Weight of the entropy bonus, which keeps the policy trying.", minimum=0
    )
    normalize_advantage: bool = _option(
        True, "Learning", "Bring the advantages of each minibatch to mean 0, deviation 1."
    )
    aux_coefficient: float = _option(
        0.0,
        "Learning",
        "Weight of predicting each part of the next reward, and death; 0 does without.",
        minimum=0,
    )
    aux_every: int = _option(1, "Learning", "Do so at every so-manieth minibatch alone.", minimum=1)
    max_gradient_norm: float = _option(
        0.5, "Learning", "Longer gradients are shortened to this norm.", above=0
    )
    kl_limit: float | None = _option(
        None,
        "Learning",
        "Skip the rest of an update once the policy moved so far; none never does.",
        above=0,
    )

    # Memory
    grad_accum: int = _option(
        1,
        "Memory",
        "Parts of a minibatch that are learned from one after another, to the same result.",
        minimum=1,
    )
    remat: str = _option(
        "none",
        "Memory",
        "What the backward pass computes again instead of keeping it: inside of blocks, or all.",
        choices=REMAT,
    )
    offload_optimizer: bool = _option(
        False, "Memory", "Keep the optimizer's state in the host's memory between gradient steps."
    )

    # Watching
    wandb: bool = _option(False, "Watching", "Also log to Weights & Biases.")
    wandb_project: str = _option("hackmatrix-rl", "Watching", "Project there.")
    wandb_mode: str = _option(
        "online",
        "Watching",
        "Send at once, or keep in the run's folder for `wandb sync`.",
        choices=("online", "offline"),
    )
    tensorboard: bool = _option(
        False,
        "Watching",
        "Also write TensorBoard events into the run's folder.",
    )
    stop_after_nonfinite: int | None = _option(
        20,
        "Watching",
        "Stop after so many updates in a row with nothing but NaN or infinity; none warns alone.",
        minimum=1,
    )
    entropy_floor: float | None = _option(
        0.02,
        "Watching",
        "Warn while the policy's entropy (nats) is lower, ten updates in a row; none never does.",
        above=0,
    )
    kl_alarm: float | None = _option(
        0.2, "Watching", "Warn when an update moves the policy further; none never does.", above=0
    )
    stop_after_kl: int | None = _option(
        None,
        "Watching",
        "Stop after so many updates in a row beyond --kl-alarm; none warns alone.",
        minimum=1,
    )
    debug: str | None = _option(
        None,
        "Watching",
        "Find NaN (nans), bad indices and divisions too (checks), or compile nothing (nojit).",
        choices=("nans", "checks", "nojit"),
    )
    profile: int | None = _option(
        None,
        "Watching",
        "Write a profiler trace of so many updates, after the first, into the run's folder.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = _typed(each, getattr(self, each.name))
            object.__setattr__(self, each.name, value)
            if value is not None:
                _check_range(each, value)
        _check_together(self)

    @property
    def batch(self) -> int:
        """Environment steps in one update."""
        return self.num_envs * self.num_steps

    @property
    def minibatches(self) -> int:
        """Parts that each pass over a batch is cut into, however that was said."""
        if self.minibatch_size is not None:
            return self.batch // self.minibatch_size
        return DEFAULT_MINIBATCHES if self.num_minibatches is None else self.num_minibatches

    @property
    def num_updates(self) -> int:
        """Whole updates that reach `total_timesteps`."""
        return math.ceil(self.total_timesteps / self.batch)

    @property
    def precision_table(self) -> dict[str, str]:
        """`precision_parts` as a table from patterns to policies."""
        return {} if self.precision_parts is None else parse_parts(self.precision_parts)

    def game(self) -> GameConfig:
        """The game's static sizes."""
        return GameConfig(
            max_enemies=self.max_enemies,
            max_transmissions=self.max_transmissions,
            history=self.history,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values by field name, as JSON and TOML can hold them."""
        return dataclasses.asdict(self)


def field_types(each: "dataclasses.Field[Any]") -> tuple[type, bool]:
    """A field's plain type, and whether it may be `None`."""
    annotation = each.type
    if isinstance(annotation, UnionType):
        plain = [part for part in get_args(annotation) if part is not type(None)]
        return plain[0], True
    assert isinstance(annotation, type)
    return annotation, False


def _typed(each: "dataclasses.Field[Any]", value: Any) -> Any:
    kind, optional = field_types(each)
    if value is None and optional:
        return None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        article = {"int": "a whole number", "float": "a number", "bool": "true or false"}
        wanted = article.get(kind.__name__, "text") + (" or none" if optional else "")
        raise ConfigError(f"{flag(each.name)} {value!r}: must be {wanted}.")
    return value


def _check_range(each: "dataclasses.Field[Any]", value: Any) -> None:
    limits = each.metadata
    said = f"{flag(each.name)} {value}"
    if limits["choices"] and value not in limits["choices"]:
        raise ConfigError(f"{said}: unknown. Use {_one_of(limits['choices'])}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{said}: must be a finite number.")
    if limits["above"] is not None and value <= limits["above"]:
        raise ConfigError(f"{said} is too small. Use more than {limits['above']}.")
    if limits["minimum"] is not None and value < limits["minimum"]:
        raise ConfigError(f"{said} is too small. Use {limits['minimum']} or more.")
    if limits["maximum"] is not None and value > limits["maximum"]:
        raise ConfigError(f"{said} is too large. Use {limits['maximum']} or less.")


def _check_together(config: TrainConfig) -> None:
    _check_mesh(config)
    _check_precision(config)
    _check_minibatches(config)
    if config.aux_every > 1 and config.aux_coefficient == 0:
        raise ConfigError(
            f"--aux-every {config.aux_every}: there is nothing to do so often while "
            "--aux-coefficient is 0. Use --aux-coefficient 0.1, say, or leave --aux-every out."
        )
    _check_watching(config)


def _check_watching(config: TrainConfig) -> None:
    if config.stop_after_kl is not None and config.kl_alarm is None:
        raise ConfigError(
            f"--stop-after-kl {config.stop_after_kl} needs a --kl-alarm to count by. Use "
            "--kl-alarm 0.2, say, or --stop-after-kl none."
        )
    computes = precision(config.precision, config.precision_table)
    scales = isinstance(computes, MixedPrecision) and computes.scales
    if config.debug in ("nans", "checks") and scales:
        raise ConfigError(
            f"--debug {config.debug} would stop at the overflows that the loss scale of float16 "
            "provokes on purpose. Use --precision f32 or --precision bf16 beside it."
        )


def _check_mesh(config: TrainConfig) -> None:
    """What can be said without looking for devices; `auto` is for them to say."""
    try:
        lengths = parse_mesh(config.mesh)
    except ValueError as error:
        raise ConfigError(f"--{error}") from error
    if lengths is not None:
        check_config_on_mesh(config, lengths)


def check_config_on_mesh(config: TrainConfig, lengths: Mapping[str, int]) -> None:
    """Raises a ConfigError if the run's games cannot be cut over a mesh of these lengths."""
    try:
        check_split(
            lengths,
            num_envs=config.num_envs,
            num_minibatches=max(1, config.minibatches),
            grad_accum=config.grad_accum,
            spell=flag,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _check_minibatches(config: TrainConfig) -> None:
    size, count = config.minibatch_size, config.minibatches
    if size is not None and config.num_minibatches is not None:
        raise ConfigError(
            f"--minibatch-size {size} and --num-minibatches {config.num_minibatches}: both say "
            "how to cut a batch. Use one of them."
        )
    if size is not None and (size % config.num_steps or config.batch % size):
        sizes = [config.num_steps * games for games in _divisors(config.num_envs)]
        raise ConfigError(
            f"--minibatch-size {size} does not cut the {config.batch} actions of an update "
            f"(--num-envs {config.num_envs} x --num-steps {config.num_steps}) into equal numbers "
            f"of whole games. Use {_neighbours('--minibatch-size', size, sizes)}."
        )
    if config.num_envs % count:
        nearest = max(1, round(config.num_envs / count)) * count
        raise ConfigError(
            f"--num-minibatches {count} does not divide --num-envs {config.num_envs}. Use "
            f"{_neighbours('--num-minibatches', count, _divisors(config.num_envs))}, or "
            f"--num-envs {nearest}."
        )
    games = config.num_envs // count
    if games % config.grad_accum:
        said = _neighbours("--grad-accum", config.grad_accum, _divisors(games))
        raise ConfigError(
            f"--grad-accum {config.grad_accum} does not divide the {games} games of a minibatch "
            f"(--num-envs {config.num_envs} in {count} minibatches). Use {said}."
        )


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _neighbours(name: str, given: int, possible: list[int]) -> str:
    below = [n for n in possible if n < given][-1:]
    over = [n for n in possible if n > given][:1]
    return " or ".join(f"{name} {n}" for n in below + over)


def _check_precision(config: TrainConfig) -> None:
    try:
        parse_policy(config.precision)
    except ValueError as error:
        said = f"{error}" if str(error).endswith("?") else f"{error}."
        raise ConfigError(f"--precision {config.precision}: {said}") from error
    try:
        computes = precision(config.precision, config.precision_table)
    except ValueError as error:
        raise ConfigError(f"--precision-parts {config.precision_parts}: {error}.") from error
    check_platform(computes, config.device)


def check_platform(computes: PrecisionPolicy, platform: str) -> None:
    """Raises a ConfigError if a kind of device does not compute in a dtype that is asked for.

    Args:
        computes: the policy that asks.
        platform: `cpu`, `gpu` or `tpu`.
    """
    if platform == "tpu" and isinstance(computes, MixedPrecision) and computes.scales:
        raise ConfigError(
            "--precision (or --precision-parts) asks for f16, in which no TPU computes. Use "
            "--precision bf16 there, or --device gpu or cpu."
        )


def _one_of(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
