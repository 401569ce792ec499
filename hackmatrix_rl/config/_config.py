"""The settings of a training on HackMatrix, checked."""

from dataclasses import dataclass
from typing import final, no_type_check

from hackmatrix_rl.config._checks import check_together
from hackmatrix_rl.config._reward import parse_reward, reward_text
from hackmatrix_rl.config._train_fields import TrainFields


@final
@no_type_check  # of beartype at run time: the class checks its own types, with clear messages
@dataclass(frozen=True, kw_only=True)
class TrainConfig(TrainFields):
    """Everything that decides a training on HackMatrix.

    Each field is a flag and a key of a TOML file, and explains itself in its help text. `None`
    switches a field off that may be `None` (`none` on the command line).

    Raises:
        ConfigError: if a value cannot work, before anything is compiled.
    """

    def check(self) -> None:
        """Raises a ConfigError if settings cannot go together; writes the reward's text alike."""
        object.__setattr__(self, "reward", reward_text(parse_reward(self.reward)))
        check_together(self)
