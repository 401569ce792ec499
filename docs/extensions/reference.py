"""The reference: a page a room, with every public name, from the docstrings."""

import ast
import importlib.util
import inspect
import itertools
import textwrap
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import hackmatrix_rl

ROOT = "hackmatrix_rl"
FOLDER = Path(__file__).parents[1] / "reference"


def directive(room: str, name: str) -> str:
    """What documents a public name: a class with its public members, a function, or a value."""
    value = getattr(importlib.import_module(room), name)
    index = "" if room in (ROOT, offered_by(value)) else "   :no-index:\n"
    if inspect.isclass(value):
        return f".. autoclass:: {room}.{name}\n   :members:\n   :special-members: __call__\n{index}"
    if callable(value) and inspect.isroutine(inspect.unwrap(value)):
        return f".. autofunction:: {room}.{name}\n{index}"
    return f".. py:data:: {room}.{name}\n\n" + textwrap.indent(said(room, name), "   ")


def offered_by(value: object) -> str:
    """The room that defines a class or a function. Only the page of that room indexes it."""
    module = str(getattr(value, "__module__", None))
    return ".".join(itertools.takewhile(lambda part: not part.startswith("_"), module.split(".")))


def said(room: str, name: str) -> str:
    """The text below the assignment of a value, in the file that a room takes it from."""
    file = inspect.getfile(importlib.import_module(room))
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            module = importlib.util.resolve_name("." * node.level + str(node.module), room)
            texts = ModuleAnalyzer.for_module(module).find_attr_docs()
            return "\n".join(texts.get(("", name), [])) + "\n"
    return ""


def offered(room: str) -> list[str]:
    """The public names of a room: its `__all__`, or what it imports as itself (`x as x`)."""
    module = importlib.import_module(room)
    if hasattr(module, "__all__"):
        return list(module.__all__)
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    imports = [node.names for node in nodes if isinstance(node, ast.ImportFrom)]
    return [alias.asname for names in imports for alias in names if alias.asname]


class Room(SphinxDirective):
    """`{room} agent`: what the room says of itself, and each of its public names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The parsed text. A room's docstring is plain text, which is Markdown, too."""
        room = f"{ROOT}.{self.arguments[0]}"
        module = importlib.import_module(room)
        # What most people came for stands first.
        names = sorted(
            offered(room), key=lambda name: (name not in hackmatrix_rl.__all__, name.lower(), name)
        )
        described = "\n".join(directive(room, name) for name in names)
        about = inspect.cleandoc(module.__doc__ or "")
        return self.parse_text_to_nodes(f"{about}\n\n```{{eval-rst}}\n{described}```\n")


class Shortcuts(SphinxDirective):
    """`{shortcuts}`: the names of `hm`, each with a link to where it is described."""

    def run(self) -> list[nodes.Node]:
        """A table, and below it what is in no room."""
        names = [name for name in hackmatrix_rl.__all__ if not name.startswith("__")]
        homes = {name: home(name) for name in sorted(names, key=str.lower)}
        rows = [f"| `hm.{name}` | {{py:obj}}`{room}.{name}` |" for name, room in homes.items()]
        table = "\n".join(["| name | described at |", "|---|---|", *rows])
        own = "\n".join(directive(ROOT, name) for name, room in homes.items() if room == ROOT)
        return self.parse_text_to_nodes(f"{table}\n\n```{{eval-rst}}\n{own}```\n")


def home(name: str) -> str:
    """The room whose page indexes a name of `hm`; the package itself for what is in none."""
    value = getattr(hackmatrix_rl, name)
    pages = sorted({page.stem for page in FOLDER.glob("*.md")} - {"hm", "index"})
    rooms = [f"{ROOT}.{page}" for page in pages]
    # Another room may offer the name of the one that defines it.
    rooms.sort(key=lambda room: room != offered_by(value))
    found = (room for room in rooms if vars(importlib.import_module(room)).get(name) is value)
    return next(found, ROOT)


LONG = {"jaxlib._jax.Array": "Array", "jaxtyping.": "", "collections.abc.": "", "builtins.": ""}


def shorten(
    app: Sphinx,
    what: str,
    name: str,
    value: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """A signature with the names that one writes."""
    del app, what, name, value, options

    def short(text: str | None) -> str | None:
        for long, brief in LONG.items():
            text = text and text.replace(long, brief)
        return text

    return short(signature), short(returns)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directives, and shortens signatures."""
    app.add_directive("room", Room)
    app.add_directive("shortcuts", Shortcuts)
    app.connect("autodoc-process-signature", shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
