"""The weights of the reward as text: `victory=0.1,score_gain=0`."""

from hackmatrix_rl.config._renamed import closest
from hackmatrix_rl.errors import ConfigError, shortened
from hackmatrix_rl.game import TERM_NAMES, RewardConfig

_EXAMPLE = "victory=0.1,score_gain=0"


def parse_reward(text: str | None) -> RewardConfig:
    """The weights that a text says; a term that it does not name has the weight 1.

    Args:
        text: terms with their weights, with commas between them; `None` or empty for the
            game's own reward.

    Raises:
        ConfigError: a term is unknown or named twice, or its weight cannot work.
    """
    weights: dict[str, float] = {}
    for part in (text or "").split(",") if (text or "").strip() else ():
        name, equals, number = (each.strip() for each in part.partition("="))
        said = f"--reward {shortened(part.strip())}"
        if not equals or not name:
            raise ConfigError(f"{said}: must be a term and its weight, such as {_EXAMPLE}.")
        if name not in TERM_NAMES:
            near = closest(name, TERM_NAMES) or f"Use some of {', '.join(TERM_NAMES)}."
            raise ConfigError(f"{said}: unknown term {shortened(name)}. {near}")
        if name in weights:
            raise ConfigError(f"{said}: {name} has a weight already. Name it once.")
        try:
            weights[name] = float(number)
        except ValueError as error:
            raise ConfigError(
                f"{said}: the weight of {name} must be a number, such as {name}=0.5."
            ) from error
    try:
        return RewardConfig(**weights)
    except ValueError as error:
        raise ConfigError(f"--reward {shortened(text)}: {error}.") from error


def reward_text(reward: RewardConfig) -> str | None:
    """The text of weights, always the same for the same ones; `None` where all are 1."""
    texts = [f"{name}={weight!r}".removesuffix(".0") for name, weight in reward.changed().items()]
    return ",".join(texts) or None
