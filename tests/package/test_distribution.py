"""The wheel and the source distribution that `nox -s package` has built."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

DIST = Path(os.environ.get("HACKMATRIX_RL_DIST", Path(__file__).parents[2] / "dist"))
LARGEST_WHEEL = 6_000_000  # bytes
OWN = {"hackmatrix_rl", "docs", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md"}


@pytest.fixture(scope="module")
def wheel():
    (found,) = DIST.glob("*.whl")
    return found


def test_the_wheel_is_small_and_holds_the_package_alone(wheel):
    assert wheel.stat().st_size < LARGEST_WHEEL
    with zipfile.ZipFile(wheel) as archive:
        folders = {name.split("/")[0] for name in archive.namelist()}
    information = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    assert folders == {"hackmatrix_rl", information}


def test_the_source_distribution_holds_the_package_and_its_pages():
    (archive,) = DIST.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.split("/")[1] for name in files.getnames() if "/" in name}
    assert names == OWN | {"pyproject.toml", ".gitignore"}


def test_uvx_plays_the_agent_of_the_wheel(wheel, tmp_path):
    watch = ("hackmatrix-rl", "watch", "pretrained", "--speed", "50")
    command = ("uvx", "--python", sys.executable, "--from", str(wheel), *watch)
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pretrained: " in done.stdout.splitlines()[-1]
    assert "moves, stage" in done.stdout.splitlines()[-1]
