"""The actions by name (rules, section 4)."""

from enum import IntEnum


class Action(IntEnum):
    """The 28 actions in the order of the mask: four moves, the siphon, the 23 programs.

    The programs have their names from the rules, section 6. Names with a sign are spelled as
    identifiers: `SIPH_PLUS` for SIPH+, `ANTI_V` for ANTI-V, `ATK_PLUS` for ATK+.
    """

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3
    SIPHON = 4
    PUSH = 5
    PULL = 6
    CRASH = 7
    WARP = 8
    POLY = 9
    WAIT = 10
    DEBUG = 11
    ROW = 12
    COL = 13
    UNDO = 14
    STEP = 15
    SIPH_PLUS = 16
    EXCH = 17
    SHOW = 18
    RESET = 19
    CALM = 20
    D_BOM = 21
    DELAY = 22
    ANTI_V = 23
    SCORE = 24
    REDUC = 25
    ATK_PLUS = 26
    HACK = 27

    @property
    def label(self) -> str:
        """The name as the rules spell it: `SIPH+`, `ANTI-V`, `ATK+`."""
        return self.name.replace("_PLUS", "+").replace("ANTI_V", "ANTI-V")
