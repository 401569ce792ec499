"""`check_types`, in sessions of their own: in this one it may have been called already."""

import pytest
from processes import python

pytestmark = pytest.mark.processes

WRONG = """
import jax.numpy as jnp
from hackmatrix_rl.agent import GAE, MaskedCategorical
try:
    MaskedCategorical(jnp.zeros(2), jnp.ones(3, bool))
except Exception as error:
    print(type(error).__name__)
"""


def session(*given: str) -> str:
    return python("-c", *given).strip()


CHECKED = """
import sys
import hackmatrix_rl as hm
hm.check_types()
before = len(sys.meta_path)
hm.HackMatrix
hm.check_types()
print(len(sys.meta_path) - before)
hm.check_types("mine")
sys.path.insert(0, sys.argv[1])
import mine
try:
    mine.half(1)
except Exception as error:
    print(type(error).__name__)
"""


def test_shapes_are_checked_once_it_is_called_those_of_ones_own_modules_too(tmp_path):
    (tmp_path / "mine.py").write_text("def half(x: int) -> int:\n    return x / 2\n")
    second, of_mine, of_the_package = session(CHECKED + WRONG, str(tmp_path)).split()
    assert second == "0", "a second call changes nothing"
    assert of_mine == of_the_package == "TypeCheckError"
    assert session(f"import hackmatrix_rl\n{WRONG}") == "ValueError"


def error_of(code: str) -> str:
    caught = "try:\n    hm.check_types()\nexcept Exception as error:\n"
    return session(f"{code}\n{caught}    print(type(error).__name__ + ':', error)")


def test_it_says_so_if_it_comes_too_late_or_without_beartype():
    said = error_of("import hackmatrix_rl as hm\nhm.GameConfig")
    assert said.startswith("RuntimeError: check_types comes too late: hackmatrix_rl.games and ")
    assert "Restart Python" in said
    assert "\n" not in said
    said = error_of("import sys\nsys.modules['beartype'] = None\nimport hackmatrix_rl as hm")
    assert said.startswith("ImportError: check_types needs the package beartype")
    assert "hackmatrix-rl[check]" in said
    assert "\n" not in said
