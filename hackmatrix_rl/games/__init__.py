"""The rules of games, and puzzles, without environments and networks."""
