"""Ramsey colourings: full boards without a clique. Their check and their file."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from etils import epath

from hackmatrix_rl.games.clique._config import CliqueConfig
from hackmatrix_rl.games.clique._game import edge_numbers
from hackmatrix_rl.system import read_json, typed_path, write_json
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, refusing, shortened

MOST_COLOURINGS = 10_000
"""The most colourings in a file."""
_MOST_BYTES = 2**24
_NAMES = ("vertices", "clique_size", "graph6")
_BITS, _OFFSET = 6, 63
"""A character of graph6 holds 6 bits: its code is 63 plus their value."""


@dataclass(frozen=True)
class Colouring:
    """A colouring of all edges of the complete graph, without a clique in either colour.

    It proves that the Ramsey number R(clique_size, clique_size) exceeds `vertices`. The constructor
    checks it by an exhaustive search, without JAX.

    Source: Radziszowski, "Small Ramsey numbers", Electronic Journal of Combinatorics DS1.

    Attributes:
        vertices: number of vertices, 3 to 18.
        clique_size: number of vertices of the excluded clique.
        first: the sorted numbers (see `edges`) of the first player's edges. All others are the
            second player's.

    Raises:
        ValueError: a size or an edge is out of range, an edge is repeated, or there is a clique.
    """

    vertices: int
    clique_size: int
    first: tuple[int, ...]

    def __post_init__(self) -> None:
        board = CliqueConfig(self.vertices, self.clique_size)
        coloured = sorted(self.first)
        every = range(board.num_edges)
        if len(set(coloured)) < len(coloured) or not set(coloured) <= set(every):
            raise ValueError(
                f"first must be different edges from 0 to {board.num_edges - 1}, not "
                f"{shortened(self.first)}"
            )
        object.__setattr__(self, "first", tuple(int(edge) for edge in coloured))
        others = sorted(set(every) - set(coloured))
        for name, mine in (("first", self.first), ("second", others)):
            clique = find_clique(self.vertices, mine, self.clique_size)
            if clique is not None:
                raise ValueError(
                    f"the {name} player has the clique {', '.join(map(str, clique))} on a board of "
                    f"{self.vertices} vertices; expected a colouring without a clique of "
                    f"{self.clique_size}"
                )

    @classmethod
    def from_graph6(cls, text: str, vertices: int, clique_size: int) -> "Colouring":
        """The colouring whose first player has the edges of a graph in graph6.

        Raises:
            ValueError: the text is not a graph6 of this size, or there is a clique.
        """
        pairs = _pairs(vertices)
        length = 1 + -(-len(pairs) // _BITS)
        codes = [ord(letter) - _OFFSET for letter in text]
        fits = len(codes) == length and codes[0] == vertices and all(0 <= c < 64 for c in codes)
        bits = "".join(f"{code:0{_BITS}b}" for code in codes[1:]) if fits else ""
        if not fits or "1" in bits[len(pairs) :]:
            raise ValueError(f"{shortened(text)} is not a graph6 of {vertices} vertices")
        numbers = edge_numbers(vertices)
        mine = (pair for pair, bit in zip(pairs, bits, strict=False) if bit == "1")
        return cls(vertices, clique_size, tuple(int(numbers[pair]) for pair in mine))

    @property
    def graph6(self) -> str:
        """The first player's edges in graph6, the format of nauty, networkx and Sage.

        Source: McKay, "Description of graph6, sparse6 and digraph6 encodings".
        """
        numbers, mine = edge_numbers(self.vertices), set(self.first)
        bits = "".join("01"[int(numbers[pair]) in mine] for pair in _pairs(self.vertices))
        bits += "0" * (-len(bits) % _BITS)
        codes = [int(bits[place : place + _BITS], 2) for place in range(0, len(bits), _BITS)]
        return "".join(chr(code + _OFFSET) for code in (self.vertices, *codes))


def find_clique(vertices: int, edges: Iterable[int], clique_size: int) -> tuple[int, ...] | None:
    """The vertices of a clique in a graph with these edges; `None` without one.

    An exhaustive search in plain Python: it extends each clique by its later common neighbours.
    """
    later = [0] * vertices
    mine = set(edges)
    for number, (one, other) in enumerate(combinations(range(vertices), 2)):
        if number in mine:
            later[one] |= 1 << other

    def extend(clique: tuple[int, ...], common: int) -> tuple[int, ...] | None:
        missing = clique_size - len(clique)
        if not missing:
            return clique
        while common.bit_count() >= missing:
            vertex = (common & -common).bit_length() - 1
            common &= common - 1
            found = extend((*clique, vertex), common & later[vertex])
            if found is not None:
                return found
        return None

    return extend((), (1 << vertices) - 1)


def write_colourings(path: epath.PathLike, colourings: Iterable[Colouring]) -> int:
    """Writes colourings of one board to a JSON file, sorted and without duplicates.

    Returns:
        The number of colourings in the file.

    Raises:
        ValueError: there are none, too many, or colourings of different boards.
        OSError: the file cannot be written.
    """
    kept = sorted(set(colourings), key=lambda each: each.first)
    boards = {(each.vertices, each.clique_size) for each in kept}
    if len(boards) != 1 or len(kept) > MOST_COLOURINGS:
        raise ValueError(
            f"{len(kept):,} colourings of {len(boards)} boards do not go into a file; give 1 to "
            f"{MOST_COLOURINGS:,} of one board"
        )
    ((vertices, clique_size),) = boards
    content = (vertices, clique_size, [each.graph6 for each in kept])
    write_json(typed_path(path), dict(zip(_NAMES, content, strict=True)))
    return len(kept)


def read_colourings(path: epath.PathLike) -> tuple[Colouring, ...]:
    """Reads a file of `write_colourings`, and checks each colouring again.

    Raises:
        ConfigError: the file is missing or malformed, or a colouring has a clique.
    """
    with refusing(f"{path} is not a file of colourings: it ", of=DamagedFileError):
        stored = read_json(typed_path(path), _MOST_BYTES)
    if stored is None:
        raise ConfigError(f"{path}: there is no such file of colourings.")
    with refusing(f"{path} is not a file of colourings: "):
        return _checked(stored)


def _checked(stored: dict[str, Any]) -> tuple[Colouring, ...]:
    """The colourings of a file's content. Raises a ValueError if it is malformed."""
    if sorted(stored) != sorted(_NAMES):
        raise ValueError(f"it must have {', '.join(_NAMES)}, and nothing else")
    vertices, clique_size, texts = (stored[name] for name in _NAMES)
    for name, size in zip(_NAMES, (vertices, clique_size), strict=False):
        if type(size) is not int:
            raise ValueError(f"{name} must be a whole number, not {shortened(repr(size))}")
    CliqueConfig(vertices, clique_size)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("graph6 must be a list of texts")
    if len(texts) > MOST_COLOURINGS:
        raise ValueError(f"{len(texts):,} colourings are more than {MOST_COLOURINGS:,}")
    if len(set(texts)) < len(texts):
        raise ValueError("a colouring is repeated")
    return tuple(Colouring.from_graph6(text, vertices, clique_size) for text in texts)


def _pairs(vertices: int) -> list[tuple[int, int]]:
    """The edges in the order of graph6: by the larger vertex, then by the smaller."""
    return [(one, other) for other in range(vertices) for one in range(other)]
