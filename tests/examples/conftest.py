"""The package as it would be published: built into a wheel, installed into an empty folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel_environment(tmp_path_factory):
    """Variables under which Python finds the wheel's package before any other."""
    made = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(made / "installed")
    return os.environ | {
        "PYTHONPATH": str(made / "installed"),
        "MPLBACKEND": "agg",
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
    }


def run_python(*arguments, cwd, env):
    """Exit status, and what was printed; errors last."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def run_alone(wheel_environment, tmp_path):
    """Runs a script in an empty folder, against the wheel; gives what it printed."""

    def run(name: str, content: str, *arguments: str) -> str:
        script = tmp_path / name
        script.write_text(content, encoding="utf-8")
        status, told = run_python(name, *arguments, cwd=tmp_path, env=wheel_environment)
        assert status == 0, told
        return told

    return run
