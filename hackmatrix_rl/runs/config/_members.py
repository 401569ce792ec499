"""The trainings that `seeds` and `vary` ask for in one program."""

from dataclasses import replace
from typing import Any, TypeVar, cast

from hackmatrix_rl.runs.config._environments import env_code
from hackmatrix_rl.runs.config._population_based import no_exploits
from hackmatrix_rl.runs.config._run_fields import MOST_MEMBERS, RunFields
from hackmatrix_rl.runs.config._texts import parse_vary
from hackmatrix_rl.runs.config._traits import Traits
from hackmatrix_rl.system.errors import ConfigError, as_given, refusing, shortened

Config = TypeVar("Config", bound="Members")


def member_settings(vary: str | None, seeds: int) -> list[str]:
    """The settings of `--vary` for each training: `learning_rate=0.01`; empty texts without it."""
    varied = parse_vary(vary)
    rows = zip(*varied.values(), strict=True)
    named = [
        ", ".join(f"{name}={_in_words(value)}" for name, value in zip(varied, row, strict=True))
        for row in rows
    ]
    return [each for each in named or [""] for _ in range(seeds)]


def _in_words(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


class Members(Traits, RunFields):
    """The part of a config about several trainings in one program."""

    begun_at: int
    then: Any
    one_device: Any  # a property

    def check_members(self) -> None:
        """Raises a ConfigError unless one program can do these trainings."""
        said = f"--vary {self.vary}: " if self.vary else f"--seeds {self.seeds}: "
        with refusing(said):
            varied = parse_vary(self.vary)
        for name in varied:
            if name not in self.varies:
                raise ConfigError(
                    f"{said}{shortened(name)} cannot differ between the trainings of one program "
                    f"(--algorithm {self.algorithm}). Use {', '.join(self.varies)}, or one run for "
                    "each value."
                )
            if len(varied[name]) == 1:
                instead = as_given(name, varied[name][0])
                raise ConfigError(f"{said}expected two values or more. Use {instead} for one.")
        if self.members == 1:
            if self.wandb_members:
                raise ConfigError(
                    "--wandb-members: there is one training, which is one run there. Leave it out, "
                    "or add --seeds 8, say."
                )
            if self.stop_unhealthy_members:
                raise ConfigError(
                    "--stop-unhealthy-members: there is one training, which stops by itself. Leave "
                    "it out, or add --seeds 8, say."
                )
            return
        if self.members > MOST_MEMBERS:
            raise ConfigError(
                f"{said}{self.members} trainings at once are more than {MOST_MEMBERS}. Use fewer."
            )
        alone = {
            "--debug": getattr(self, "debug", None),
            "--offload-optimizer": self.offload_optimizer or None,
        }
        for name, given in alone.items():
            if given is not None:
                raise ConfigError(
                    f"{said}several trainings in one program cannot have {name}. Leave it out, or "
                    "use one run for each training."
                )
        if self.then is not None or self.begun_at:
            raise ConfigError(
                f"{said}a training in stages cannot be several in one program. Add --algorithm "
                f"{self.algorithm}, or use one run for each training."
            )
        env = getattr(self, "env", None)
        if env is None or env_code(env) is None:  # checking settings imports no custom code
            self.check_played_in_python()
        for values in self._settings():
            self._member(values, self.seeds - 1)  # refuses a seed or a value out of range

    def check_played_in_python(self) -> None:
        """Raises a ConfigError if Python would have to play for several trainings.

        This creates the environment, and so imports its code.
        """
        if self.members > 1 and self.one_device:
            said = f"--vary {self.vary}" if self.vary else f"--seeds {self.seeds}"
            raise ConfigError(
                f"{said}: Python plays --env {getattr(self, 'env', None)}, one training at a time. "
                "Use an environment in JAX, or one run for each training."
            )

    @property
    def varied(self) -> dict[str, tuple[float | str, ...]]:
        """The values of each setting in which the trainings differ."""
        return parse_vary(self.vary)

    @property
    def members(self) -> int:
        """Number of trainings in one program."""
        return self.seeds * len(next(iter(self.varied.values()), (None,)))

    def member_configs(self: Config) -> list[Config]:
        """The config of each training: the first values with all seeds, then the next values."""
        return [
            self._member(values, number)
            for values in self._settings()
            for number in range(self.seeds)
        ]

    def _settings(self) -> list[dict[str, Any]]:
        """The settings of each value of `--vary`; a single empty dictionary without it."""
        varied = self.varied
        rows = zip(*varied.values(), strict=True)
        return [dict(zip(varied, values, strict=True)) for values in rows] or [{}]

    def _member(self: Config, values: dict[str, Any], number: int) -> Config:
        """The config of one training, with these values and the seed of this number."""
        flags = {"stop_unhealthy_members": False, "wandb_members": False}
        single: dict[str, Any] = {"seeds": 1, "vary": None, **flags, **no_exploits(self)}
        one: Config = replace(cast(Any, self), **values, **single, seed=self.seed + number)
        return one

    @property
    def member_names(self) -> list[str]:
        """Each training in words: `training 5 (learning_rate=0.01, seed 1)`."""
        named = member_settings(self.vary, self.seeds)
        seeds = [f"seed {self.seed + number % self.seeds}" for number in range(self.members)]
        return [
            f"training {number} ({', '.join(filter(None, each))})"
            for number, each in enumerate(zip(named, seeds, strict=True))
        ]

    def member_tags(self) -> list[list[str]]:
        """The varied settings of each training as tags: `seed=5`, `learning_rate=0.003`."""
        each = [values for values in self._settings() for _ in range(self.seeds)]
        seeds = [{"seed": self.seed + number % self.seeds} for number in range(self.members)]
        rows = [{**seed, **values} for seed, values in zip(seeds, each, strict=True)]
        return [[f"{name}={value}" for name, value in row.items()] for row in rows]
