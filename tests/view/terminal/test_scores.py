"""The table of scores: sorted, never lost, written by several processes."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hackmatrix_rl.view.terminal import Score, ScoreTable
from hackmatrix_rl.view.terminal._pages import MOST

pytestmark = pytest.mark.view

GAME = Score(7, 2, "died", 40, 1.5, "2026-11-22", "1 2", "")


def test_the_best_game_comes_first(tmp_path):
    table = ScoreTable(tmp_path / "new" / "folder" / "scores.json")
    games = [GAME, replace(GAME, score=9), replace(GAME, stage=3), replace(GAME, moves=30)]
    for game in games:
        known, said = table.add(game)
        assert said == ""
    assert known == [games[1], games[2], games[3], games[0]]


def test_only_so_many_games_are_kept(tmp_path):
    file = tmp_path / "scores.json"
    ScoreTable(file).add(GAME)
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"games": content["games"] * MOST}))
    known, _ = ScoreTable(file).add(replace(GAME, score=8))
    assert (len(known), known[0].score) == (MOST, 8)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": "hackmatrix-scores-1", "games": 3}',
        '{"format": "hackmatrix-scores-1", "games": [3]}',
        '{"format": "hackmatrix-scores-1", "games": [{"score": 1}]}',
        json.dumps({"format": "hackmatrix-scores-1", "games": [{**asdict(GAME), "score": "many"}]}),
        json.dumps({"format": "hackmatrix-scores-1", "games": [{**asdict(GAME), "moves": True}]}),
        json.dumps({"format": "of the future", "games": []}),
    ],
)
def test_a_damaged_table_is_set_aside_and_told(tmp_path, content):
    file = tmp_path / "scores.json"
    file.write_text(content)
    known, said = ScoreTable(file).add(GAME)
    assert known == [GAME]
    assert "damaged" in said
    assert (tmp_path / "scores.json.damaged").read_text() == content
    assert ScoreTable(file).add(GAME)[1] == ""


def test_the_file_is_in_the_users_folder_and_stops_nothing_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    known, said = ScoreTable(tmp_path / "file" / "scores.json").add(GAME)
    assert known == [GAME]
    assert "not in the table of scores" in said
    assert "\n" not in said
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert ScoreTable.default_file() == tmp_path / "hackmatrix_rl" / "scores.json"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ScoreTable.default_file() == tmp_path / ".local/share/hackmatrix_rl/scores.json"


def test_no_game_is_lost_when_several_processes_write(tmp_path):
    file = tmp_path / "scores.json"
    code = (
        "import sys; from pathlib import Path;"
        "from hackmatrix_rl.view.terminal import Score, ScoreTable;"
        "[ScoreTable(Path(sys.argv[1])).add(Score(int(sys.argv[2]) + each, 1, 'died', 1, 0.0,"
        " '2026-11-22', '1 2', '')) for each in range(20)]"
    )
    command = [sys.executable, "-c", code, str(file)]
    running = [subprocess.Popen([*command, str(100 * first)]) for first in range(2)]
    assert [each.wait(timeout=200) for each in running] == [0, 0]
    known, said = ScoreTable(Path(file)).add(GAME)
    assert said == ""
    assert len({each.score for each in known}) == 40
