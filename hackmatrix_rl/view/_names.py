"""Names as the rules spell them."""

from hackmatrix_rl.game import FIRST_PROGRAM, Action, Program


def program_name(program: Program) -> str:
    """The name of a program: `SIPH+`, not `SIPH_PLUS`."""
    return Action(FIRST_PROGRAM + program).label
