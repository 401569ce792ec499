"""Agents on the Hugging Face Hub: `hf://USER/NAME`, or `hf://USER/NAME@REVISION`.

A repository has the weights (`model.safetensors`), their description (`agent.json`), which is the
metadata of a checkpoint with the SHA-256 sum of the weights, and files for people. Only those two
are fetched. They become a checkpoint in the user's cache folder, which is then read like any
other; neither file holds code.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from etils import epath

from hackmatrix_rl.runs.checkpoints._manifest import damage, sha256_of
from hackmatrix_rl.runs.checkpoints._metadata import PARTS
from hackmatrix_rl.runs.checkpoints._trim import Trimmed, trimmed, write_trimmed
from hackmatrix_rl.system import cache_folder, format_bytes, read_json, require
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, first_line, refusing
from hackmatrix_rl.training import Stored

HUB = "hf://"
"""The prefix of the names of agents on the hub."""
DESCRIPTION, WEIGHTS = "agent.json", "model.safetensors"
FORMAT = 1
"""The format of `DESCRIPTION`."""
MOST = {DESCRIPTION: 2**26, WEIGHTS: 2**34}
"""The most bytes of each file that is fetched: 64 MiB and 16 GiB."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SECONDS = 30  # until the hub must answer


@dataclass(frozen=True)
class HubName:
    """The name of an agent on the hub."""

    said: str  #: The name as the user wrote it.
    repository: str  #: `USER/NAME`.
    revision: str | None  #: A branch, a tag or a commit; `None` is the newest.

    @classmethod
    def of(cls, name: str) -> "HubName":
        """Parses a name. Raises a ConfigError if it is not one."""
        repository, at, revision = name.removeprefix(HUB).partition("@")
        known = _REPOSITORY.fullmatch(repository) and ".." not in name and "--" not in repository
        if not known or (at and not _REVISION.fullmatch(revision)):
            raise ConfigError(f"{name}: write {HUB}USER/NAME or {HUB}USER/NAME@REVISION.")
        return cls(name, repository, revision or None)


def is_on_hub(name: object) -> bool:
    """Whether a name is that of an agent on the hub."""
    return isinstance(name, str) and name.startswith(HUB)


def library(said: str) -> Any:
    """`huggingface_hub`. Raises a ConfigError if it is not installed."""
    require("safetensors", extra="hub", caller=said)
    return require("huggingface_hub", extra="hub", caller=said)


@contextmanager
def answering(said: str) -> Iterator[None]:
    """Makes any error of the hub, its library or the network a ConfigError."""
    from huggingface_hub import errors

    try:
        yield
    except ConfigError:
        raise
    except errors.RevisionNotFoundError as error:
        raise ConfigError(f"{said}: the repository has no such revision.") from error
    except errors.EntryNotFoundError as error:
        raise ConfigError(
            f"{said}: is not an agent of hackmatrix-rl: it has no {DESCRIPTION} with {WEIGHTS}. "
            f"hackmatrix-rl push RUN {HUB}USER/NAME writes both."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ConfigError(
            f"{said}: no such repository, or it is private and you are not logged in. Check the "
            "name, or log in: hf auth login"
        ) from error
    except Exception as error:  # any other error of the library or the network is reported
        raise ConfigError(
            f"{said}: the hub says: {first_line(error)[:300].rstrip('.')}."
        ) from error


def fetched(name: str) -> epath.Path:
    """The checkpoint of an agent on the hub, in the user's cache folder.

    Each commit is fetched once; without a network, the library's cached files are used.

    Raises:
        ConfigError: there is no such agent, its files are damaged, or the hub does not answer.
    """
    named, hub = HubName.of(name), library(name)
    with answering(name):
        described = _download(hub, named, DESCRIPTION)
    commit = described.parent.name
    if not _COMMIT.fullmatch(commit):
        raise ConfigError(f"{name}: the hub names a commit {commit[:80]!r}, which is none.")
    place = epath.Path(cache_folder() / "hub" / commit)
    if place.exists() and damage(place) is None:
        return place
    with refusing(f"{name}: {DESCRIPTION}: ", of=DamagedFileError):
        about = read_json(described) or {}
    if about.get("format") != FORMAT or not isinstance(about.get("metadata"), dict):
        raise ConfigError(
            f"{name}: {DESCRIPTION} is not of format {FORMAT}. Use the version of hackmatrix-rl "
            "that pushed it, or a later one."
        )
    at = HubName(name, named.repository, commit)
    with answering(name):
        weights = _download(hub, at, WEIGHTS)
    if sha256_of(epath.Path(weights)) != about.get("sha256"):
        raise ConfigError(
            f"{name}: {WEIGHTS} is damaged: it is not what was pushed. Push it again."
        )
    with refusing(f"{name}: cannot be stored: ", of=OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        made = place.parent / f".{secrets.token_hex(8)}"
        try:
            with refusing(f"{name}: ", "", of=ConfigError):
                write_trimmed(_read(weights, about["metadata"]), made)
            if place.exists() and damage(place) is not None:
                place.rmtree()
            if not place.exists():  # another process may have been faster
                made.rename(place)
        finally:
            if made.exists():
                made.rmtree()
    return place


def _download(hub: Any, named: HubName, file: str) -> Path:
    """A file of a repository in the library's cache; its size is known before."""
    from huggingface_hub import constants

    if not constants.HF_HUB_OFFLINE:
        address = hub.hf_hub_url(named.repository, file, revision=named.revision)
        size = hub.get_hf_file_metadata(address, timeout=_SECONDS).size
        if size is None or size > MOST[file]:
            there = "unknown" if size is None else format_bytes(size)
            raise ConfigError(
                f"{named.said}: the size of {file} is {there}; at most {format_bytes(MOST[file])} "
                "are fetched."
            )
    return Path(hub.hf_hub_download(named.repository, file, revision=named.revision))


def _read(weights: Path, metadata: Mapping[str, Any]) -> Trimmed:
    """The arrays of a file of weights, with their metadata, which is checked where it is read."""
    import safetensors.numpy

    try:
        arrays = safetensors.numpy.load_file(weights)
    except Exception as error:  # the library has no base class of errors
        raise ConfigError(f"{WEIGHTS} cannot be read: {first_line(error)}") from error
    keys = metadata.get("random_keys")
    parts = {}
    for part in PARTS:
        named = {
            each.removeprefix(part): array
            for each, array in arrays.items()
            if each.startswith(part)
        }
        of_part = keys.get(part) if isinstance(keys, dict) else None
        parts[part] = Stored(named, of_part if isinstance(of_part, dict) else {})
    return Trimmed(dict(metadata), parts)


def hub_files(checkpoint: epath.PathLike) -> dict[str, bytes]:
    """The files of a checkpoint on the hub, by name."""
    import safetensors.numpy

    found = trimmed(checkpoint)
    arrays = {
        part + name: np.ascontiguousarray(array)
        for part, stored in found.parts.items()
        for name, array in stored.arrays.items()
    }
    weights = safetensors.numpy.save(arrays, {"format": "hackmatrix-rl"})
    about = {
        "format": FORMAT,
        "sha256": hashlib.sha256(weights).hexdigest(),
        "metadata": found.metadata,
    }
    return {
        DESCRIPTION: (json.dumps(about, indent=1, allow_nan=False) + "\n").encode(),
        WEIGHTS: weights,
    }
