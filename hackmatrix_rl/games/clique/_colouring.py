"""Full boards without a clique: Ramsey colourings, checked and kept in a file."""

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
"""Colourings in a file, at most."""
_MOST_BYTES = 2**24
_NAMES = ("vertices", "clique_size", "graph6")
_BITS, _OFFSET = 6, 63
"""graph6 has 6 bits in a printable character, from code 63 on."""


@dataclass(frozen=True)
class Colouring:
    """A colouring of all edges of the complete graph, without a clique of either colour.

    It shows that the Ramsey number R(clique_size, clique_size) is more than `vertices`. The check
    is exact: it looks at every clique of both colours, without JAX.

    Source: Radziszowski, "Small Ramsey numbers", Electronic Journal of Combinatorics DS1.

    Attributes:
        vertices: number of vertices, 3 to 18.
        clique_size: number of vertices of a clique that is not there.
        first: the edges of the first player in order, by their numbers (see `edges`); all others
            are the second player's.

    Raises:
        ValueError: a size or an edge is out of range, an edge is named twice, or there is a clique.
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
                    f"the {name} player has the clique {', '.join(map(str, clique))} in a board of "
                    f"{self.vertices} vertices, so this is no colouring without a clique of "
                    f"{self.clique_size}"
                )

    @classmethod
    def from_graph6(cls, text: str, vertices: int, clique_size: int) -> "Colouring":
        """The colouring whose first player's edges are a graph in graph6.

        Raises:
            ValueError: the text is no such graph, or there is a clique.
        """
        pairs = _pairs(vertices)
        length = 1 + -(-len(pairs) // _BITS)
        codes = [ord(letter) - _OFFSET for letter in text]
        if len(codes) != length or codes[0] != vertices or not all(0 <= c < 64 for c in codes):
            raise ValueError(f"{shortened(text)} is no graph6 of {vertices} vertices")
        bits = "".join(f"{code:0{_BITS}b}" for code in codes[1:])
        if "1" in bits[len(pairs) :]:
            raise ValueError(f"{shortened(text)} is no graph6 of {vertices} vertices")
        numbers = edge_numbers(vertices)
        mine = (pair for pair, bit in zip(pairs, bits, strict=False) if bit == "1")
        return cls(vertices, clique_size, tuple(int(numbers[pair]) for pair in mine))

    @property
    def graph6(self) -> str:
        """The first player's edges in graph6, as nauty, networkx and Sage read it.

        Source: McKay, "Description of graph6, sparse6 and digraph6 encodings".
        """
        numbers, mine = edge_numbers(self.vertices), set(self.first)
        bits = "".join("01"[int(numbers[pair]) in mine] for pair in _pairs(self.vertices))
        bits += "0" * (-len(bits) % _BITS)
        codes = [int(bits[place : place + _BITS], 2) for place in range(0, len(bits), _BITS)]
        return "".join(chr(code + _OFFSET) for code in (self.vertices, *codes))


def find_clique(vertices: int, edges: Iterable[int], clique_size: int) -> tuple[int, ...] | None:
    """The vertices of a clique whose edges are all among these; `None` without one.

    The search is exact, in plain Python: it extends every clique by the later common neighbours.
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
    """Writes colourings of one board to a JSON file, each once and in order; returns their number.

    Raises:
        ValueError: there are none or too many, or they are of different boards.
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
    """Reads the colourings in a file of `write_colourings`, and checks each of them again.

    Raises:
        ConfigError: there is no such file, it has other content, or a colouring has a clique.
    """
    with refusing(f"{path} is no file of colourings: it ", of=DamagedFileError):
        stored = read_json(typed_path(path), _MOST_BYTES)
    if stored is None:
        raise ConfigError(f"{path}: there is no such file of colourings.")
    with refusing(f"{path} is no file of colourings: "):
        return _checked(stored)


def _checked(stored: dict[str, Any]) -> tuple[Colouring, ...]:
    """The colourings of a file's content; raises a ValueError."""
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
        raise ValueError("a colouring is there twice")
    return tuple(Colouring.from_graph6(text, vertices, clique_size) for text in texts)


def _pairs(vertices: int) -> list[tuple[int, int]]:
    """The edges in the order of graph6: by the larger vertex, then by the smaller one."""
    return [(one, other) for other in range(vertices) for one in range(other)]
