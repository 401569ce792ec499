"""Checks the shapes and dtypes of every call in this package at run time."""

import sys
from importlib import import_module
from importlib.util import find_spec

from jaxtyping import install_import_hook

_PACKAGE = __name__.partition(".")[0]
_CHECKER = f"{_PACKAGE}.type_checker"
_LIGHT = {_PACKAGE, f"{_PACKAGE}._moved", f"{_PACKAGE}._plugins", __name__, _CHECKER}
"""What is imported before anyone can ask for checks."""
_hooked: set[str] = set()


def check_types(*modules: str) -> None:
    """Turns on checks of every annotated shape, dtype and type of this package, at each call.

    If an argument or a result does not match the signature, a `jaxtyping.TypeCheckError` names
    both. Compiled code is checked only while it is traced: tracing takes a little longer, and the
    program runs as fast as before. Call it before you use anything else of the package:

        import hackmatrix_rl as hm
        hm.check_types()

    A second call changes nothing.

    Args:
        modules: names of further modules to check, such as your own.

    Raises:
        ImportError: beartype is missing.
        RuntimeError: some of the modules are imported already.
    """
    if find_spec("beartype") is None:
        raise ImportError(
            "check_types needs the package beartype, which is not installed. Install the check "
            "extra: pip install 'hackmatrix-rl[check]', or pip install beartype"
        )
    wanted = [name for name in (_PACKAGE, *modules) if name not in _hooked]
    late = sorted(name for name in sys.modules if name not in _LIGHT and _is_in(name, wanted))
    if late:
        others = f" and {len(late) - 1} more" if len(late) > 1 else ""
        raise RuntimeError(
            f"check_types comes too late: {late[0]}{others} is imported already, unchecked. "
            "Restart Python (in a notebook, its kernel) and call hm.check_types() right after "
            f"`import {_PACKAGE} as hm`, before anything else of these modules is used"
        )
    if not wanted:
        return
    import_module(_CHECKER)
    install_import_hook(wanted, f"{_CHECKER}.check")
    _hooked.update(wanted)


def _is_in(name: str, packages: list[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
