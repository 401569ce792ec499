"""Text from outside cannot steer a terminal."""

import pytest

from hackmatrix_rl.system.errors import printable, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ada 🦊 é", "Ada 🦊 é"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\nb\r\x9b2J\x7f", r"a\nb\r\x9b2J\x7f"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_a_terminal_obeys_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    printable(text).encode()


def test_long_text_is_cut() -> None:
    assert printable("x" * 100, 10) == "x" * 10 + "..."
    assert printable("x" * 10, 10) == "x" * 10
    assert shortened("\x1b" * 1000) == r"\x1b" * 60 + "..."
    assert shortened(["\ud800"]) == r"['\ud800']"
