import pytest

from .commands import invoke


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a finished run, and what it printed."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    result = invoke("train", "--preset", "debug", "--eval-episodes", "4", "--run-dir", folder)
    assert result.exit_code == 0, result.output
    return folder, result.output
