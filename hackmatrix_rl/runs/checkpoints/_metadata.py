"""Reads the metadata of a checkpoint and checks it before use.

The file is untrusted. Its values become settings (which check themselves), numbers and names. No
value becomes code, and no name becomes a path out of the folder.
"""

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from etils import epath

from hackmatrix_rl.env import GameIdentity
from hackmatrix_rl.runs.config import TrainConfig, algorithms, baseline_algorithm, config_from_dict
from hackmatrix_rl.system import read_json
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, refusing, shortened

LONGEST = 255
"""Maximum number of bytes of a file's name."""
LONGEST_ID = LONGEST + 9
"""Maximum number of bytes of a run's id: its folder's name, a separator and eight digits."""


def name_trouble(name: object, *, longest: int = LONGEST) -> str | None:
    """Why a value cannot be the name of a file or folder, in words, or `None`."""
    if not isinstance(name, str):
        return f"must be text, not {type(name).__name__}"
    shown = repr(name if len(name) <= 60 else f"{name[:60]}...")
    if not name or name in (".", ".."):
        return f"{shown} is not the name of a folder"
    if any(sign in "/\\" or ord(sign) < 32 for sign in name):
        return f"{shown} holds a separator or a control character: it must be a plain name"
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError:
        return f"{shown} cannot be the name of a file"
    return f"{shown} has {size} bytes, more than {longest}" if size > longest else None


def valid_names(run: object) -> dict[str, str]:
    """The valid names among the id and aliases of a run in a file."""
    pairs = run.items() if isinstance(run, dict) else ()
    longest = {"wandb_id": LONGEST_ID}
    return {
        name: value
        for name, value in pairs
        if name_trouble(value, longest=longest.get(name, LONGEST)) is None
    }


FORMAT = 4
"""The format of new checkpoints.

Format 1 had no manifest and no run in its metadata. Up to format 2, the state of HackMatrix had
other arrays. Up to format 3, the metadata did not name the game.
"""
PLAYABLE_FORMATS = (1, 2, 3, 4)
"""Formats whose policy can be loaded."""
RESUMABLE_FORMATS = (3, 4)
"""Formats that a training can resume from."""
METADATA = "metadata.json"
METADATA_1 = "metadata/metadata"  # in format 1
PARTS = ("policy", "training")


def metadata_file(folder: epath.Path) -> epath.Path:
    """The path of the metadata in a checkpoint of any format."""
    return folder / METADATA_1 if (folder / METADATA_1).exists() else folder / METADATA


def read_metadata(folder: epath.Path) -> dict[str, Any]:
    """The metadata of a checkpoint."""
    file = metadata_file(folder)
    with refusing(f"{file}: ", f". {_USE_ANOTHER}", of=DamagedFileError):
        metadata = read_json(file)
    if metadata is None:
        raise ConfigError(f"{file}: is missing. {_USE_ANOTHER}")
    if metadata.get("format") not in PLAYABLE_FORMATS:
        raise ConfigError(
            f"{folder}: checkpoint format {shortened(metadata.get('format'))}, written by "
            f"hackmatrix-rl {_writer(metadata)}, but this version reads formats up to {FORMAT}. "
            "Use the version that wrote it, or a later one."
        )
    for name, trouble in _troubles(metadata).items():
        if trouble is not None:
            raise ConfigError(f"{file}: {name}: {trouble}. {_USE_ANOTHER}")
    return metadata


_USE_ANOTHER = "Use another checkpoint: no version of hackmatrix-rl writes this."


def _troubles(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """The fault of each part of the metadata, in words, or `None`."""
    format_, run = metadata["format"], metadata.get("run", {})
    troubles = {
        "update": None if _is_count(metadata.get("update")) else "must be a whole number from 0",
        "config": _mapping_trouble(metadata.get("config"), object),
        "counters": _counters_trouble(metadata.get("counters")),
        "versions": _mapping_trouble(metadata.get("versions", {}), str),
        "random_keys": _mapping_trouble(metadata.get("random_keys"), dict, names=PARTS),
        "run": _mapping_trouble(run, str),
        "game": _game_trouble(metadata.get("game")) if format_ > 3 else None,
    }
    if troubles["random_keys"] is None:
        for part in PARTS:
            troubles[f"random_keys.{part}"] = _mapping_trouble(metadata["random_keys"][part], str)
    if troubles["run"] is None:
        # Up to format 3, `--run-dir .` gave an empty name, which cannot name a folder.
        if run.get("run_id", "") != "":
            troubles["run_id"] = name_trouble(run["run_id"])
        if "wandb_id" in run:
            troubles["wandb_id"] = name_trouble(run["wandb_id"], longest=LONGEST_ID)
    return troubles


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _counters_trouble(value: object) -> str | None:
    if (wrong := _mapping_trouble(value, (int, float, type(None)))) is not None:
        return wrong
    assert isinstance(value, dict)
    for name, number in value.items():
        known = number is None or (not isinstance(number, bool) and is_finite(number))
        if not known:
            return f"{shortened(name)} is {shortened(number)}, not a finite number"
    if not _is_count(value.get("env_steps", 0)):
        return f"env_steps is {shortened(value['env_steps'])}, not a whole number from 0"
    return None


def is_finite(number: int | float) -> bool:
    """Whether a number is finite, and not an integer too large for a float."""
    return abs(number) <= sys.float_info.max


def _mapping_trouble(value: object, kind: Any, names: tuple[str, ...] = ()) -> str | None:
    if not isinstance(value, dict) or not all(isinstance(each, kind) for each in value.values()):
        return "missing, or not of the kind that belongs there"
    missing = [name for name in names if name not in value]
    return f"lacks {missing[0]}" if missing else None


def _game_trouble(value: object) -> str | None:
    if not isinstance(value, dict):
        return "missing: the checkpoint does not name its rules"
    try:
        GameIdentity.from_texts(value)
    except ValueError as error:
        return str(error)
    return None


def identity_of(config: Mapping[str, Any]) -> GameIdentity:
    """The identity of a stored config's game in this version."""
    known, named = algorithms(), config.get("algorithm")
    kind = known.get(named if isinstance(named, str) else "", known[baseline_algorithm()])
    return kind.game_identity(config)


def player_config(folder: epath.Path, metadata: Mapping[str, Any]) -> TrainConfig:
    """The settings of a training of a single player; a ConfigError for any other training."""
    with refusing(f"{folder}: ", "", of=ConfigError):
        config = config_from_dict(metadata["config"])
    if not isinstance(config, TrainConfig):
        page = " hackmatrix-rl ui lets you play against it." if config.two_players else ""
        raise ConfigError(
            f"{folder}: trained by --algorithm {config.algorithm}, which has no policy for an "
            f"environment of one player. In Python, {config.loader} loads it; hackmatrix-rl "
            f"{config.command} --resume-run resumes its run.{page}"
        )
    return config


def check_playable(folder: epath.Path, metadata: Mapping[str, Any]) -> None:
    """Raises a ConfigError if this version has another game than the checkpoint.

    Formats up to 3 do not name their game; they load if their arrays fit.
    """
    if "game" not in metadata:
        return
    here = identity_of(metadata["config"])
    differences = GameIdentity.from_texts(metadata["game"]).differences(here)
    if differences:
        said = "; ".join(
            f"{name} {there!r}, but this version has {here!r}"
            for name, (there, here) in differences.items()
        )
        raise ConfigError(
            f"{folder}: of another game: {said}. It was written by hackmatrix-rl "
            f"{_writer(metadata)}. Use the version that wrote it, or train a new one."
        )


def check_resumable(folder: epath.Path, metadata: Mapping[str, Any]) -> None:
    """Raises a ConfigError unless training can resume from this format and game."""
    if metadata["format"] not in RESUMABLE_FORMATS:
        raise ConfigError(
            f"{folder}: checkpoint format {metadata['format']}, written by hackmatrix-rl "
            f"{_writer(metadata)}. Its policy can still be played (hackmatrix-rl eval), but to "
            "resume the training use the version that wrote it, or start a new run."
        )
    check_playable(folder, metadata)


def _writer(metadata: Mapping[str, Any]) -> str:
    """The version that wrote a checkpoint, as its metadata claims."""
    versions = metadata.get("versions", {})
    claimed = versions.get("hackmatrix-rl", "0.1.0") if isinstance(versions, dict) else None
    if isinstance(claimed, str) and re.fullmatch(r"[\w.+!-]{1,40}", claimed, re.ASCII):
        return claimed
    return "of unknown version"
