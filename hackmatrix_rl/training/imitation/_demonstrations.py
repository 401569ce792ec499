"""Demonstrations on disk: what a teacher did in its games (docs/demonstrations.md)."""

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float32, Int32, PyTree

from hackmatrix_rl.env import KINDS, GameIdentity, HackMatrix, game_identity
from hackmatrix_rl.errors import ConfigError, DamagedFileError, whole
from hackmatrix_rl.game import LEAGUES
from hackmatrix_rl.system import read_json, write_json, write_whole

FORMAT = 1
HEADER = "header.json"
SHARD_POSITIONS = 65_536
"""Positions in a file: a few MB."""

_USE_ANOTHER = "Write the demonstrations again."


class Demonstrations(eqx.Module):
    """Positions of a teacher's games, on the host; each array has a leading axis of positions.

    Attributes:
        observation: the observations.
        mask: the legal actions.
        action: what the teacher does: the label.
        played: what was played: the same, but for random actions.
        reward: of the played action.
        done: whether the game ended with it.
        game: number of the game. Positions of a game stand one after another.
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
        """The positions at some places: numbers, or a slice."""
        chosen: Demonstrations = jax.tree.map(lambda leaf: leaf[places], self)
        return chosen

    @staticmethod
    def join(parts: "list[Demonstrations]") -> "Demonstrations":
        """The positions of all parts, one after another."""
        joined: Demonstrations = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        return joined


@dataclass(frozen=True)
class DemonstrationsHeader:
    """What demonstrations are of.

    Attributes:
        game: rules, observation and actions.
        league: of the games.
        teacher: the name of the player.
        seed: of the games.
        games: number of games.
        random_share: share of random actions among the played ones.
        shards: number of positions in each file.
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
            ConfigError: there is none, or this version does not read it.
        """
        file = folder / HEADER
        try:
            content = read_json(file)
        except DamagedFileError as error:
            raise ConfigError(f"{file}: {error}. {_USE_ANOTHER}") from error
        if content is None:
            raise ConfigError(
                f"{folder}: no demonstrations there: {HEADER} is missing. It is written last: "
                "perhaps the writing was stopped."
            )
        if content.get("format") != FORMAT:
            raise ConfigError(
                f"{file}: format {content.get('format')!r}, but this version reads format "
                f"{FORMAT}. Use the version that wrote it, or write them again."
            )
        try:
            return cls(
                game=GameIdentity.of(content["game"]),
                league=_typed(content, "league", str),
                teacher=_typed(content, "teacher", str),
                seed=_typed(content, "seed", int),
                games=_typed(content, "games", int),
                random_share=float(_typed(content, "random_share", (int, float))),
                shards=tuple(whole("shards", each) for each in _typed(content, "shards", list)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{file}: no version of hackmatrix-rl writes this ({error}). {_USE_ANOTHER}"
            ) from error

    def write(self, folder: Path) -> None:
        """Writes the header into a folder."""
        write_json(folder / HEADER, {"format": FORMAT, **asdict(self)})

    def check_of(self, environment: HackMatrix, folder: Path) -> None:
        """Raises a ConfigError if the demonstrations are of another game than an environment's."""
        here = game_identity(environment.observation)
        differ = self.game.differences(here)
        if self.league != environment.config.league:
            differ["league"] = self.league, environment.config.league
        if differ:
            said = "; ".join(
                f"{name} {there!r}, but here it is {mine!r}"
                for name, (there, mine) in differ.items()
            )
            raise ConfigError(
                f"{folder}: demonstrations of another game: {said}. {self._read_by(environment)}"
            )

    def _read_by(self, environment: HackMatrix) -> str:
        """What to do, if the demonstrations do not fit an environment."""
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
    """Writes demonstrations into a folder, file by file; the header comes last.

        with DemonstrationsWriter(folder, header) as writer:
            writer.add(demonstrations)

    Args:
        folder: a new or empty folder.
        header: what they are of. The writer counts the positions.
        shard_positions: positions in a file.

    Raises:
        ConfigError: the folder holds something already.
    """

    def __init__(
        self,
        folder: Path,
        header: DemonstrationsHeader,
        *,
        shard_positions: int = SHARD_POSITIONS,
    ) -> None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder}: exists already. Give a new or an empty folder.")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._header = folder, header
        self._size = whole("shard_positions", shard_positions)
        self._waiting: list[Demonstrations] = []

    @property
    def header(self) -> DemonstrationsHeader:
        """The header, with the files written so far."""
        return self._header

    def add(self, demonstrations: Demonstrations) -> None:
        """Writes positions, as soon as there are enough for a file."""
        self._waiting.append(demonstrations)
        while sum(map(len, self._waiting)) >= self._size:
            joined = Demonstrations.join(self._waiting)
            self._write(joined.select(slice(self._size)))
            self._waiting = [joined.select(slice(self._size, None))]

    def __enter__(self) -> "DemonstrationsWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            return  # without a header nobody takes the files for whole
        rest = sum(map(len, self._waiting))
        if rest:
            self._write(Demonstrations.join(self._waiting))
        self._header.write(self._folder)

    def _write(self, some: Demonstrations) -> None:
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **_named(some))
        shards = self._header.shards
        write_whole(self._folder / _shard_name(len(shards)), [content.getvalue()])
        self._header = replace(self._header, shards=(*shards, len(some)))


@dataclass(frozen=True)
class StoredDemonstrations:
    """Demonstrations in a folder that fit an environment.

    Attributes:
        folder: where they are.
        header: what they are of.
        environment: that they fit.
    """

    folder: Path
    header: DemonstrationsHeader
    environment: HackMatrix

    def shard(self, number: int) -> Demonstrations:
        """The positions of one file.

        Raises:
            ConfigError: the file is missing, cut short or damaged.
        """
        file = self.folder / _shard_name(number)
        one = _one_of(self.environment)
        like = _named(one)
        try:
            with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, KeyError) as error:
            raise ConfigError(
                f"{file}: cannot be read, it is missing, cut short or damaged. {_USE_ANOTHER}"
            ) from error
        length = self.header.shards[number]
        for name, leaf in like.items():
            found, shape = arrays.get(name), (length, *leaf.shape[1:])
            if found is None or found.shape != shape or found.dtype != leaf.dtype:
                said = "missing" if found is None else f"{found.dtype}{list(found.shape)}"
                raise ConfigError(
                    f"{file}: {name} is {said}, not {leaf.dtype}{list(shape)}. {_USE_ANOTHER}"
                )
        structure = jax.tree.structure(one)
        some: Demonstrations = jax.tree.unflatten(structure, [arrays[name] for name in like])
        return some

    def batches(
        self, size: int, *, seed: int, epochs: int = 1, mixed: int = 4
    ) -> Iterator[Demonstrations]:
        """Batches of positions in a random order. What is left at the end is dropped.

        Args:
            size: positions in a batch.
            seed: decides the order.
            epochs: how often each position comes.
            mixed: files that are read and shuffled together, in a random order of the files.

        Raises:
            ConfigError: a file cannot be read.
        """
        size = whole("size", size)
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
                    yield pool.select(slice(start, start + size))
                left = [pool.select(slice(last, None))]


def read_demonstrations(folder: Path | str, environment: HackMatrix) -> StoredDemonstrations:
    """Opens demonstrations.

    Args:
        folder: where they are.
        environment: of the student; rules, observation and league must be the same.

    Raises:
        ConfigError: there are none, they are damaged, or of another game.
    """
    place = Path(folder)
    header = DemonstrationsHeader.read(place)
    header.check_of(environment, place)
    return StoredDemonstrations(place, header, environment)


def _typed(content: Mapping[str, Any], name: str, kind: Any) -> Any:
    value = content[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {json.dumps(value)[:40]}")
    return value


def _shard_name(number: int) -> str:
    return f"{number:05}.npz"


def _named(some: Demonstrations) -> dict[str, np.ndarray]:
    """The arrays by name: `observation.grid`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(some)
    return {jax.tree_util.keystr(path).lstrip("."): leaf for path, leaf in leaves}


def _one_of(environment: HackMatrix) -> Demonstrations:
    """One position of zeros, whose arrays have the dtypes and shapes of any."""
    spec = environment.spec

    def array(dtype: Any, *shape: int) -> np.ndarray:
        return np.zeros((1, *shape), dtype)

    return Demonstrations(
        observation=jax.tree.map(lambda leaf: array(leaf.dtype, *leaf.shape), spec.observation),
        mask=array(bool, spec.num_actions),
        action=array(np.int32),
        played=array(np.int32),
        reward=array(np.float32),
        done=array(bool),
        game=array(np.int32),
    )
