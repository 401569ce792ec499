"""What a run will do, in words."""

from hackmatrix_rl.config import FROM_SEQUENCES, RunConfig, SelfPlayConfig, TrainConfig


def work_in_words(config: RunConfig, *, devices: int, parameters: int) -> dict[str, str]:
    """The work of a run by topic, for its plan.

    Args:
        config: its settings.
        devices: number of devices.
        parameters: number of the network's parameters.
    """
    size = f"{parameters:,} parameters"
    network = {"network": f"{_named(config)}, {size}, {config.precision}"}
    if isinstance(config, SelfPlayConfig):
        return {**_self_play(config, devices), **network}
    assert isinstance(config, TrainConfig), f"{type(config).__name__} has no plan"
    work = _replaying if config.algorithm == FROM_SEQUENCES else _training
    return {**work(config, devices), **network}


def command_of(config: RunConfig) -> str:
    """The command that trains with such settings."""
    return "selfplay" if isinstance(config, SelfPlayConfig) else "train"


def network_in_words(config: RunConfig) -> str:
    """`mlp of width 64, f32`."""
    return f"{_named(config)}, {config.precision}"


def _named(config: RunConfig) -> str:
    """`mlp of width 64`."""
    width = "" if config.width is None else f" of width {config.width}"
    return f"{config.network}{width}"


def board_in_words(config: SelfPlayConfig) -> str:
    """The board of a run, and what a full one means."""
    full = "a draw" if config.full_board == "draw" else "the second player's"
    return f"n={config.vertices}, k={config.k}; a full board is {full}"


def replay_in_words(config: TrainConfig) -> str:
    """What an update of Q-learning learns from."""
    steps = "a gradient step" if config.train_steps == 1 else f"{config.train_steps} gradient steps"
    before = f" after {config.burn_in} that make the memory" if config.burn_in else ""
    return (
        f"{steps} on {config.sequence_batch_size} sequences of {config.sequence_length} "
        f"actions{before}"
    )


def _replaying(config: TrainConfig, devices: int) -> dict[str, str]:
    envs = config.num_envs
    taken = config.num_updates * config.batch
    return {
        "games": f"{envs:,}, {envs // devices:,} on each device; {config.train_freq} steps each "
        "between updates",
        "sequences": f"{replay_in_words(config)}; of the newest {config.buffer_size:,} steps",
        "steps": f"{taken:,} in {config.num_updates:,} updates of {config.batch:,}; "
        f"{config.num_updates * config.train_steps:,} gradient steps at most",
        "schedule": _schedule(config, taken),
    }


def _training(config: TrainConfig, devices: int) -> dict[str, str]:
    envs, steps, parts = config.num_envs, config.num_steps, config.minibatches
    each, minibatch = envs // devices, envs // parts
    accumulated = f" in {config.grad_accum} parts" if config.grad_accum > 1 else ""
    taken = config.num_updates * config.batch
    return {
        "games": f"{envs:,}, {each:,} on each device; {steps} steps each between updates",
        "minibatches": f"{parts} of {minibatch:,} games x {steps} steps{accumulated}, "
        f"{minibatch // devices:,} games on each device; {config.update_epochs} epochs",
        "steps": f"{taken:,} in {config.num_updates:,} updates of {config.batch:,}; "
        f"{config.num_updates * config.update_epochs * parts:,} gradient steps",
        "schedule": _schedule(config, taken),
    }


def _schedule(config: TrainConfig, steps: int) -> str:
    rate = config.learning_rate
    if isinstance(rate, str):
        return f"learning rate {rate} over {steps:,} steps"
    if config.learning_rate_schedule == "constant":
        return f"learning rate {rate:g} throughout"
    return f"learning rate {rate:g} falling to 0 over {steps:,} steps"


def _self_play(config: SelfPlayConfig, devices: int) -> dict[str, str]:
    games, rate = config.game_batch_size, config.learning_rate
    return {
        "board": board_in_words(config),
        "games": f"{config.num_games:,}; {games:,} at once, {games // devices:,} on each device; "
        f"{config.moves_per_update} moves each between updates",
        "search": f"{config.num_simulations} simulations before each move",
        "learning": f"{config.train_steps} gradient steps of {config.training_batch_size:,} "
        f"positions an update, of the newest {config.buffer_size:,}",
        "schedule": f"learning rate {rate} over {config.num_games:,} games"
        if isinstance(rate, str)
        else f"learning rate {rate:g} throughout",
    }
