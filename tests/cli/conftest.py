import compiling
import pytest

from .commands import invoke


@pytest.fixture(scope="package", autouse=True)
def compile_quickly():
    """What is tried here is what commands say and write, not how fast they compute."""
    with compiling.quickly():
        yield


@pytest.fixture(scope="package")
def trained(compile_quickly, tmp_path_factory):
    """The folder of a finished run, and what it printed."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    result = invoke("train", "--preset", "debug", "--eval-episodes", "4", "--run-dir", folder)
    assert result.exit_code == 0, result.output
    return folder, result.output
