"""Where the agents that come with the package lie."""

from pathlib import Path

from hackmatrix_rl.game import LEAGUES

PRETRAINED = "pretrained"
"""The name of the package's agent; its league may follow: `pretrained/no-rewind`."""

CARD = "card.json"
"""The file beside the checkpoint of such an agent that says how it was trained."""

_FOLDER = Path(__file__).parent.parent / PRETRAINED


def in_league(name: str, league: str | None) -> str:
    """The full name of an agent: `pretrained` alone is the one of the league.

    Args:
        name: of any agent.
        league: one of `LEAGUES`; `None`: the original one.
    """
    return f"{PRETRAINED}/{league or LEAGUES[0]}" if name == PRETRAINED else name


def shipped_checkpoint(name: str) -> Path | None:
    """The checkpoint of an agent of the package; `None` for any other name."""
    kind, _, league = in_league(name, None).partition("/")
    return _FOLDER / league if kind == PRETRAINED and league in LEAGUES else None
