"""Nothing makes code of what lies in a file, and files are opened and written in one way."""

import ast
import re
from pathlib import Path

import pytest

import hackmatrix_rl

ROOT = Path(hackmatrix_rl.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# They make objects of bytes, and run what the bytes say.
MODULES = {
    *("_pickle", "cloudpickle", "code", "codeop", "dill", "imp", "joblib", "marshal", "pickle"),
    *("runpy", "shelve", "yaml"),
}
CALLS = {"__import__", "compile", "eval", "exec"}
# `import_module` of names that are written in the package itself; and of a custom network,
# after `check_trusted`.
IMPORTERS = {
    *("__init__.py", "_moved.py"),
    "system/_extras.py",
    "agent/networks/_registry.py",
    "cli/_main.py",
    "runs/config/_registry.py",
    "runtime_types.py",
}


# They read what comes with the package or belongs to the system, what the user named for settings
# (which may be a pipe), or a page that the run has just written; all others use `open_regular`.
READERS = {
    "runs/config/_files.py",
    "runs/_doctor.py",
    "runs/sinks/_weights_and_biases.py",
    "system/_files.py",
    "view/_document.py",
    "view/replays/_page.py",
}


def openings(source):
    """What in a source opens a file to read it in its own way, with its line."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function, owner = ast.unparse(node.func), ast.unparse(getattr(node.func, "value", node))
        name = function.rpartition(".")[2]
        if node.args and ast.unparse(node.args[0]).startswith("io.BytesIO("):
            continue  # what is in memory is no file
        modes = [each.value for each in node.args if isinstance(each, ast.Constant)]
        reads = owner not in ("os", "webbrowser", "archive") and modes in ([], ["r"], ["rb"])
        if name in ("read_text", "read_bytes", "fromfile") or (name == "open" and reads):
            yield f"{node.lineno}: {function}"


def findings(source):
    """What in a source could make code of data, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        yield from (f"{node.lineno}: {n}" for n in names if n.split(".")[0] in MODULES)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in CALLS:
                yield f"{node.lineno}: {node.func.id}"
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("import_module", "load_module", "exec_module", "spec_from_file_location"):
                yield f"{node.lineno}: {name}"
            pickles = [each.value for each in node.keywords if each.arg == "allow_pickle"]
            refused = [ast.unparse(value) for value in pickles] == ["False"]
            if ast.unparse(node.func) in ("np.load", "numpy.load", "jnp.load") and not refused:
                yield f"{node.lineno}: np.load"
            if pickles and not refused:
                yield f"{node.lineno}: allow_pickle"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_nothing_makes_code_of_data(file):
    found = list(findings(file.read_text(encoding="utf-8")))
    if str(file.relative_to(ROOT)) in IMPORTERS:
        found = [each for each in found if not each.endswith("import_module")]
    assert found == []


def test_what_lies_outside_is_opened_in_one_way():
    others = {str(file.relative_to(ROOT)): file for file in FILES}
    found = {name: list(openings(file.read_text("utf-8"))) for name, file in others.items()}
    assert {name: each for name, each in found.items() if each and name not in READERS} == {}


# They write into a folder that they have just made, where nobody can have put a link; all others
# use `write_whole` or `open_in_place`, which follow none.
WRITERS = {"runs/_verify_resume.py", "system/_files.py", "view/ui/_serve.py"}
WRITE = {
    *("json.dump", "savefig", "savez", "savez_compressed", "shutil.copy", "shutil.copy2"),
    *("shutil.copyfile", "shutil.copytree", "shutil.move", "tofile", "touch"),
    *("write_bytes", "write_text"),
}


def writings(source):
    """What in a source writes a file in its own way, with its line."""
    tree = ast.parse(source)
    buffers = ("io.BytesIO()", "io.StringIO()")
    made = [each for each in ast.walk(tree) if isinstance(each, ast.Assign)]
    inner = {ast.unparse(each.targets[0]) for each in made if ast.unparse(each.value) in buffers}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = ast.unparse(node.func)
        owner, _, name = function.rpartition(".")
        values = [ast.unparse(each) for each in node.args]
        keywords = {each.arg: ast.unparse(each.value) for each in node.keywords}
        if {*values[:1]} & {*inner, "os.devnull"} or owner == "formatter":
            continue
        text = " ".join([*values, *keywords.values()])
        how = text if name == "open" else ""
        if owner == "os":
            writes = any(flag in how for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))
        else:
            writes = re.search(r"'[rb]*[wax+][b+]*'", how) is not None
        picture = name == "save" and "format" in keywords
        if writes or picture or {name, function} & WRITE:
            yield f"{node.lineno}: {function}"


def test_what_may_be_there_already_is_written_in_one_way():
    found = {str(file.relative_to(ROOT)): list(writings(file.read_text("utf-8"))) for file in FILES}
    assert {name: each for name, each in found.items() if each and name not in WRITERS} == {}


WRITINGS = (
    *("p.write_text(text)", "(a / b).write_bytes(b'')", "p.open('ab')", "open(p, mode='x')"),
    *("os.open(p, os.O_RDWR | os.O_CREAT)", "figure.savefig(p)", "np.savez(p, a=a)"),
    *("image.save(p, format='PNG')", "shutil.copyfile(a, p)", "json.dump(a, file)", "p.touch()"),
)

OPENINGS = ("p.read_text()", "(a / b).read_bytes()", "open(p)", 'p.open("rb")', "np.fromfile(p)")

CODE = (
    *("import pickle", "from pickle import loads", "import yaml.loader", "eval(text)"),
    *("exec(text)", "importlib.import_module(name)", "np.load(file)"),
    *("load(file, allow_pickle=True)", "np.load(file, allow_pickle=given)"),
    "def f():\n    import marshal",
)


@pytest.mark.parametrize(
    ("search", "source"),
    [
        *((openings, each) for each in OPENINGS),
        *((writings, each) for each in WRITINGS),
        *((findings, each) for each in CODE),
    ],
)
def test_the_search_finds_it(search, source):
    assert list(search(source))
