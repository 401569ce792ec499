"""The script of a page that starts a run again and again, with commands of our own."""

import re
import subprocess
from pathlib import Path

import pytest
from processes import stand_ins

DOCS = Path(__file__).parents[2] / "docs"


def script(page, word):
    """The one block of a page that says a word."""
    blocks = re.findall(r"```bash\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return found


def execute(text, tmp_path, statuses):
    """Runs a script whose trainings end with these statuses; what was called, and its status."""
    (tmp_path / "statuses").write_text("".join(f"{status}\n" for status in statuses))
    path = stand_ins(
        tmp_path,
        hackmatrix_rl='echo "$*" >> calls\n'
        'case "$*" in *--run-dir*) mkdir -p runs/long; touch runs/long/config.json ;; esac\n'
        "read -r status < statuses || exit 99\nsed -i 1d statuses\nexit $status",
        sleep='echo "sleep $*" >> calls',
    )
    ended = subprocess.run(["sh", "-c", text], cwd=tmp_path, env=path, timeout=20, check=False)
    return (tmp_path / "calls").read_text().splitlines(), ended.returncode


FIRST, AGAIN = "train --run-dir runs/long", "train --resume-run runs/long"


@pytest.mark.parametrize("status", [0, 1, 2, 3, 130, 143, 4, 5, 134, 137])
def test_the_loop_goes_on_after_a_pause_where_the_next_attempt_may_go_well(tmp_path, status):
    calls, ended = execute(script("checkpoints.md", "while true"), tmp_path, [status, status, 3])
    again = status in (4, 5, 134, 137)
    assert calls == [FIRST, *(["sleep 30", AGAIN] * 2 if again else [])]
    assert ended == (3 if again else status)


def test_a_machine_that_comes_back_goes_on_with_the_run(tmp_path):
    (tmp_path / "runs" / "long").mkdir(parents=True)
    (tmp_path / "runs" / "long" / "config.json").write_text("{}")
    assert execute(script("checkpoints.md", "while true"), tmp_path, [0]) == ([AGAIN], 0)
