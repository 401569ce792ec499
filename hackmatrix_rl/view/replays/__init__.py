"""Games move by move: played, replayed, and what an agent thinks of them."""

from hackmatrix_rl.view.replays._match import (
    CUT_OFF,
    DIED,
    ILLEGAL,
    WON,
    Match,
    Moment,
    Seed,
    game_seed,
)
from hackmatrix_rl.view.replays._mind import (
    Mind,
    Opinion,
)
from hackmatrix_rl.view.replays._replay import (
    Replay,
)

__all__ = [
    "CUT_OFF",
    "DIED",
    "ILLEGAL",
    "WON",
    "Match",
    "Mind",
    "Moment",
    "Opinion",
    "Replay",
    "Seed",
    "game_seed",
]
