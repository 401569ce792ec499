"""The documentation site, as `nox -s docs` makes it, is whole and loads nothing from elsewhere."""

import ast
import importlib
import inspect
import os
import pkgutil
import re
from pathlib import Path

import click
import pytest
from sphinx.util.inventory import InventoryFile

import hackmatrix_rl
from hackmatrix_rl.cli import main

SITE = Path(os.environ.get("HACKMATRIX_RL_SITE", Path(__file__).parents[2] / "site/html"))


@pytest.fixture(scope="module")
def described():
    """Every Python name that the site describes."""
    with (SITE / "objects.inv").open("rb") as stream:
        inventory = InventoryFile.load(stream, "", lambda base, path: path)
    return {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}


def html(page):
    return (SITE / f"{page}.html").read_text(encoding="utf-8")


FOLDERS = {"hackmatrix_rl.games", "hackmatrix_rl.interop"}  # hold packages, and no names


def rooms():
    walked = pkgutil.walk_packages(hackmatrix_rl.__path__, "hackmatrix_rl.")
    packages = {module.name for module in walked if module.ispkg and "._" not in module.name}
    return sorted(packages - FOLDERS)


def offered(module):
    """Its `__all__`, or what it imports as itself."""
    if hasattr(module, "__all__"):
        return module.__all__
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    imports = [node.names for node in nodes if isinstance(node, ast.ImportFrom)]
    return [alias.asname for names in imports for alias in names if alias.asname]


@pytest.mark.parametrize("room", rooms())
def test_every_public_name_of_a_room_is_described(room, described):
    names = offered(importlib.import_module(room))
    assert names
    page = html(f"docs/reference/{room.removeprefix('hackmatrix_rl.')}")
    # A name that two rooms offer is indexed in one of them, and described in both.
    missing = [name for name in names if f"{room}.{name}" not in described]
    assert [name for name in missing if f">{name}<" not in page] == []


def test_every_name_of_hm_links_to_its_description(described):
    rows = re.findall(r"<tr.*?</tr>", html("docs/reference/hm"), re.DOTALL)
    for name in hackmatrix_rl.__all__:
        if not name.startswith("__"):
            (row,) = [row for row in rows if f">hm.{name}<" in row]
            (linked,) = re.findall(r"href=\"[\w.]*#([\w.]+)\"", row)
            assert linked in described
            assert linked.endswith(f".{name}")


def test_every_flag_is_on_the_page_of_commands():
    page, context = html("docs/commands"), click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        flags = [
            flag
            for option in command.params
            if isinstance(option, click.Option) and not option.hidden
            for flag in option.opts
        ]
        missing = [flag for flag in flags if f"-rl-{name}-{flag.lstrip('-')}" not in page]
        assert missing == []


def test_pages_load_nothing_from_elsewhere_and_diagrams_are_drawn():
    pages = [*SITE.glob("docs/*.html"), *SITE.glob("docs/concepts/*.html")]
    assert len(pages) > 25
    for page in pages:
        tags = re.findall(r"<(?:script|link|img)[^>]*>", page.read_text(encoding="utf-8"))
        assert len(tags) > 3
        assert [tag for tag in tags if re.search(r"=\"(https?:)?//", tag)] == [], page
    assert html("docs/concepts/agent").count('<div class="diagram"><svg') == 1
    assert "```mermaid" not in html("docs/architecture")
