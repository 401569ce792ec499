"""Checks of names that come from files: no name may lead out of its folder."""

import os

LONGEST = 255
"""Most bytes of a file's name."""
LONGEST_ID = LONGEST + 9
"""Most bytes of a run's id: the name of its folder, a separator and eight digits."""


def name_trouble(name: object, *, longest: int = LONGEST) -> str | None:
    """Why a value cannot name one file or folder, in words.

    Args:
        name: the value.
        longest: most bytes that it may have.

    Returns:
        The reason, or `None` for a valid name.
    """
    if not isinstance(name, str):
        return f"must be text, not {type(name).__name__}"
    shown = repr(name if len(name) <= 60 else f"{name[:60]}...")
    if not name or name in (".", ".."):
        return f"{shown} is not the name of a folder"
    if any(sign in "/\\" or ord(sign) < 32 for sign in name):
        return f"{shown} holds a separator or a control character: it must be a plain name"
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError:
        return f"{shown} cannot be the name of a file"
    return f"{shown} has {size} bytes, more than {longest}" if size > longest else None


def valid_names(run: object) -> dict[str, str]:
    """The id and aliases of a run, as a file has them, without invalid names.

    Args:
        run: the value in the file.
    """
    pairs = run.items() if isinstance(run, dict) else ()
    longest = {"wandb_id": LONGEST_ID}
    return {
        name: value
        for name, value in pairs
        if name_trouble(value, longest=longest.get(name, LONGEST)) is None
    }
