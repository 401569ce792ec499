"""A command whose error for an unknown flag suggests the right one."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import click
from click.exceptions import NoSuchOption

from hackmatrix_rl.runs.config import RENAMED, RETIRED, advice_for, algorithms_of, closest

# By command: flags of other commands and libraries, and their equivalents here.
_FOREIGN: Mapping[str, Mapping[str, str]] = {
    "eval": {"--deterministic": "--greedy", "--eval-episodes": "--episodes"},
    "compare": {"--eval-episodes": "--episodes", "--seed": "--seeds"},
}


class NumberRange(click.FloatRange):
    """A number in a range. Unlike click's range, it refuses NaN."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


class Command(click.Command):
    """A command whose error for an unknown flag is one line that suggests an existing flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line, and adds advice to the error for an unknown flag."""
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as error:
            name = error.option_name
            said = f"No such option '{name}'. {self._advice(ctx, name)}".rstrip()
            raise NoSuchOption(name, said, ctx=ctx) from error

    def _advice(self, ctx: click.Context, name: str) -> str:
        """Advice for a flag that this command does not have."""
        own = [kind.synonyms for kind in algorithms_of(self.name or "").values()]
        for synonyms in (*own, _FOREIGN.get(self.name or "", {})):
            if name in synonyms:
                return f"Use {synonyms[name]}."
        if users := _having([name], _others(ctx)):
            here = "; here, write it into the TOML file" if self.name == "compare" else ""
            return f"It is a flag of {_listed(users)}{here}."
        # `--no-cuda` gets the same advice as `--cuda`.
        field = name.removeprefix("--").removeprefix("no-").replace("-", "_")
        if not (advice := advice_for(field, is_flag=True)):
            return closest(name, _flags(self))
        named = [word.strip(".,;:") for word in advice.split() if word.startswith("--")]
        if _having(named, [self]) or not (users := _having(named, _others(ctx))):
            return advice
        return f"{advice} That is for {_listed(users)}."


def _others(ctx: click.Context) -> list[click.Command]:
    """The other commands, `train` first."""
    group = None if ctx.parent is None else ctx.parent.command
    if ctx.parent is None or not isinstance(group, click.Group):
        return []
    found = [group.get_command(ctx.parent, name) for name in group.list_commands(ctx.parent)]
    return [each for each in found if each is not None and each is not ctx.command]


def _flags(command: click.Command) -> list[str]:
    """The long flags of a command, without former names."""
    return [
        name
        for parameter in command.params
        if parameter.name not in {**RENAMED, **RETIRED}
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    ]


def _having(flags: Iterable[str], commands: Iterable[click.Command]) -> list[click.Command]:
    """The commands that have all of these flags."""
    return [each for each in commands if set(flags) <= set(_flags(each))]


def _listed(commands: list[click.Command]) -> str:
    # Other commands with settings of a run refer to the help of `train`.
    if any(each.name == "train" for each in commands):
        commands = [each for each in commands if each.name == "train"]
    *others, last = (str(each.name) for each in commands)
    return f"hackmatrix-rl {', '.join(others)} and {last}" if others else f"hackmatrix-rl {last}"
