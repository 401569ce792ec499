"""Options under headings in the help of a command."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.config import (
    ENVIRONMENTS,
    HACKMATRIX,
    algorithms,
    default_algorithm,
    env_arguments,
    options_of,
)
from hackmatrix_rl.game import TERM_NAMES

_BEFORE = ("Run", "Game", "Devices", "Collecting", "Network", "Learning")
_AFTER = ("Memory", "Watching")
_OWN = dict.fromkeys(
    each.metadata["group"] for kind in algorithms().values() for each in options_of(kind)
)
GROUPS = (*_BEFORE, *(group for group in _OWN if group not in (*_BEFORE, *_AFTER)), *_AFTER)
"""The headings of a help in their order; those of single algorithms in the middle."""

FIRST = (
    *(
        "recipe",
        "algorithm",
        "env",
        "env_args",
        "preset",
        "config",
        "resume_run",
        "total_timesteps",
        "init",
        "teacher",
    ),
    *("learning_rate", "gamma", "num_envs", "network", "precision", "reward"),
    *("seed", "device", "mesh", "run_dir", "eval_interval", "wandb", "dry_run"),
)
"""The options that `--help` lists, in this order; `--help-all` lists the others, too."""

_ALGORITHM, _ALL, _ENV = f"{__name__}.algorithm", f"{__name__}.all", f"{__name__}.env"


class GroupedOption(click.Option):
    """An option that stands under a heading of the help.

    Attributes:
        group: the heading.
    """

    def __init__(self, *arguments: Any, group: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group = group


class SettingOption(GroupedOption):
    """An option for a field that some algorithms have. Its help is that of the one asked for.

    Attributes:
        helps: the heading and the help for each algorithm that has the field.
        common: whether all algorithms of the command have it.
        env: the only environment that has it; empty: all.
    """

    def __init__(
        self,
        *arguments: Any,
        helps: Mapping[str, tuple[str, str]],
        common: bool,
        env: str,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.env = env
        self.helps = helps
        self.common = common

    def heading(self, ctx: click.Context) -> str:
        """The heading for the algorithm that the command line names."""
        return self.helps.get(_shown(ctx), next(iter(self.helps.values())))[0]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of the help; `None` where algorithm or environment do not have the field."""
        record = super().get_help_record(ctx)
        if record is None or self.env not in ("", ctx.meta.get(_ENV, HACKMATRIX)):
            return None
        name = _shown(ctx)
        if name not in self.helps and not self.common and name in algorithms():
            return None
        return record[0], self.helps.get(name, next(iter(self.helps.values())))[1]


def _shown(ctx: click.Context) -> str:
    """The algorithm that a help is about."""
    env = ctx.meta.get(_ENV, HACKMATRIX)
    return str(ctx.meta.get(_ALGORITHM, default_algorithm("auto", env)[0]))


class GroupedOptions(Command):
    """A command whose help shows the options of each group under a heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, group by group; options without a group come first."""
        write_options(self.get_params(ctx), ctx, formatter)


class TrainOptions(GroupedOptions):
    """A command with the flags of several algorithms: its help shows the most useful ones.

    `--algorithm NAME --help` also shows those that only this algorithm has, and `--help-all` shows
    all of it.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The options, and `--help-all`."""
        return [*super().get_params(ctx), _help_all()]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Looks for algorithm and environment first: the help depends on them."""
        for place, word in enumerate(args):
            name, equals, value = word.partition("=")
            if name in (wanted := {"--algorithm": _ALGORITHM, "--env": _ENV}):
                following = args[place + 1] if place + 1 < len(args) else ""
                ctx.meta[wanted[name]] = value if equals else following
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples; before them the arguments of the environment, or reward terms."""
        env = ctx.meta.get(_ENV, HACKMATRIX)
        if said := env_arguments(env):
            formatter.write_paragraph()
            formatter.write_text(f"--env-args of --env {env}: {said}.")
        elif ctx.meta.get(_ALL) and env == HACKMATRIX:
            formatter.write_paragraph()
            formatter.write_text(f"Values of --env: {', '.join(ENVIRONMENTS)}.")
            formatter.write_paragraph()
            formatter.write_text(f"Terms of --reward: {', '.join(TERM_NAMES)}.")
        super().format_epilog(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the first options, those of the algorithm, or all."""
        parameters = {each.name: each for each in self.get_params(ctx)}
        if ctx.meta.get(_ALL):
            write_options(list(parameters.values()), ctx, formatter)
            return
        first = [parameters[name] for name in (*FIRST, "help", "help_all") if name in parameters]
        with formatter.section("Options"):
            formatter.write_dl([r for each in first if (r := each.get_help_record(ctx))])
        if (name := ctx.meta.get(_ALGORITHM)) in algorithms():
            own = [
                each
                for each in parameters.values()
                if isinstance(each, SettingOption) and not each.common and each not in first
            ]
            with formatter.section(f"Of --algorithm {name}"):
                formatter.write_dl([r for each in own if (r := each.get_help_record(ctx))])


def write_options(
    parameters: Sequence[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Writes options under the headings of their groups.

    Args:
        parameters: of the command.
        ctx: of the command.
        formatter: takes them.
    """
    sections: dict[str, list[tuple[str, str]]] = {each: [] for each in ("Options", *GROUPS)}
    for parameter in parameters:
        record = parameter.get_help_record(ctx)
        if record is not None:
            heading = getattr(parameter, "group", "Options")
            if isinstance(parameter, SettingOption):
                heading = parameter.heading(ctx)
            sections.setdefault(heading, []).append(record)
    for heading, records in sections.items():
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


def _help_all() -> click.Option:
    def show(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
        if asked:
            ctx.meta[_ALL] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show every option of the algorithm, and exit.",
    )
