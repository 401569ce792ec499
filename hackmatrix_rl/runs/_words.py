"""The settings of a run in words, as commands print them."""

from hackmatrix_rl.runs.config import HACKMATRIX, RunConfig, TrainConfig, rate_text, rates_in_words


def length_in_words(config: RunConfig) -> str:
    """The length of the training: `1,000 steps in 10 updates of 4 games x 25 steps`."""
    if isinstance(config, TrainConfig):
        return (
            f"{config.total_timesteps:,} steps in {config.num_updates:,} updates of "
            f"{config.num_envs:,} games x {config.steps_of_each} steps"
        )
    return config.words().length or _goal(config)


def update_in_words(config: RunConfig, length: str | None = None) -> str:
    """An update, the network and the learning rate, in a line; `length` is the schedule's."""
    return (
        f"Each update: {config.words().learning}; network {network_in_words(config)}, "
        f"{config.precision}, {_schedule(config, length or _goal(config))}, "
        f"seed {config.seed}"
    )


def network_in_words(config: RunConfig) -> str:
    """`mlp of width 64`."""
    return config.network if config.width is None else f"{config.network} of width {config.width}"


def rate_in_words(config: RunConfig, length: str) -> str:
    """The learning rate over a length such as `62 updates`; with `--vary`, of each training."""
    rates = config.varied.get("learning_rate", (config.learning_rate,))
    if isinstance(config, TrainConfig):
        rates = tuple(map(rate_text, rates))
    return rates_in_words(rates, length)


def environment_in_words(config: TrainConfig) -> str:
    """`League original` of HackMatrix; `t_maze (corridor=5)` of any other environment."""
    if config.env == HACKMATRIX:
        return f"League {config.league}"
    return config.env if config.env_args is None else f"{config.env} ({config.env_args})"


def trainings_in_words(config: RunConfig) -> str:
    """The number of trainings in one program, and their varied settings."""
    last = config.seed + config.seeds - 1
    seeds = f"seeds {config.seed} to {last}" if config.seeds > 1 else f"seed {config.seed}"
    varied = f", {config.vary}" if config.vary else ""
    interval = config.pbt_interval if isinstance(config, TrainConfig) else None
    copies = f", copied every {interval} updates" if interval else ""
    return f"{config.members} in one program: {seeds}{varied}{copies}"


def details(config: RunConfig) -> list[str]:
    """Further lines at the start of a run: its data, its trainings, its initial weights."""
    lines = [*config.words().details]
    if config.members > 1:
        plays = "the first healthy one plays in evaluations"
        if config.best_by is not None:
            plays += f" during the training, the one of the highest {config.best_by} at its end"
        lines.append(f"Trainings: {trainings_in_words(config)}; {plays}")
    if isinstance(config, TrainConfig):
        if config.env != HACKMATRIX:
            lines.append(f"Environment: {environment_in_words(config)}")
        if config.init is not None:
            lines.append(f"Weights at the start: of {config.init}")
    return lines


def plan_in_words(config: RunConfig, devices: int) -> dict[str, str]:
    """The work of a run on `devices` devices, by topic."""
    words = config.words(devices)
    trainings = {"trainings": trainings_in_words(config)} if config.members > 1 else {}
    own = words.plan or {"learning": words.learning}
    if not isinstance(config, TrainConfig):
        return {**trainings, **own, "schedule": _schedule(config, _goal(config))}
    games, steps = config.num_envs, f"{config.steps_taken:,}"
    gradient = "" if words.gradient_steps is None else f"; {words.gradient_steps}"
    return {
        **trainings,
        "games": f"{games:,}, {games // devices:,} on each device; {config.steps_of_each} steps "
        "each between updates",
        **own,
        "steps": f"{steps} in {config.num_updates:,} updates of {config.batch:,}{gradient}",
        "schedule": _schedule(config, f"{steps} steps"),
    }


def _goal(config: RunConfig) -> str:
    return f"{config.goal:,} {config.counts}"


def _schedule(config: RunConfig, length: str) -> str:
    own = "" if config.optimizer == type(config).optimizer else f"{config.optimizer}, "
    return f"{own}learning rate {rate_in_words(config, length)}"
