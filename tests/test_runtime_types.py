"""`check_types`, in sessions of their own: in this one it may have been called already."""

import subprocess
import sys

import pytest

WRONG = """
import jax.numpy as jnp
from hackmatrix_rl.agent import GAE, MaskedCategorical
try:
    MaskedCategorical(jnp.zeros(2), jnp.ones(3, bool))
except Exception as error:
    print(type(error).__name__)
"""


def session(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(("call", "ends"), [("hm.check_types()", "TypeCheckError"), ("", "")])
def test_from_then_on_shapes_are_checked(call, ends):
    found = session(f"import hackmatrix_rl as hm\n{call}\n{WRONG}")
    assert found == (ends or "ValueError")


def test_a_second_call_changes_nothing():
    code = "import hackmatrix_rl as hm, sys\nhm.check_types()\nbefore = len(sys.meta_path)\n"
    code += "hm.HackMatrix\nhm.check_types()\nprint(len(sys.meta_path) - before)"
    assert session(code) == "0"


def test_modules_of_ones_own_are_checked_if_they_are_named(tmp_path):
    (tmp_path / "mine.py").write_text("def half(x: int) -> int:\n    return x / 2\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport hackmatrix_rl as hm\n"
    code += "hm.check_types('mine')\nimport mine\ntry:\n    mine.half(1)\n"
    code += "except Exception as error:\n    print(type(error).__name__)"
    assert session(code) == "TypeCheckError"


def error_of(code: str) -> str:
    caught = "try:\n    hm.check_types()\nexcept Exception as error:\n"
    return session(f"{code}\n{caught}    print(type(error).__name__ + ':', error)")


def test_it_says_so_if_it_comes_too_late_or_without_beartype():
    said = error_of("import hackmatrix_rl as hm\nhm.GameConfig")
    assert said.startswith("RuntimeError: check_types comes too late: hackmatrix_rl.batching and ")
    assert "Restart Python" in said
    assert "\n" not in said
    said = error_of("import sys\nsys.modules['beartype'] = None\nimport hackmatrix_rl as hm")
    assert said.startswith("ImportError: check_types needs the package beartype")
    assert "hackmatrix-rl[check]" in said
    assert "\n" not in said
