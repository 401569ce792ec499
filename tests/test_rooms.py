"""The rooms of the package: what import-linter does not check."""

import ast
from pathlib import Path

import pytest

import hackmatrix_rl

ROOT = Path(hackmatrix_rl.__file__).parent
REPOSITORY = Path(__file__).parents[1]
FILES = sorted(file for file in ROOT.rglob("*.py") if file.parent != ROOT)
ROOMS = sorted({file.parent for file in FILES})


def imported_modules(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_other_rooms_are_entered_by_their_face(file):
    mine = ".".join(("hackmatrix_rl", *file.parent.relative_to(ROOT).parts))
    for module in imported_modules(file):
        room, _, name = module.rpartition(".")
        if module.startswith("hackmatrix_rl.") and name.startswith("_"):
            # A room inside of another may use that one's modules.
            inside = f"{mine}.".startswith(f"{room}.")
            assert inside, f"{module} is private to {room}: import from its face"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_modules_inside_of_a_room_are_private_by_name(room):
    public = [file.name for file in room.glob("*.py") if not file.name.startswith("_")]
    assert not public


def test_no_room_holds_more_than_a_quarter_of_the_code():
    lines = {
        room: sum(len(file.read_text(encoding="utf-8").splitlines()) for file in room.glob("*.py"))
        for room in ROOMS
    }
    largest = max(lines, key=lines.__getitem__)
    assert lines[largest] <= sum(lines.values()) / 4, largest


def test_the_page_of_the_architecture_names_every_room_and_no_file_that_is_not_there():
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in ROOMS:
        assert f"`{'.'.join(room.relative_to(ROOT).parts)}`" in page or room.name == "sinks", room
    words = {word.strip("`(),;:") for word in page.split()}
    named = {word for word in words if word.endswith(".py") and "/" in word}
    assert len(named) > 20
    for name in named:
        assert any((place / name).exists() for place in (ROOT, REPOSITORY)), name


@pytest.mark.parametrize("name", ["ppo", "pqn", "r2d2", "imitation", "self_play", "supervised"])
def test_the_update_stands_at_the_top_of_an_algorithms_file(name):
    file = ROOT / "algorithms" / name / f"_{name}.py"
    classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    kind = next(each for each in classes if each.name.lower() == name.replace("_", ""))
    first = next(node for node in kind.body if isinstance(node, ast.FunctionDef))
    assert (first.name, first.lineno <= 80) == ("__call__", True)
