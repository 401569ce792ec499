"""Puzzles with one right answer, as streams of labelled examples for networks."""

from ._examples import Augmentation as Augmentation
from ._examples import Examples as Examples
from ._examples import ExampleStream as ExampleStream
from ._mazes import BoardTurns as BoardTurns
from ._mazes import maze as maze
from ._mazes import mazes as mazes
from ._sudoku import BOXES as BOXES
from ._sudoku import LEVELS as LEVELS
from ._sudoku import SudokuSymmetries as SudokuSymmetries
from ._sudoku import difficulty as difficulty
from ._sudoku import solutions as solutions
from ._sudoku import sudoku as sudoku
from ._sudoku import sudokus as sudokus
