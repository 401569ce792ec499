import pytest
from made_once import made_once

from .commands import done


@pytest.fixture(scope="package")
def trained(tmp_path_factory):
    """The folder of a finished run, and what it printed."""
    # In the name, what `glob` takes for a pattern.
    run, output = "run[1]*?", "output.txt"

    def train(folder):
        result = done(
            "train", "--preset", "debug", "--eval-episodes", "4", "--run-dir", folder / run
        )
        (folder / output).write_text(result.output)

    folder = made_once(tmp_path_factory, "trained", train)
    return folder / run, (folder / output).read_text()
