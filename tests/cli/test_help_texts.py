"""Moving code changes no word of the help: data/help.txt has each, as written down before."""

from importlib.metadata import version
from pathlib import Path

import click
import pytest

from hackmatrix_rl.cli import main
from hackmatrix_rl.runs.config import algorithms_of

from .commands import done

STORED = Path(__file__).parents[1] / "data" / "help.txt"


@pytest.mark.skipif(version("click") < "8.2", reason="an older click breaks lines elsewhere")
def test_every_help_says_what_it_said(request):
    asked = [[name, "--help"] for name in main.list_commands(click.Context(main))]
    for name in algorithms_of("train"):
        asked.append(["train", "--algorithm", name, "--help-all"])
    said = "".join(f"$ hackmatrix-rl {' '.join(words)}\n{done(*words).stdout}\n" for words in asked)
    if request.config.getoption("--write-fingerprints"):
        STORED.write_text(said)
    assert said == STORED.read_text()
