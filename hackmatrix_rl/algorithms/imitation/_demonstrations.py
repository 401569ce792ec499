"""Demonstrations on disk: the games of a teacher (docs/demonstrations.md)."""

import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float32, Int32, PyTree

from hackmatrix_rl.env import KINDS, GameIdentity, HackMatrix, game_identity
from hackmatrix_rl.games.hackmatrix import LEAGUES
from hackmatrix_rl.system import (
    read_bounded,
    read_json,
    read_npz,
    typed_path,
    write_json,
    write_whole,
)
from hackmatrix_rl.system.errors import (
    ConfigError,
    DamagedFileError,
    printable,
    refusing,
    shortened,
    whole,
)

FORMAT = 1
HEADER = "header.json"
SHARD_POSITIONS = 65_536
"""Positions in a file: a few MB."""
MOST_SHARD_POSITIONS = 16 * SHARD_POSITIONS
"""Maximum number of positions in a file, which is read into memory at once."""
_MOST_AROUND = 2**16  # maximum bytes of a file besides its uncompressed arrays

_USE_ANOTHER = "Write the demonstrations again."


class Demonstrations(eqx.Module):
    """Positions of a teacher's games, on the host; each array has a leading axis of positions.

    `action` is the label: the teacher's action. `played` is the same, except for random actions.
    `reward` and `done` follow from `played`. The positions of a `game` are consecutive.
    """

    observation: PyTree[np.ndarray]
    mask: Bool[np.ndarray, "positions num_actions"]
    action: Int32[np.ndarray, " positions"]
    played: Int32[np.ndarray, " positions"]
    reward: Float32[np.ndarray, " positions"]
    done: Bool[np.ndarray, " positions"]
    game: Int32[np.ndarray, " positions"]

    def __len__(self) -> int:
        return len(self.action)

    def select(self, places: Any) -> "Demonstrations":
        """The positions at `places`, an array of indices or a slice."""
        return jax.tree.map(lambda leaf: leaf[places], self)

    @staticmethod
    def join(parts: "list[Demonstrations]") -> "Demonstrations":
        """The concatenated positions of all parts."""
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@dataclass(frozen=True)
class DemonstrationsHeader:
    """The header of a folder of demonstrations.

    `game` identifies rules, observation and actions. `random_share` is the probability of a random
    action. `shards` has the number of positions in each file.
    """

    game: GameIdentity
    league: str
    teacher: str
    seed: int
    games: int
    random_share: float
    shards: tuple[int, ...] = ()

    @property
    def positions(self) -> int:
        """Number of positions in all files."""
        return sum(self.shards)

    @classmethod
    def read(cls, folder: Path) -> "DemonstrationsHeader":
        """The header in a folder.

        Raises:
            ConfigError: there is none, it is damaged, or this version does not read it.
        """
        file = folder / HEADER
        with refusing(f"{file}: ", f". {_USE_ANOTHER}", of=DamagedFileError):
            content = read_json(file)
        if content is None:
            raise ConfigError(
                f"{folder}: no demonstrations there: {HEADER} is missing. It is written last: "
                "perhaps the writing was stopped."
            )
        if content.get("format") != FORMAT:
            raise ConfigError(
                f"{file}: format {shortened(content.get('format'))}, but this version reads format "
                f"{FORMAT}. Use the version that wrote it, or write them again."
            )
        try:
            return cls(
                game=GameIdentity.from_texts(_typed(content, "game", dict)),
                league=_typed(content, "league", str),
                teacher=_typed(content, "teacher", str),
                seed=_typed(content, "seed", int),
                games=_within("games", _typed(content, "games", int), 1, math.inf),
                random_share=float(
                    _within("random_share", _typed(content, "random_share", (int, float)), 0, 1)
                ),
                shards=tuple(
                    _within("shards", whole("shards", each), 1, MOST_SHARD_POSITIONS)
                    for each in _typed(content, "shards", list)
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{file}: no version of hackmatrix-rl writes this ({printable(str(error), 200)}). "
                f"{_USE_ANOTHER}"
            ) from error

    def write(self, folder: Path) -> None:
        write_json(folder / HEADER, {"format": FORMAT, **asdict(self)})

    def check_of(self, environment: HackMatrix, folder: Path) -> None:
        """Raises a ConfigError unless the demonstrations are of the environment's game."""
        here = game_identity(environment.observation)
        differ = self.game.differences(here)
        if self.league != environment.config.league:
            differ["league"] = self.league, environment.config.league
        if differ:
            said = "; ".join(
                f"{name} {shortened(repr(there))}, but here it is {mine!r}"
                for name, (there, mine) in differ.items()
            )
            raise ConfigError(
                f"{folder}: demonstrations of another game: {said}. {self._read_by(environment)}"
            )

    def _read_by(self, environment: HackMatrix) -> str:
        """The advice if the demonstrations are of another game than the environment's."""
        kind: Any = self.game.observation.partition("-")[0]
        known = kind in KINDS and self.league in LEAGUES
        if not known or self.game.differences(game_identity(kind)):
            return _USE_ANOTHER  # no environment of this version reads them
        needed = []
        if self.league != environment.config.league:
            needed.append(f"GameConfig(rewind_across_stages={self.league == LEAGUES[0]})")
        if kind != environment.observation:
            needed.append(f'observation="{kind}"')
        return f"Read them with HackMatrix({', '.join(needed)})."


class DemonstrationsWriter:
    """Writes demonstrations into a new or empty folder, in files, and the header last.

        with DemonstrationsWriter(folder, header) as writer:
            writer.add(demonstrations)

    `header` counts the files written so far.

    Raises:
        ConfigError: the folder is not empty.
        ValueError: `shard_positions` is not within 1..`MOST_SHARD_POSITIONS`.
    """

    def __init__(
        self, folder: Path, header: DemonstrationsHeader, *, shard_positions: int = SHARD_POSITIONS
    ) -> None:
        size = whole("shard_positions", shard_positions)
        self._size = _within("shard_positions", size, 1, MOST_SHARD_POSITIONS)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder}: exists already. Give a new or an empty folder.")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self.header = folder, header
        self._waiting: list[Demonstrations] = []

    def add(self, demonstrations: Demonstrations) -> None:
        """Adds positions, and writes each file once it is full."""
        self._waiting.append(demonstrations)
        while sum(map(len, self._waiting)) >= self._size:
            joined = Demonstrations.join(self._waiting)
            self._write(joined.select(slice(self._size)))
            self._waiting = [joined.select(slice(self._size, None))]

    def __enter__(self) -> "DemonstrationsWriter":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            return  # files without a header are incomplete
        rest = sum(map(len, self._waiting))
        if rest:
            self._write(Demonstrations.join(self._waiting))
        self.header.write(self._folder)

    def _write(self, some: Demonstrations) -> None:
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **_named(some))
        shards = self.header.shards
        write_whole(self._folder / _shard_name(len(shards)), [content.getvalue()])
        self.header = replace(self.header, shards=(*shards, len(some)))


@dataclass(frozen=True)
class StoredDemonstrations:
    """Demonstrations in a folder that fit an environment."""

    folder: Path
    header: DemonstrationsHeader
    environment: HackMatrix

    def shard(self, number: int) -> Demonstrations:
        """The positions of one file. The dtype and shape of an array are checked before it is read.

        Raises:
            ConfigError: the file is missing, damaged or of another game, or has illegal actions or
                numbers that are not finite.
        """
        file = self.folder / _shard_name(number)
        like = _like(self.environment, self.header.shards[number])
        try:
            some = _read_arrays(file, like)
            _check_values(some, self.header.games)
        except FileNotFoundError as error:
            raise ConfigError(f"{file}: is missing. {_USE_ANOTHER}") from error
        except DamagedFileError as wrong:
            raise ConfigError(f"{file}: {wrong}. {_USE_ANOTHER}") from wrong
        return some

    def batches(
        self,
        size: int,
        *,
        seed: int,
        epochs: int = 1,
        mixed: int = 4,
        host: int = 0,
        hosts: int = 1,
    ) -> Iterator[Demonstrations]:
        """Batches of positions in a random order; an incomplete last batch is dropped.

        The order of the files is random, and `mixed` files at a time are shuffled together. Each of
        several `hosts` gets its own slice of every batch. The batches do not depend on `hosts`.

        Args:
            size: global batch size, over all hosts.
            seed: seed of the order.
            epochs: number of passes over all files.
            mixed: number of files in memory at a time.
            host: index of this process: `jax.process_index()`.
            hosts: number of processes: `jax.process_count()`.

        Raises:
            ConfigError: a file cannot be read.
            ValueError: an argument is out of range, or `hosts` does not divide `size`.
        """
        size, hosts = whole("size", size), whole("hosts", hosts)
        if size % hosts:
            raise ValueError(f"size {size} does not divide over {hosts} hosts")
        share = size // hosts
        own = share * _within("host", whole("host", host, 0), 0, hosts - 1)
        random = np.random.default_rng(seed)
        left: list[Demonstrations] = []
        for _ in range(whole("epochs", epochs)):
            order = random.permutation(len(self.header.shards))
            for first in range(0, len(order), whole("mixed", mixed)):
                found = [self.shard(int(each)) for each in order[first : first + mixed]]
                pool = Demonstrations.join([*left, *found])
                pool = pool.select(random.permutation(len(pool)))
                last = len(pool) // size * size
                for start in range(0, last, size):
                    yield pool.select(slice(start + own, start + own + share))
                left = [pool.select(slice(last, None))]


def read_demonstrations(folder: Path | str, environment: HackMatrix) -> StoredDemonstrations:
    """Opens demonstrations of the environment's rules, observation and league.

    Raises:
        ConfigError: there are none, they are damaged, or of another game.
    """
    place = Path(typed_path(folder))
    header = DemonstrationsHeader.read(place)
    header.check_of(environment, place)
    if header.games > header.positions:
        raise ConfigError(
            f"{place / HEADER}: {shortened(header.games)} games cannot have {header.positions:,} "
            f"positions. {_USE_ANOTHER}"
        )
    return StoredDemonstrations(place, header, environment)


def _typed(content: Mapping[str, Any], name: str, kind: Any) -> Any:
    value = content[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {shortened(value)}")
    return value


def _within(name: str, value: Any, least: float, most: float) -> Any:
    if not least <= value <= most:
        raise ValueError(f"{name} must be within {least}..{most}, not {shortened(value)}")
    return value


def _read_arrays(file: Path, like: Demonstrations) -> Demonstrations:
    """The arrays of a file, which must match `like` in name, dtype and shape."""
    wanted = _named(like)
    size = sum(leaf.nbytes for leaf in wanted.values())

    def check(name: str, dtype: str, shape: tuple[int, ...]) -> None:
        if name not in wanted:
            raise DamagedFileError(
                f"holds {printable(name, 60)}, which no version of hackmatrix-rl writes"
            )
        expected = wanted[name]
        if (dtype, shape) != (expected.dtype.str, expected.shape):
            there = printable(f"{dtype}{list(shape)}", 120)
            raise DamagedFileError(
                f"its array {name} is {there}, not {expected.dtype.str}{list(expected.shape)}"
            )

    content = read_bounded(file, size + _MOST_AROUND)
    found = read_npz(content, most_arrays=len(wanted), most_bytes=size, check=check)
    if missing := wanted.keys() - found.keys():
        raise DamagedFileError(f"{min(missing)} is missing")
    return jax.tree.unflatten(jax.tree.structure(like), [found[name] for name in wanted])


def _check_values(some: Demonstrations, games: int) -> None:
    """Raises a DamagedFileError if an action, a number or a game is invalid."""
    if not some.mask.any(axis=1).all():
        raise DamagedFileError("mask leaves no legal action in a position")
    for name, chosen in (("action", some.action), ("played", some.played)):
        legal = (chosen >= 0) & (chosen < some.mask.shape[1])
        legal[legal] = some.mask[legal, chosen[legal]]
        if not legal.all():
            raise DamagedFileError(
                f"{name} is {chosen[~legal][0]} in a position, where that is not legal"
            )
    for name, leaf in _named(some).items():
        if not np.isfinite(leaf).all():
            raise DamagedFileError(f"{name} holds NaN or infinity")
    outside = (some.game < 0) | (some.game >= games)
    if outside.any():
        raise DamagedFileError(
            f"game is {some.game[outside][0]}, but {HEADER} counts {games:,} games"
        )


def _shard_name(number: int) -> str:
    return f"{number:05}.npz"


def _named(some: Demonstrations) -> dict[str, np.ndarray]:
    """The arrays by path: `observation.grid`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(some)
    return {jax.tree_util.keystr(path).lstrip("."): leaf for path, leaf in leaves}


def _like(environment: HackMatrix, positions: int) -> Demonstrations:
    """Arrays with the dtypes and shapes of `positions` positions; broadcast, without memory."""
    spec = environment.spec

    def array(dtype: Any, *shape: int) -> np.ndarray:
        return np.broadcast_to(np.zeros((), dtype), (positions, *shape))

    return Demonstrations(
        observation=jax.tree.map(lambda leaf: array(leaf.dtype, *leaf.shape), spec.observation),
        mask=array(bool, spec.num_actions),
        action=array(np.int32),
        played=array(np.int32),
        reward=array(np.float32),
        done=array(bool),
        game=array(np.int32),
    )
