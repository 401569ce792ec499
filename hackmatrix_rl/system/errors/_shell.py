"""Shell commands in messages."""

import os
import shlex


def in_shell(*words: object) -> str:
    r"""Quotes words as one line for bash or zsh, safe to print: `watch 'a b'`, `watch $'a\x1b'`.

    A path that starts with a dash gets the prefix `./`, so that it is not parsed as a flag.
    """
    return " ".join(map(_quoted, words))


def _quoted(word: object) -> str:
    text = str(word)
    if isinstance(word, os.PathLike) and text.startswith("-"):
        text = f"./{text}"
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    if character.isprintable() and character not in "'\\":
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
