"""Names that come out of files: of a file's name nothing may lead out of its folder."""

import os

LONGEST = 255
"""Bytes that a file's name may have."""
LONGEST_ID = LONGEST + 9
"""Bytes of a run's id: the name of its folder, and eight digits more."""


def name_trouble(name: object, *, longest: int = LONGEST) -> str | None:
    """What keeps something from being the name of one file or folder, in words.

    Args:
        name: as read.
        longest: bytes that it may have.

    Returns:
        `None` if nothing does.
    """
    if not isinstance(name, str):
        return f"must be text, not {type(name).__name__}"
    shown = repr(name if len(name) <= 60 else f"{name[:60]}...")
    if not name or name in (".", ".."):
        return f"{shown} names no folder"
    if any(sign in "/\\" or ord(sign) < 32 for sign in name):
        return f"{shown} holds a separator or a control character: a path is no name"
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError:
        return f"{shown} cannot be the name of a file"
    return f"{shown} has {size} bytes, more than {longest}" if size > longest else None
