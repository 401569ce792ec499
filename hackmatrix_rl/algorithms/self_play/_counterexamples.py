"""Full boards without a clique in games of self-play, stored in the run folder."""

from collections.abc import Callable, Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from hackmatrix_rl.algorithms.self_play._buffer import Buffer
from hackmatrix_rl.algorithms.self_play._match import NO_MOVE, Record
from hackmatrix_rl.games.clique import (
    FIRST,
    CliqueConfig,
    Colouring,
    find_clique,
    read_colourings,
    write_colourings,
)
from hackmatrix_rl.system import set_aside
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Hook, Metrics, Population, Trainer
from hackmatrix_rl.training.sharding import gather

MOST_KEPT = 1000
"""Maximum number of colourings that a run stores."""
_AT_ONCE = 32
"""Maximum number of full boards that are fetched after a dispatch."""


def colourings_of(config: CliqueConfig, record: Record) -> list[Colouring]:
    """The distinct full boards without a clique at the end of some games."""
    moves = np.asarray(record.moves)
    full = (moves != NO_MOVE).sum(axis=1) == config.num_edges
    return _without_clique(config, moves[full, FIRST : config.num_edges : 2].tolist())


class Counterexamples:
    """The first `MOST_KEPT` colourings that a run has found, in its folder."""

    def __init__(self, run: Path, config: CliqueConfig, *, note: Callable[[str], Any]) -> None:
        """Reads the file of the run; a damaged file is set aside."""
        self.file = run / "colourings.json"
        self._config = config
        self._note = note
        self._kept: set[Colouring] = set()
        try:
            self._kept.update(self._stored())
        except ConfigError as error:
            note(f"{error} It is now {set_aside(self.file).name}.")

    def _stored(self) -> tuple[Colouring, ...]:
        """The colourings in the file. Raises a ConfigError if it is damaged or of another board."""
        if not self.file.exists():
            return ()
        found = read_colourings(self.file)
        board = self._config.vertices, self._config.clique_size
        if any((each.vertices, each.clique_size) != board for each in found):
            raise ConfigError(f"{self.file}: its colourings are of another board.")
        return found

    def add(self, colourings: Iterable[Colouring]) -> None:
        """Adds new colourings, and writes the file."""
        new = [each for each in dict.fromkeys(colourings) if each not in self._kept]
        new = new[: max(0, MOST_KEPT - len(self._kept))]
        if not new:
            return
        self._kept.update(new)
        try:
            write_colourings(self.file, self._kept)
        except OSError as error:  # the training continues without the file
            self._note(f"could not keep a colouring without a clique: {error}")

    def line(self) -> str | None:
        """The bound on the Ramsey number that the colourings prove; `None` without any."""
        if not self._kept:
            return None
        count, n, k = len(self._kept), self._config.vertices, self._config.clique_size
        return (
            f"{count:,} colouring{'s' * (count > 1)} of K_{n} without a clique of {k}: "
            f"R({k}, {k}) > {n}; kept in {self.file}"
        )


@final
class KeepColourings(Hook):
    """Stores full boards without a clique from training games; only process 0 has `kept`."""

    def __init__(self, config: CliqueConfig, kept: Counterexamples | None) -> None:
        self._config = config
        self._kept = kept

    def after_dispatch(self, trainer: Trainer[Any], metrics: Metrics) -> None:
        """Fetches the newest full boards, if a game of the dispatch may have ended in one."""
        draws = metrics.episode.get("draws", 0.0) > 0
        if not draws and not (metrics.episodes and self._config.full_board == "second-wins"):
            return
        # A collective: every process holds a part of the games.
        algorithm, buffer = trainer.algorithm, trainer.state.collector_state.buffer
        buffers = [buffer]
        if isinstance(algorithm, Population):
            buffers = [jax.tree.map(itemgetter(k), buffer) for k in range(algorithm.size)]
            algorithm = algorithm.algorithm
        sizes = algorithm.sizes
        newest = min(metrics.dispatched * sizes.moves_per_update, sizes.length)
        for buffer in buffers:
            found = full_boards(self._config, buffer, jnp.int32(newest))
            first, valid = gather(found, algorithm.mesh)
            if self._kept is not None:
                boards = np.asarray(first)[np.asarray(valid)]
                edges = [np.flatnonzero(board).tolist() for board in boards]
                self._kept.add(_without_clique(self._config, edges))


@eqx.filter_jit
def full_boards(
    config: CliqueConfig, buffer: Buffer, newest: Int32[Array, ""]
) -> tuple[Bool[Array, "boards num_edges"], Bool[Array, " boards"]]:
    """The first player's edges on full boards that no clique decided, and which boards are valid.

    The boards are of games that ended in the `newest` moves. With `second-wins`, the second player
    may have completed a clique with the last edge.
    """
    moves = buffer.moves
    length = moves.reward.shape[1]
    age = (buffer.slot - 1 - np.arange(length, dtype=np.int32)) % length
    seen = moves.observation
    if config.full_board == "second-wins":
        no_clique = jnp.where(seen.first, moves.reward < 0, moves.reward > 0)
    else:
        no_clique = moves.reward == 0
    last = moves.ended & (jnp.sum(moves.mask, axis=-1, dtype=jnp.int32) == 1)
    found = last & no_clique & (age < newest)[None, :]
    game, place = jnp.nonzero(found, size=_AT_ONCE, fill_value=0)
    own = seen.own[game, place] | moves.mask[game, place]  # the only legal edge was played last
    first = jnp.where(seen.first[game, place][:, None], own, seen.other[game, place])
    return first, jnp.arange(_AT_ONCE) < jnp.sum(found, dtype=jnp.int32)


def _without_clique(config: CliqueConfig, boards: Iterable[list[int]]) -> list[Colouring]:
    """The distinct colourings without a clique, from the first player's edges on full boards."""
    every, size = set(range(config.num_edges)), config.clique_size
    found = []
    for board in boards:
        sides = board, every - set(board)
        if not any(find_clique(config.vertices, side, size) for side in sides):
            found.append(Colouring(config.vertices, size, tuple(board)))
    return list(dict.fromkeys(found))
