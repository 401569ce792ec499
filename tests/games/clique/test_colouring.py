"""Colourings without a clique: known ones, an independent check, and their file."""

import json
import os
from itertools import combinations

import numpy as np
import pytest

from hackmatrix_rl.games.clique import (
    Colouring,
    edge_numbers,
    edges,
    find_clique,
    read_colourings,
    write_colourings,
)
from hackmatrix_rl.system.errors import ConfigError

pytestmark = pytest.mark.search


def by_difference(vertices, differences, clique_size):
    """The circulant graph of some differences as the first player's edges."""
    numbers = edge_numbers(vertices)
    pairs = combinations(range(vertices), 2)
    mine = [(a, b) for a, b in pairs if (b - a) in differences or vertices - (b - a) in differences]
    return Colouring(vertices, clique_size, tuple(int(numbers[pair]) for pair in mine))


PENTAGON = by_difference(5, {1}, 3)
SQUARES = {number * number % 17 for number in range(1, 17)}
PALEY = by_difference(17, SQUARES, 4)
"""The colouring of 17 vertices that shows R(4, 4) > 17 (Greenwood and Gleason 1955)."""


def test_known_colourings_are_accepted_and_at_the_ramsey_number_there_is_a_clique():
    assert PENTAGON.first == (0, 3, 4, 7, 9)
    assert len(PALEY.first) == 17 * 8 // 2
    for some in list(combinations(range(15), 7))[::40]:
        sides = some, set(range(15)) - set(some)
        assert any(find_clique(6, side, 3) for side in sides)
    extended = [(a, b) for a, b in edges(17)[list(PALEY.first)].tolist()]
    numbers = edge_numbers(18)
    with pytest.raises(ValueError, match="the second player has the clique"):
        Colouring(18, 4, tuple(int(numbers[pair]) for pair in extended))


@pytest.mark.parametrize(("vertices", "clique_size"), [(7, 3), (10, 4), (18, 5), (18, 6)])
def test_a_clique_is_found_if_and_only_if_one_of_all_subsets_is_one(vertices, clique_size):
    random = np.random.default_rng(vertices * clique_size)
    numbers = edge_numbers(vertices)
    cliques = [numbers[np.ix_(some, some)] for some in combinations(range(vertices), clique_size)]
    places = np.stack([each[np.triu_indices(clique_size, 1)] for each in cliques])
    seen = set()
    for trial in range(40):
        density = 0.3 + 0.4 * trial / 40
        mine = random.random(len(edges(vertices))) < density
        expected = mine[places].all(axis=1).any()
        found = find_clique(vertices, np.flatnonzero(mine).tolist(), clique_size)
        assert (found is not None) == expected
        if found is not None:
            assert len(set(found)) == clique_size
            assert mine[[numbers[pair] for pair in combinations(found, 2)]].all()
        seen.add(bool(expected))
    assert seen == {True, False}


def test_graph6_is_that_of_its_specification():
    """The example of McKay's description: edges 0-2, 0-4, 1-3, 3-4 of 5 vertices are DQc."""
    numbers = edge_numbers(5)
    first = tuple(int(numbers[pair]) for pair in ((0, 2), (0, 4), (1, 3), (3, 4)))
    assert Colouring(5, 4, first).graph6 == "DQc"
    assert Colouring.from_graph6("DQc", 5, 4) == Colouring(5, 4, first)
    assert Colouring.from_graph6(PALEY.graph6, 17, 4) == PALEY


def test_a_file_holds_each_colouring_once_and_is_checked_again(tmp_path):
    file = tmp_path / "colourings.json"
    other = Colouring(5, 3, tuple(sorted(set(range(10)) - set(PENTAGON.first))))
    assert write_colourings(file, [other, PENTAGON, other]) == 2
    assert read_colourings(file) == (PENTAGON, other)
    before = file.read_bytes()
    write_colourings(file, [PENTAGON, other])
    assert file.read_bytes() == before
    assert write_colourings(file, [PALEY]) == 1
    assert read_colourings(file) == (PALEY,)


def test_colourings_of_two_boards_do_not_go_into_a_file(tmp_path):
    for some in ([], [PENTAGON, PALEY]):
        with pytest.raises(ValueError, match="do not go into a file"):
            write_colourings(tmp_path / "file", some)


GOOD = {"vertices": 5, "clique_size": 3, "graph6": [PENTAGON.graph6]}
BAD = {
    "a clique": ({"graph6": ["D~{"]}, "the first player has the clique 0, 1, 2 on a board"),
    "a clique of the second": ({"graph6": ["D??"]}, "the second player has the clique 0, 1, 2"),
    "short": ({"graph6": ["D"]}, "D is not a graph6 of 5 vertices"),
    "empty": ({"graph6": [""]}, "is not a graph6 of 5 vertices"),
    "other letters": ({"graph6": ["D\x1b["]}, r"\\x1b\[ is not a graph6"),
    "another size": ({"graph6": ["EhEG"]}, "not a graph6 of 5 vertices"),
    "bits beyond the last edge": ({"graph6": ["DqL"]}, "not a graph6 of 5 vertices"),
    "twice": ({"graph6": [PENTAGON.graph6] * 2}, "a colouring is repeated"),
    "no texts": ({"graph6": [5]}, "graph6 must be a list of texts"),
    "no list": ({"graph6": PENTAGON.graph6}, "graph6 must be a list of texts"),
    "too many": ({"graph6": [PENTAGON.graph6] * 10_001}, "10,001 colourings are more than 10,000"),
    "too large": ({"vertices": 19}, "vertices must be a whole number from 3 to 18"),
    "no number": ({"clique_size": "3" * 500}, "clique_size must be a whole number, not .*[.]{3}"),
    "something else": ({"more": 1}, "it must have vertices, clique_size, graph6"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line(tmp_path, name):
    change, says = BAD[name]
    file = tmp_path / "file.json"
    file.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(ConfigError, match=says) as refused:
        read_colourings(file)
    assert str(file) in str(refused.value)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


def test_what_is_no_file_of_colourings_is_refused(tmp_path):
    file = tmp_path / "file.json"
    with pytest.raises(ConfigError, match="there is no such file of colourings"):
        read_colourings(file)
    file.write_text("[")
    with pytest.raises(ConfigError, match="it is not JSON"):
        read_colourings(file)
    with pytest.raises(ConfigError, match="it is a folder, not a file"):
        read_colourings(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="a pipe, a device or a socket"):
        read_colourings(tmp_path / "pipe")
    file.write_text(json.dumps(GOOD))
    assert read_colourings(file) == (PENTAGON,)


@pytest.mark.parametrize("first", [(0, 0, 1), (0, 10), (-1, 2)])
def test_edges_that_are_none_are_refused(first):
    with pytest.raises(ValueError, match="first must be different edges from 0 to 9"):
        Colouring(5, 3, first)
