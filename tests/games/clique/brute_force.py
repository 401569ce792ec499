"""The clique game in plain Python, as slow and as simple as can be."""

from functools import lru_cache
from itertools import combinations


class Board:
    """The edges by their names, and every clique as a set of them."""

    def __init__(self, vertices, size):
        self.edges = list(combinations(range(vertices), 2))
        self.cliques = [
            frozenset(combinations(some, 2)) for some in combinations(range(vertices), size)
        ]

    def has_clique(self, edges):
        return any(clique <= edges for clique in self.cliques)


def result_of(config, numbers):
    """Who has won after moves that were all legal, and whether the game is over."""
    board = Board(config.vertices, config.clique_size)
    sets = [set(), set()]
    for turn, number in enumerate(numbers):
        sets[turn % 2].add(board.edges[number])
    for player in range(2):
        if board.has_clique(sets[player]):
            return (player if config.objective == "form" else 1 - player), True
    full = len(numbers) == len(board.edges)
    return (1 if full and config.full_board == "second-wins" else -1), full


def minimax(config, remember):
    """The value for the player to move by the edges of both, over all moves; nothing is pruned."""
    board = Board(config.vertices, config.clique_size)
    full_board = {"draw": (0, 0), "second-wins": (-1, 1)}[config.full_board]

    def value(mine, others):
        if board.has_clique(others):
            return -1 if config.objective == "form" else 1
        free = [edge for edge in board.edges if edge not in mine and edge not in others]
        if not free:
            return full_board[(len(mine) + len(others)) % 2]
        return max(-value(others, mine | {edge}) for edge in free)

    if remember:
        value = lru_cache(maxsize=None)(value)
    return value
