"""Commands whose help groups options under headings."""

from collections.abc import Mapping
from typing import Any

import click

from hackmatrix_rl.cli._command import Command
from hackmatrix_rl.games import hackmatrix as rules
from hackmatrix_rl.runs import config

_BEFORE = ("Run", "Game", "Devices", "Collecting", "Network", "Learning")
_AFTER = ("Memory", "Watching")
_OWN = dict.fromkeys(
    each.metadata["group"]
    for kind in config.algorithms().values()
    for each in config.options_of(kind)
)
GROUPS = (*_BEFORE, *(group for group in _OWN if group not in (*_BEFORE, *_AFTER)), *_AFTER)
"""The headings of a help in order; groups of single algorithms are in the middle."""

FIRST = (
    *("recipe", "algorithm", "env", "env_args", "preset", "config", "resume_run"),
    *("total_timesteps", "init", "teacher"),
    *("learning_rate", "gamma", "num_envs", "network", "precision", "reward"),
    *("seed", "device", "mesh", "run_dir", "eval_interval", "tracker", "dry_run"),
)
"""The options of `--help` in order; `--help-all` lists all options."""

_ALGORITHM, _ALL, _ENV = f"{__name__}.algorithm", f"{__name__}.all", f"{__name__}.env"


class GroupedOption(click.Option):
    """An option under a heading of the help."""

    def __init__(self, *arguments: Any, group: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._group = group

    def heading(self, ctx: click.Context) -> str:
        return self._group


class SettingOption(click.Option):
    """An option for a config field that some algorithms have, with a heading and help for each.

    The help shows the chosen algorithm's. It omits the field if the algorithm or the
    environment does not have it.
    """

    def __init__(
        self,
        *arguments: Any,
        helps: Mapping[str, tuple[str, str]],
        common: bool,
        usual: bool,
        env: str,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.env = env
        self.helps = helps
        self.common = common  # all algorithms have it
        self.usual = usual  # all algorithms that train a player have it

    def _help(self, ctx: click.Context) -> tuple[str, str]:
        """Heading and help for the chosen algorithm."""
        return self.helps.get(_shown(ctx), next(iter(self.helps.values())))

    def heading(self, ctx: click.Context) -> str:
        return self._help(ctx)[0]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of the help; `None` to omit it."""
        record = super().get_help_record(ctx)
        if record is None or self.env not in ("", ctx.meta.get(_ENV, config.HACKMATRIX)):
            return None
        name = _shown(ctx)
        if name not in self.helps and not self.common and name in config.algorithms():
            return None
        return record[0], self._help(ctx)[1]


def _shown(ctx: click.Context) -> str:
    env = ctx.meta.get(_ENV, config.HACKMATRIX)
    return str(ctx.meta.get(_ALGORITHM, config.default_algorithm("auto", env)[0]))


class GroupedOptions(Command):
    """A command whose help shows the options of each group under a heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options by group; options without a group come first."""
        sections: dict[str, list[tuple[str, str]]] = {each: [] for each in ("Options", *GROUPS)}
        for each in self.get_params(ctx):
            if (record := each.get_help_record(ctx)) is not None:
                heading = "Options"
                if isinstance(each, GroupedOption | SettingOption):
                    heading = each.heading(ctx)
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class TrainOptions(GroupedOptions):
    """A command with the flags of several algorithms, whose help shows the most useful ones.

    `--algorithm NAME --help` also shows the flags that only this algorithm has, and `--help-all`
    shows all of its flags.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), _help_all()]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Finds algorithm and environment before parsing, because the help depends on them."""
        for place, word in enumerate(args):
            name, equals, value = word.partition("=")
            if name in (wanted := {"--algorithm": _ALGORITHM, "--env": _ENV}):
                following = args[place + 1] if place + 1 < len(args) else ""
                ctx.meta[wanted[name]] = value if equals else following
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the arguments of the environment or the reward terms, and then the examples."""
        env = ctx.meta.get(_ENV, config.HACKMATRIX)
        if said := config.env_arguments(env):
            formatter.write_paragraph()
            formatter.write_text(f"--env-args of --env {env}: {said}.")
        elif ctx.meta.get(_ALL) and env == config.HACKMATRIX:
            formatter.write_paragraph()
            formatter.write_text(f"Values of --env: {', '.join(config.ENVIRONMENTS)}.")
            formatter.write_paragraph()
            formatter.write_text(f"Terms of --reward: {', '.join(rules.TERM_NAMES)}.")
        super().format_epilog(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the first options and the algorithm's own, or all options."""
        if ctx.meta.get(_ALL):
            super().format_options(ctx, formatter)
            return
        parameters = {each.name: each for each in self.get_params(ctx)}
        first = [parameters[name] for name in (*FIRST, "help", "help_all") if name in parameters]
        with formatter.section("Options"):
            formatter.write_dl([r for each in first if (r := each.get_help_record(ctx))])
        if (name := ctx.meta.get(_ALGORITHM)) in config.algorithms():
            own = [
                each
                for each in parameters.values()
                if isinstance(each, SettingOption) and not each.usual and each not in first
            ]
            with formatter.section(f"Of --algorithm {name}"):
                formatter.write_dl([r for each in own if (r := each.get_help_record(ctx))])


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
