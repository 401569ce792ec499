"""Runs as earlier versions wrote them, and as a forger would change them."""

import json
import zipfile
from pathlib import Path

from etils import epath

from hackmatrix_rl.runs.checkpoints._manifest import write_manifest

DATA = Path(__file__).parents[2] / "data" / "checkpoints"
FORMATS = tuple(sorted(path.stem for path in DATA.glob("format-*.zip")))
NEWEST = "format-4"
UPDATES = 2


def unpack(name, folder):
    """The folder of a run, unpacked into another folder."""
    with zipfile.ZipFile(DATA / f"{name}.zip") as archive:
        archive.extractall(folder)
    return folder / name


def checkpoint_of(run):
    return run / "checkpoints" / str(UPDATES)


def seal(checkpoint):
    """Makes the sums right again, as a forger would."""
    (checkpoint / "manifest.json").unlink(missing_ok=True)
    write_manifest(epath.Path(checkpoint))


def forge(run, change):
    """Lets a function change the metadata of a run's checkpoint."""
    file = checkpoint_of(run) / "metadata.json"
    metadata = json.loads(file.read_text())
    change(metadata)
    file.write_text(json.dumps(metadata))
    seal(checkpoint_of(run))


def forge_config(run, **settings):
    """Changes settings wherever a run's folder has them."""
    forge(run, lambda metadata: metadata["config"].update(settings))
    edit(run / "config.json", **settings)


def edit(file, **changes):
    """Changes what a JSON file holds."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return file


def content(folder):
    """All that lies in a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
