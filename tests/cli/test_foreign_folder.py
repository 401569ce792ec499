"""A command that is given in a folder that someone sent imports nothing from there."""

import pytest
from processes import python

pytestmark = pytest.mark.processes

SHADOWS = ("equinox", "matplotlib", "optax", "orbax", "rich", "secrets", "tomllib", "wandb")
SCRIPT = """
import os, sys
from hackmatrix_rl.cli import main
try:
    main()
finally:
    assert os.getcwd() not in sys.path  # for what is imported later
"""


@pytest.mark.parametrize("start", ["module", "script"])
def test_nothing_is_imported_from_the_working_directory(tmp_path, start):
    sent, elsewhere = tmp_path / "sent", tmp_path / "bin"
    sent.mkdir()
    elsewhere.mkdir()
    for name in SHADOWS:
        (sent / f"{name}.py").write_text(f"raise SystemExit('{name} was imported from here')\n")
    (elsewhere / "command.py").write_text(SCRIPT)
    begin = ["-m", "hackmatrix_rl"] if start == "module" else [elsewhere / "command.py"]
    assert "--trust-code" in python(*begin, "eval", "--help", cwd=sent)
