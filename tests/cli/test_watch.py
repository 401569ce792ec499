"""`watch` and `replay`: the game of an evaluation, as files and in the terminal."""

import json

import pytest

from hackmatrix_rl.view.replays import Match, Replay

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.view


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    """What `watch` wrote of one game, by the ending of the file, and its output."""
    folder = tmp_path_factory.mktemp("games")
    files = {name: folder / f"game.{name}" for name in ("json", "html")}
    outputs = ("--save", files["json"], "--html", files["html"])
    result = done("watch", "runner", "--seed", 5, *outputs)
    return files, result.stdout


def test_watch_writes_the_game_in_each_form_and_replay_shows_the_same(game):
    files, said = game
    assert said.startswith("runner: 40 moves, stage 3, score 0, return 0.47, died\n")
    for file in files.values():
        assert str(file) in said
    assert files["html"].read_text().startswith("<!doctype html>")
    result = done("replay", game[0]["json"])
    assert "Played again, the same end as in the file: runner: 40 moves" in result.stdout
    assert result.stdout.count("reward") == 40


def test_the_replay_is_the_game_of_the_evaluation(game):
    evaluated = invoke("eval", "runner", "--seed", 5, "--episodes", 1, "--json")
    found = json.loads(evaluated.stdout)
    replay = Replay.load(game[0]["json"])
    assert found["return"]["mean"] == pytest.approx(replay.total_reward, abs=1e-3)
    assert found["length"]["mean"] == len(replay.actions)


def test_replay_stops_at_a_move(game, tmp_path):
    film = tmp_path / "game.gif"
    given = ("--move", 3, "--agent", "runner", "--terminal", "--gif", film)
    result = done("replay", game[0]["json"], *given)
    assert "Played again, 3 moves" in result.stdout
    assert result.stdout.count("reward") == 3
    assert film.read_bytes().startswith(b"GIF89a")


def test_another_agent_takes_over(game, tmp_path):
    file = tmp_path / "other.json"
    done("watch", "random", "--from", game[0]["json"], "--move", 12, "--save", file)
    before, after = Replay.load(game[0]["json"]), Replay.load(file)
    assert after.actions[:12] == before.actions[:12]
    assert after.actions != before.actions
    assert after.player == "runner, random from move 12"


def test_a_policy_of_the_other_league_takes_no_game_over(game, tmp_path):
    here = ("--from", game[0]["json"], "--move", 3, "--html", tmp_path / "page.html")
    league = ("--league", "no-rewind")
    assert_refused(invoke("watch", "runner", *here, *league), "a game of the league original")
    told = "pretrained/no-rewind was trained in the league no-rewind, and plays only there"
    seen = ("--agent", "pretrained/no-rewind", "--html", tmp_path / "page.html")
    for command in (("watch", "pretrained/no-rewind", *here), ("replay", game[0]["json"], *seen)):
        result = invoke(*command)
        assert result.exit_code == 2, result.output
        assert told in result.stderr.splitlines()[-1]  # a slow machine first says that it loads


def test_a_changed_replay_is_refused(game, tmp_path):
    content = json.loads(game[0]["json"].read_text())
    file = tmp_path / "changed.json"
    file.write_text(json.dumps({**content, "check": "0" * 16}))
    assert_refused(invoke("replay", file), str(file), "plays otherwise here")
    file.write_text(json.dumps({**content, "rules": 99}))
    assert_refused(invoke("replay", file), str(file), "rules version 99")
    file.write_text(json.dumps(content)[:90])
    assert_refused(invoke("watch", "runner", "--from", file), str(file))


def test_a_film_without_ffmpeg_is_refused_before_the_game(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_refused(invoke("watch", "runner", "--mp4", tmp_path / "game.mp4"), "ffmpeg", "--gif")


def test_a_move_beyond_the_replay_and_a_new_game_beside_it_are_refused(game):
    for command in (("replay", game[0]["json"]), ("watch", "random", "--from", game[0]["json"])):
        assert_refused(invoke(*command, "--move", 99), "--move 99: the replay has 40 moves")
    for flag in ("--seed", "--game"):
        result = invoke(*command, flag, 1)
        assert_refused(result, f"{flag} 1: a replay has its own seed. Leave out {flag} or --from.")


def test_a_game_of_an_evaluation_is_chosen_by_number(tmp_path):
    file = tmp_path / "game.json"
    done("watch", "random", "--seed", 5, "--game", 2, "--save", file)
    assert Replay.load(file).seed == Match.start(5, game=2).seed
