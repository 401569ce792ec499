"""This package and other programs: their environments here, and the game in theirs."""
