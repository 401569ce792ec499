import json

import pytest

from hackmatrix_rl.view.replays import Replay

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.processes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "league"), [("trained", "original"), ("random", "original"), ("runner", "no-rewind")]
)
def test_json_is_one_object_and_nothing_else(target, league, trained):
    place = trained[0] if target == "trained" else target
    given = ("--league", league, "--episodes", "8", "--seed", "1", "--json")
    result = done("eval", place, *given)
    assert len(result.stdout.splitlines()) == 1
    found = json.loads(result.stdout)
    assert found.keys() == {
        *("episodes", "return", "length", "score", "stage", "win_rate", "league")
    }
    assert found["league"] == league
    assert found["episodes"] == 8
    for name in ("return", "length", "score", "win_rate"):
        assert found[name].keys() == {"mean", "ci95"}
    for name in ("return", "length", "score", "stage", "win_rate"):
        low, high = found[name]["ci95"]
        assert low <= found[name]["mean"] <= high
    assert found["stage"].keys() == {"mean", "ci95", "histogram"}
    assert sum(found["stage"]["histogram"].values()) == 8
    mean = sum(int(stage) * n for stage, n in found["stage"]["histogram"].items()) / 8
    assert mean == pytest.approx(found["stage"]["mean"])


def test_a_policy_plays_only_in_the_league_of_its_training(trained):
    assert_refused(
        invoke("eval", trained[0], "--league", "no-rewind"),
        "--league no-rewind",
        "was trained in the league original",
        "hackmatrix-rl train --league no-rewind",
    )


@pytest.mark.slow
def test_without_json_there_is_a_table(trained):
    result = done("eval", trained[0], "--episodes", "8")
    rows = ("return", "stage reached", "win rate", "score", "length", "ended in stage 1")
    for row in (*rows, "league original"):
        assert row in result.output


@pytest.mark.slow
def test_games_are_written_as_replays(trained, tmp_path):
    folder = tmp_path / "some" / "replays"
    given = ("--episodes", 8, "--seed", 1, "--json", "--save-replays", "best:2,worst:1")
    result = done("eval", trained[0], *given, "--replay-dir", folder)
    plain = invoke("eval", trained[0], "--episodes", 8, "--seed", 1, "--json")
    assert result.stdout == plain.stdout
    assert f"3 replays in {folder}" in result.stderr
    replays = {file.name.partition("_")[0]: Replay.load(file) for file in folder.iterdir()}
    assert set(replays) == {"best-1", "best-2", "worst-1"}
    assert replays["best-1"].total_reward >= replays["worst-1"].total_reward
    assert replays["best-1"].player == str(trained[0])
    for replay in replays.values():
        assert replay.match().now.end == replay.end


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    given = ("--save-replays", "best:1", "--replay-dir", file)
    assert_refused(invoke("eval", "random", *given), f"--replay-dir {file}: cannot be made")


@pytest.mark.nightly
@pytest.mark.slow
def test_a_network_searches_and_its_game_can_be_watched(tmp_path):
    folder = tmp_path / "replays"
    kept = ("--save-replays", "best:4", "--replay-dir", folder)
    result = done("eval", "pretrained", "--search", 8, "--episodes", 4, "--seed", 3, *kept)
    assert "pretrained --search 8" in result.stdout
    replays = [Replay.load(file) for file in folder.iterdir()]
    assert {replay.player for replay in replays} == {"pretrained --search 8"}
    # The same game alone and in a batch.
    again = tmp_path / "again.json"
    done("watch", "pretrained", "--search", 8, "--seed", 3, "--save", again)
    replay = Replay.load(again)
    assert replay.player == "pretrained --search 8"
    (same,) = (each for each in replays if each.seed == replay.seed)
    assert same.actions == replay.actions


@pytest.mark.nightly
@pytest.mark.slow
def test_a_recursive_network_thinks_longer_than_in_training(tmp_path):
    run = tmp_path / "run"
    sizes = ("--network", "recursive", "--width", 8, "--total-timesteps", 1, "--eval-episodes", 0)
    victory = ("--aux-victory", "--aux-coefficient", 0.1)
    done("train", "--algorithm", "ppo", "--preset", "debug", *sizes, *victory, "--run-dir", run)

    def played(*cycles):
        given = ("--episodes", 8, "--greedy", "--json")
        return json.loads(done("eval", run, *given, *cycles).stdout)

    trained = played()
    assert played("--cycles", 3, 4) == trained, "those of its training"
    assert played("--cycles", 9, 1) != trained
