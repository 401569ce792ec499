"""Colours by name: a light and a dark theme.

Enemies are warm, the player is blue, blocks are grey. Nothing is told by its colour alone: shapes
and letters say it, too.
"""

from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.view._drawing import Ink

Theme = dict[Ink, str]
"""The colour of each ink, as #rrggbb."""

LIGHT: Theme = {
    "background": "#ffffff",
    "board": "#cfd6e3",
    "cell": "#f7f9fc",
    "cell_siphoned": "#e3e0f2",
    "rule": "#8a93a5",
    "text": "#111827",
    "muted": "#576175",
    "player": "#0b5bd3",
    "on_player": "#ffffff",
    "data": "#64708a",
    "on_data": "#ffffff",
    "program": "#1f2a44",
    "on_program": "#ffffff",
    "question": "#576175",
    "virus": "#c2410c",
    "daemon": "#9f1239",
    "glitch": "#a21caf",
    "cryptog": "#5b21b6",
    "on_enemy": "#ffffff",
    "transmission": "#8a3b12",
    "credits": "#96660a",
    "energy": "#0e7490",
    "siphon": "#0f766e",
    "exit": "#15803d",
    "hp": "#d61f3a",
    "danger": "#d3122a",
    "on_danger": "#ffffff",
    "shot": "#0b5bd3",
}
"""For light pages."""

DARK: Theme = {
    "background": "#0d1117",
    "board": "#05070b",
    "cell": "#1a2130",
    "cell_siphoned": "#2a2547",
    "rule": "#6b7588",
    "text": "#f1f5f9",
    "muted": "#a3aec0",
    "player": "#4cc2ff",
    "on_player": "#04202f",
    "data": "#8592ab",
    "on_data": "#0b0f18",
    "program": "#dbe4f3",
    "on_program": "#10172a",
    "question": "#a3aec0",
    "virus": "#ff9d4d",
    "daemon": "#ff7a85",
    "glitch": "#f0a6fb",
    "cryptog": "#bba6ff",
    "on_enemy": "#1b0d1c",
    "transmission": "#ffb98a",
    "credits": "#f5c542",
    "energy": "#3edcf5",
    "siphon": "#2dd4bf",
    "exit": "#5be08a",
    "hp": "#ff5d73",
    "danger": "#ff4d5e",
    "on_danger": "#1c0206",
    "shot": "#4cc2ff",
}
"""For dark pages."""

THEMES: dict[str, Theme] = {"light": LIGHT, "dark": DARK}
"""The themes by name."""


def find_theme(name: str, *more: str) -> Theme:
    """The theme of that name, or a ConfigError that also lists `more` names."""
    if name not in THEMES:
        raise ConfigError(f"theme {name!r} does not exist; there are {', '.join((*THEMES, *more))}")
    return THEMES[name]
