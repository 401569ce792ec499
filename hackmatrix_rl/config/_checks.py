"""Checks of settings together, before anything is compiled."""

from collections.abc import Mapping
from dataclasses import fields

from hackmatrix_rl.agent.precision import (
    MixedPrecision,
    PrecisionPolicy,
    parse_policy,
    precision,
)
from hackmatrix_rl.config._algorithms import FROM_SEQUENCES, FROM_TEACHER, NOT_REPLAYED
from hackmatrix_rl.config._options import (
    COUNTED,
    as_flags,
)
from hackmatrix_rl.config._replay_config import ReplayConfig
from hackmatrix_rl.config._run_config import RunConfig
from hackmatrix_rl.config._train_fields import TrainFields
from hackmatrix_rl.errors import (
    ConfigError,
    as_given,
    flag,
)
from hackmatrix_rl.system import check_path
from hackmatrix_rl.training.sharding import (
    check_split,
    divisors,
    parse_mesh,
)

_REPLAY_SIZES = (
    *("num_envs", "train_freq", "buffer_size", "sequence_length", "burn_in", "n_step"),
    *("sequence_batch_size", "train_steps", "learning_starts", "target_update", "grad_accum"),
)


def check_together(config: TrainFields) -> None:
    """Raises a ConfigError if some of the settings cannot go together."""
    check_folders(config)
    _check_sizes(config)
    lengths = check_mesh_text(config.mesh)
    check_precision(config)
    if config.algorithm == FROM_SEQUENCES:
        _check_replay(config)
        return
    _check_no_replay(config)
    if lengths is not None:
        check_config_on_mesh(config, lengths)
    _check_minibatches(config)
    if config.aux_every > 1 and config.aux_coefficient == 0:
        raise ConfigError(
            f"--aux-every {config.aux_every}: has no effect while --aux-coefficient is "
            "0. Use --aux-coefficient 0.1, say, or leave --aux-every out."
        )
    _check_value(config)
    _check_start(config)
    _check_algorithm(config)
    if config.aux_victory and config.aux_coefficient == 0:
        raise ConfigError(
            "--aux-victory: has no effect while --aux-coefficient is 0. Use --aux-coefficient "
            "0.1, say, or leave --aux-victory out."
        )
    _check_watching(config)


def check_folders(config: RunConfig) -> None:
    """Raises a ConfigError if a folder's name cannot be one."""
    for name in ("run_dir", "checkpoint_dir"):
        check_path(getattr(config, name), flag(name))


def _check_value(config: TrainFields) -> None:
    """Checks that the value's head, units and clip go together."""
    if config.value_head == "scalar":
        return
    if config.value_scale == "none":
        raise ConfigError(
            f"--value-head {config.value_head} has bins around the mean return, but --value-scale "
            "none keeps plain returns. Use --value-scale standard or compressed."
        )
    if config.value_clip is not None:
        raise ConfigError(
            f"--value-clip {config.value_clip:g} clips squared errors, which --value-head "
            f"{config.value_head} does not have. Leave --value-clip out."
        )


def _check_start(config: TrainFields) -> None:
    """Checks what decides how training begins."""
    check_path(config.init, "--init")
    _check_rate(config)
    if config.teacher_kl != 0 and config.init is None:
        raise ConfigError(
            f"--teacher-kl {config.teacher_kl}: the teacher is the policy that training starts "
            "from. Use --init RUN beside it, or leave --teacher-kl out."
        )
    if config.critic_warmup_timesteps >= config.total_timesteps:
        raise ConfigError(
            f"--critic-warmup-timesteps {config.critic_warmup_timesteps} leaves nothing of "
            f"--total-timesteps {config.total_timesteps} for the policy. Use less."
        )


def _check_rate(config: TrainFields) -> None:
    """Checks the learning rate and its schedule."""
    if config.learning_rate == 0:
        raise ConfigError("--learning-rate 0.0 is too small. Use more than 0.")
    if isinstance(config.learning_rate, str) and config.learning_rate_schedule == "constant":
        raise ConfigError(
            f"--learning-rate {config.learning_rate} is a schedule already. Leave "
            "--learning-rate-schedule out."
        )


def _check_algorithm(config: TrainFields) -> None:
    """Checks that the teacher and the algorithm go together."""
    if config.algorithm == FROM_TEACHER:
        _check_imitation(config)
    elif config.teacher is not None:
        raise ConfigError(
            f"--teacher {config.teacher}: has no effect on --algorithm {config.algorithm}. Use "
            "hackmatrix-rl imitate, or leave --teacher out."
        )


def _check_imitation(config: TrainFields) -> None:
    """Checks what imitation needs, and what has no effect on it."""
    if config.teacher is None:
        raise ConfigError(
            "--algorithm imitation needs a player to learn from. Use --teacher runner, say."
        )
    if config.buffer_size < config.batch:
        raise ConfigError(
            f"--buffer-size {config.buffer_size} is less than the {config.batch} positions of an "
            f"update (--num-envs {config.num_envs} x --num-steps {config.num_steps}). Use "
            f"--buffer-size {config.batch} or more."
        )
    without = {
        "aux_coefficient": 0,
        "critic_warmup_timesteps": 0,
        "debug": None,
        "target_kl": None,
        "teacher_kl": 0,
    }
    for name, off in without.items():
        if (value := getattr(config, name)) != off:
            raise ConfigError(
                f"{flag(name)} {value}: imitation has no such thing. Use --algorithm ppo, or "
                f"{flag(name)} {'none' if off is None else off}."
            )


def _check_replay(config: TrainFields) -> None:
    """Checks what Q-learning needs, and what has no effect on it."""
    for name in NOT_REPLAYED:
        _refuse_changed(config, name)
    if config.value_scale != "standard":
        raise ConfigError(
            f"--value-scale {config.value_scale}: Q-learning has units of its own. Use "
            "--rescale-values or --no-rescale-values."
        )
    if isinstance(config.gamma, str):
        raise ConfigError(
            f"--gamma {config.gamma}: --algorithm r2d2 learns with one discount. Use a number, "
            "such as --gamma 0.997."
        )
    _check_rate(config)
    check_path(config.init, "--init")
    try:
        config.replay_sizes()
    except ValueError as error:
        raise ConfigError(as_flags(str(error), {each: each for each in _REPLAY_SIZES})) from error
    if config.learning_starts >= config.total_timesteps:
        raise ConfigError(
            f"--learning-starts {config.learning_starts} leaves nothing of --total-timesteps "
            f"{config.total_timesteps} to learn in. Use less."
        )


def _check_no_replay(config: TrainFields) -> None:
    """Refuses what only Q-learning has."""
    for each in fields(ReplayConfig):
        _refuse_changed(config, each.name, instead="Use --algorithm r2d2, or leave it out.")


def _refuse_changed(config: TrainFields, name: str, instead: str = "Leave it out.") -> None:
    """Refuses a setting that has no effect on the algorithm, unless it has its default."""
    value, default = getattr(config, name), type(config).__dataclass_fields__[name].default
    if value != default:
        said = as_given(name, value)
        raise ConfigError(f"{said}: has no effect on --algorithm {config.algorithm}. {instead}")


def _check_sizes(config: TrainFields) -> None:
    """Checks that every number counted in 32 bits fits. This allocates nothing."""
    if config.batch > COUNTED:
        fits = max(1, COUNTED // config.steps_of_each)
        steps = "--train-freq" if config.algorithm == FROM_SEQUENCES else "--num-steps"
        raise ConfigError(
            f"--num-envs {config.num_envs} x {steps} {config.steps_of_each} are {config.batch} "
            f"actions in an update, which numbers them in 32 bits. Use --num-envs {fits}, or fewer "
            f"{steps}."
        )
    if config.num_updates > COUNTED:
        raise ConfigError(
            f"--total-timesteps {config.total_timesteps} are {config.num_updates} updates of "
            f"{config.batch} actions, and updates are counted in 32 bits. Use --total-timesteps "
            f"{COUNTED * config.batch}, or more --num-envs."
        )


def _check_watching(config: TrainFields) -> None:
    if config.stop_after_kl is not None and config.kl_alarm is None:
        raise ConfigError(
            f"--stop-after-kl {config.stop_after_kl} counts updates beyond --kl-alarm, which is "
            "none. Use --kl-alarm 0.2, say, or --stop-after-kl none."
        )
    computes = precision(config.precision, config.precision_table)
    scales = isinstance(computes, MixedPrecision) and computes.scales
    if config.debug in ("nans", "checks") and scales:
        raise ConfigError(
            f"--debug {config.debug} would stop at the overflows that the loss scale of float16 "
            "provokes on purpose. Use --precision f32 or --precision bf16 beside it."
        )


def check_mesh_text(text: str) -> Mapping[str, int] | None:
    """The lengths of a mesh, without looking for devices; `None` for `auto`.

    Raises:
        ConfigError: the text describes no mesh.
    """
    try:
        return parse_mesh(text)
    except ValueError as error:
        raise ConfigError(f"--{error}") from error


def check_config_on_mesh(config: TrainFields, lengths: Mapping[str, int]) -> None:
    """Raises a ConfigError if the run's games do not divide over a mesh of these lengths."""
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


def _check_minibatches(config: TrainFields) -> None:
    size, count = config.minibatch_size, config.minibatches
    if size is not None and config.num_minibatches is not None:
        raise ConfigError(
            f"--minibatch-size {size} and --num-minibatches {config.num_minibatches}: both say "
            "how to cut a batch. Use one of them."
        )
    if size is not None and (size % config.num_steps or config.batch % size):
        sizes = [config.num_steps * games for games in divisors(config.num_envs)]
        raise ConfigError(
            f"--minibatch-size {size} does not cut the {config.batch} actions of an update "
            f"(--num-envs {config.num_envs} x --num-steps {config.num_steps}) into equal numbers "
            f"of whole games. Use {_neighbours('--minibatch-size', size, sizes)}."
        )
    if config.num_envs % count:
        nearest = max(1, round(config.num_envs / count)) * count
        raise ConfigError(
            f"--num-minibatches {count} does not divide --num-envs {config.num_envs}. Use "
            f"{_neighbours('--num-minibatches', count, divisors(config.num_envs))}, or "
            f"--num-envs {nearest}."
        )
    games = config.num_envs // count
    if games % config.grad_accum:
        said = _neighbours("--grad-accum", config.grad_accum, divisors(games))
        raise ConfigError(
            f"--grad-accum {config.grad_accum} does not divide the {games} games of a minibatch "
            f"(--num-envs {config.num_envs} in {count} minibatches). Use {said}."
        )


def _neighbours(name: str, given: int, possible: list[int]) -> str:
    below = [n for n in possible if n < given][-1:]
    over = [n for n in possible if n > given][:1]
    return " or ".join(f"{name} {n}" for n in below + over)


def check_precision(config: RunConfig) -> None:
    """Raises a ConfigError if a precision policy does not exist."""
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
    """Raises a ConfigError if a kind of device does not compute in a dtype of the policy.

    Args:
        computes: the precision policy.
        platform: `cpu`, `gpu` or `tpu`.
    """
    if platform == "tpu" and isinstance(computes, MixedPrecision) and computes.scales:
        raise ConfigError(
            "--precision (or --precision-parts) asks for f16, in which no TPU computes. Use "
            "--precision bf16 there, or --device gpu or cpu."
        )
