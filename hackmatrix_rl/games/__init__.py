"""The rules of games and puzzles, independent of environments and networks."""
