"""The inputs of the conditions and effects of programs, computed once per step."""

import equinox as eqx
from jaxtyping import Array, Bool

from hackmatrix_rl.game._board import CellSet, row_and_column
from hackmatrix_rl.game._state import EnemyType, Position


class View(eqx.Module):
    """A position as seen from the player's cell.

    Attributes:
        position: the position.
        can_undo: whether the history holds a snapshot.
        enemies: the cells with an enemy.
        transmissions: the cells with a transmission.
        blocks: the cells with a block.
        here: the player's cell.
        around: the 8 cells around it.
        row: the cells of the player's row.
        column: the cells of the player's column.
    """

    position: Position
    can_undo: Bool[Array, ""]
    enemies: CellSet
    transmissions: CellSet
    blocks: CellSet
    here: CellSet
    around: CellSet
    row: CellSet
    column: CellSet

    @staticmethod
    def of(position: Position, *, can_undo: Bool[Array, ""]) -> "View":
        """The view of a position; `can_undo` says whether its history holds a snapshot."""
        cell = position.player.cell
        here = CellSet.of(cell)
        row, column = row_and_column(cell)
        return View(
            position=position,
            can_undo=can_undo,
            enemies=position.enemies.cells,
            transmissions=position.transmissions.cells,
            blocks=position.board.blocks,
            here=here,
            around=here.surroundings() - here,
            row=row,
            column=column,
        )

    def any_of_type(self, kind: EnemyType) -> Bool[Array, ""]:
        """Whether an enemy of that type exists."""
        return self.of_type(kind).any()

    def of_type(self, kind: EnemyType) -> Bool[Array, " max_enemies"]:
        """The enemies of that type."""
        enemies = self.position.enemies
        return enemies.present & (enemies.type == kind)

    def standing_on(self, cells: CellSet) -> Bool[Array, " max_enemies"]:
        """The enemies that stand on one of the cells."""
        enemies = self.position.enemies
        return enemies.present & cells.has(enemies.cell)
