"""Every path, link, name and flag that the pages mention exists."""

import functools
import importlib
import json
import re
from pathlib import Path

import click
import pytest

import hackmatrix_rl
from hackmatrix_rl.cli import main
from hackmatrix_rl.system.errors import ConfigError

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / "examples" / "README.md", *sorted(ROOT.glob("benchmarks/*.md"))),
    *(ROOT / "notebooks" / "README.md", *sorted(ROOT.glob("notebooks/*.ipynb"))),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Programs, some with imports inside of strings.
SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*.py")])

# Flags of other programs that the pages use.
FOREIGN_FLAGS = {
    "wandb": {"--append"},
    "gcloud": {
        "--zone",
        "--accelerator-type",
        "--version",
        "--worker",
        "--command",
        "--spot",
        "--format",
    },
    "SLURM": {"--time", "--gpus-per-node"},
    "pip": {"--group", "--no-cache-dir", "--quiet"},
    "uv": {"--from", "--python", "--with"},
    "docker": {"--build-arg", "--gpus", "--rm"},
    "trackio": {"--project"},
    "xprof": {"--logdir"},
    "XLA": {
        "--xla_force_host_platform_device_count",
        "--xla_gpu_deterministic_ops",
        "--xla_gpu_enable_command_buffer",
        "--xla_gpu_graph_min_graph_size",
    },
    "fuzz": {"--seconds", "--seed", "--only"},
    "pytest": {"--kills", "--nightly"},
    "other trainers": {"--lr", "--n-steps"},  # as examples of what is corrected
}
# Names of other packages that the pages put in backticks.
FOREIGN_NAMES = {"as_text", "minatar-asterix", "XLA_PYTHON_CLIENT_MEM_FRACTION"}


def pages(found):
    """Runs a test for each page, under the page's name."""
    return pytest.mark.parametrize("page", found, ids=lambda page: page.name)


@functools.cache
def text(page):
    """A page; of a notebook its cells, without what they showed."""
    content = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return content
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(content)["cells"])


def quoted(page):
    """What a page has between backticks, outside of its code blocks."""
    prose = re.sub(r"^```.*?^```", "", text(page), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", prose)


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


@pages(PAGES)
def test_paths_exist(page):
    named = re.findall(
        r"(?<![\w/.\-])((?:hackmatrix_rl|tests|benchmarks|examples|notebooks|docs)/[\w./\-]*\w)",
        text(page),
    )
    missing = [path for path in named if not (ROOT / path).exists()]
    assert missing == []


@pages(PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", text(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", text(file), re.MULTILINE)
            assert anchor in map(slug, headings), target


def test_the_dockerfile_is_that_of_the_page_and_copies_what_is_there():
    lines = (ROOT / "Dockerfile").read_text()
    assert f"```dockerfile\n{lines}```\n" in text(ROOT / "docs" / "installing.md")
    for copied in re.findall(r"^COPY (.+) \S+$", lines, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split())


def resolve(dotted):
    """The module or attribute with a dotted name; an AttributeError if there is none."""
    first, *rest = dotted.split(".")
    found, name = importlib.import_module(first), first
    for part in rest:
        name = f"{name}.{part}"
        try:
            there = hasattr(found, part)
        except ConfigError:
            return None  # it is there, and needs an extra that is not installed
        if not there:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                if not (error.name or "").startswith(first):
                    return None  # it is there, and needs an extra that is not installed
                raise AttributeError(f"{dotted}: there is no {name}") from error
        found = getattr(found, part)
    return found


@pages(PAGES)
def test_dotted_names_exist(page):
    for dotted in re.findall(r"(?<![\w/.])((?:hackmatrix_rl|hm)(?:\.[A-Za-z_]\w*)+)", text(page)):
        if not dotted.endswith(".git"):
            resolve(re.sub(r"^hm\b", "hackmatrix_rl", dotted))


@pages([*PAGES, *SCRIPTS])
def test_imported_names_exist(page):
    imports = r"from (hackmatrix_rl[\w.]*) import (?:\(([^)]*)\)|([^\n\"\\]*))"
    for module, several, one in re.findall(imports, text(page)):
        for name in re.findall(r"\w+", re.sub(r"#.*| as \w+", "", several or one)):
            resolve(f"{module}.{name}")


@functools.cache
def known_words():
    """Every word of the package, its tests and its settings."""
    files = [
        *ROOT.glob("hackmatrix_rl/**/*.py"),
        *ROOT.glob("hackmatrix_rl/*.pyi"),
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("examples/*.py"),
        *(ROOT / name for name in ("noxfile.py", "pyproject.toml")),
    ]
    own = Path(__file__).name
    contents = (file.read_text(encoding="utf-8") for file in files if file.name != own)
    return frozenset(word for content in contents for word in re.findall(r"\w+", content))


@pages(PAGES)
def test_quoted_identifiers_exist(page):
    looks_like_code = re.compile(r"[A-Za-z]\w*(?:_\w+|[a-z][A-Z]\w*)(?:\(\))?")
    identifiers = {word for word in quoted(page) if looks_like_code.fullmatch(word)}
    unknown = {word.removesuffix("()") for word in identifiers} - known_words() - FOREIGN_NAMES
    assert unknown == set()


@functools.cache
def known_flags():
    """The flags of the package's commands and of the benchmarks."""
    # With the settings: a command keeps the help flag (-h) of the first context that asks for it.
    context = click.Context(main, **main.context_settings)
    commands = [main, *(main.get_command(context, name) for name in main.list_commands(context))]
    flags = {
        flag
        for command in commands
        for option in command.get_params(context)
        if not getattr(option, "hidden", False)  # old names, among others
        for flag in (*option.opts, *option.secondary_opts)
    }
    for script in ROOT.glob("benchmarks/*.py"):
        flags |= set(re.findall(r"add_argument\(\s*\"(--[\w\-]+)\"", text(script)))
    return flags.union(*FOREIGN_FLAGS.values())


@pages(PAGES)
def test_flags_exist(page):
    named = set(re.findall(r"(?<![\w\-])(--[a-z][\w\-]*\w)", text(page)))
    assert named - known_flags() == set()


def test_the_checks_find_what_is_missing():
    assert hackmatrix_rl.__name__ == "hackmatrix_rl"
    assert "--gamma" in known_flags()
    assert "--discount" not in known_flags()
    assert "PPOConfig" in known_words()
    assert slug("What `--debug` costs") == "what---debug-costs"
    resolve("hackmatrix_rl.training.sharding.mesh")
    with pytest.raises(AttributeError, match=r"there is no hackmatrix_rl\.training\.mesh_of"):
        resolve("hackmatrix_rl.training.mesh_of")
