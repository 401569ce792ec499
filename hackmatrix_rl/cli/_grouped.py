"""Options under headings in the help of a command."""

from typing import Any

import click

from hackmatrix_rl.cli._command import Command

GROUPS = (
    "Run",
    "Game",
    "Devices",
    "Collecting",
    "Search",
    "Network",
    "Learning",
    "Imitation",
    "Q-learning",
    "Memory",
    "Watching",
)


class GroupedOption(click.Option):
    """An option that stands under a heading of the help.

    Attributes:
        group: the heading.
    """

    def __init__(self, *arguments: Any, group: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group = group


class GroupedOptions(Command):
    """A command whose help shows the options of each group under a heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, group by group; options without a group come first."""
        sections: dict[str, list[tuple[str, str]]] = {each: [] for each in ("Options", *GROUPS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                heading = getattr(parameter, "group", "Options")
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
