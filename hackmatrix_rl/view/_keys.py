"""The letters that stand for actions in every place where a person plays."""

from collections.abc import Mapping
from types import MappingProxyType

from hackmatrix_rl.game import Action

# A letter of the name where one is left; `h` (hint) and `q` (quit) are not actions.
KEYS: Mapping[Action, str] = MappingProxyType(
    {
        Action.SIPHON: "s",
        Action.PUSH: "p",
        Action.PULL: "l",
        Action.CRASH: "c",
        Action.WARP: "w",
        Action.POLY: "y",
        Action.WAIT: "z",
        Action.DEBUG: "g",
        Action.ROW: "r",
        Action.COL: "o",
        Action.UNDO: "u",
        Action.STEP: "t",
        Action.SIPH_PLUS: "i",
        Action.EXCH: "x",
        Action.SHOW: "j",
        Action.RESET: "e",
        Action.CALM: "m",
        Action.D_BOM: "b",
        Action.DELAY: "d",
        Action.ANTI_V: "v",
        Action.SCORE: "n",
        Action.REDUC: "f",
        Action.ATK_PLUS: "k",
        Action.HACK: "a",
    }
)
"""The key of each action that is not a direction; directions have the arrow keys."""
