"""`hackmatrix-rl selfplay`, as users run it."""

import json
from dataclasses import replace

import jax
import pytest
from processes import assert_same_end, copy_stopped_after

from hackmatrix_rl.algorithms.self_play import load_self_play
from hackmatrix_rl.checkpoints import find_checkpoint, read_metadata
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs.sinks import read_json_lines

from .commands import assert_refused, done, invoke

SMALL = (
    *("--vertices", 4, "--num-simulations", 4, "--width", 8, "--game-batch-size", 8),
    *("--moves-per-update", 4, "--training-batch-size", 16, "--train-steps", 2),
    *("--buffer-size", 96, "--opening", 1, "--save-interval", 1, "--league-games", 2),
    *("--league-size", 2, "--keep", 100),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of 40 games, with what it printed."""
    run = tmp_path_factory.mktemp("trained") / "run"
    told = done("selfplay", *SMALL, "--num-games", 40, "--run-dir", run)
    return run, told.stdout


def test_a_run_ends_with_its_games_and_plays_a_league(trained):
    run, printed = trained
    rows = read_json_lines(run / "metrics.jsonl")
    assert rows[-2]["games"] < 40 <= rows[-1]["games"]
    assert sum(row["episodes"] for row in rows) == rows[-1]["games"]
    assert f"trained to the end at {rows[-1]['games']:.0f} games; saved" in printed
    assert "100%" in printed
    kept = sorted(path.name for path in (run / "league").iterdir())
    assert kept == ["000000000000.policy", "000000000020.policy", "000000000040.policy"]
    summary = json.loads((run / "summary.json").read_text())
    assert set(summary) == {"0 games", "20 games", "40 games", "random"}
    for name, found in summary.items():
        low, high = found["elo"]["ci95"]
        assert low < found["elo"]["mean"] < high
        assert found["episodes"] == 6
        assert name in printed
    assert "Against the perfect player: " in printed
    assert "moves in won positions" in printed
    stored = json.loads((run / "config.json").read_text())
    assert (stored["algorithm"], stored["vertices"], stored["k"]) == ("self-play", 4, 3)
    assert read_metadata(find_checkpoint(run))["game"]["rules"] == "clique-1"


def test_a_resumed_run_ends_in_the_same_bits(trained, tmp_path):
    straight, _ = trained
    run = copy_stopped_after(straight, 2, tmp_path / "run")
    kept = {path.name: path.read_bytes() for path in (run / "league").iterdir()}
    (run / "league" / "000000000040.policy").unlink()
    again = done("selfplay", "--resume-run", run)
    assert "resumed at update 2, " in again.stdout
    assert_same_end(straight, run)
    assert {path.name: path.read_bytes() for path in (run / "league").iterdir()} == kept
    assert json.loads((run / "summary.json").read_text()) == json.loads(
        (straight / "summary.json").read_text()
    )


def test_the_league_is_the_same_however_many_updates_one_call_does(tmp_path):
    leagues = []
    for updates in (1, 8):
        run = tmp_path / str(updates)
        flags = ("--num-games", 200, "--updates-per-dispatch", updates, "--run-dir", run)
        whole = ("--save-interval", "none", "--league-games", 0)
        done("selfplay", *SMALL, *flags, *whole)
        leagues.append({path.name: path.read_bytes() for path in (run / "league").iterdir()})
    rows = read_json_lines(run / "metrics.jsonl")
    assert rows[0]["updates"] > 1
    assert leagues[0] == leagues[1]
    assert len(leagues[0]) == 3


def test_the_mesh_changes_no_game(trained, tmp_path):
    straight, _ = trained
    run = tmp_path / "run"
    flags = ("--num-games", 40, "--mesh", "data=2")
    done("selfplay", *SMALL, *flags, "--run-dir", run)
    one, two = (read_json_lines(each / "metrics.jsonl") for each in (straight, run))
    for name in ("games", "length", "first_wins", "draws"):
        assert [row[name] for row in one if name in row] == [
            row[name] for row in two if name in row
        ]


def test_the_settings_of_a_file_count(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text("vertices = 5\nnum-games = 7\n[search]\nnum-simulations = 3\n")
    planned = done("selfplay", "--config", file, "--num-games", 9, "--width", 8, "--dry-run")
    assert "n=5, k=3" in planned.stdout
    assert "9; 64 at once" in planned.stdout
    assert "3 simulations before each move" in planned.stdout
    assert "an update " in planned.stdout


def test_the_network_of_a_run_can_be_loaded_and_plays(trained):
    run, _ = trained
    loaded = load_self_play(run)
    assert loaded.config.num_games == 40
    assert loaded.player().search.num_simulations == 4
    assert loaded.player(9).search.num_simulations == 9
    shown = done("selfplay", "--resume-run", run, "--show-game", "--num-simulations", 2)
    moves = [line for line in shown.stdout.splitlines() if line.startswith("move ")]
    assert 5 <= len(moves) <= 6
    assert moves[0].startswith("move 1: player 1 colours ")
    assert shown.stdout.splitlines()[-1].endswith(f"after {len(moves)} moves.")


def test_the_page_of_a_run_is_its_board(trained, monkeypatch):
    """With `--clique` and without: a run knows its game."""
    run, printed = trained
    assert f"Play against it:  hackmatrix-rl ui {run}" in printed
    made = []
    monkeypatch.setattr(
        "hackmatrix_rl.cli._ui.serve", lambda make, **_: made.append(make(say=print)) or True
    )
    for flags in ((), ("--clique",)):
        done("ui", run, *flags)
    table, _ = made
    news = table.play(number=0, action=0)
    assert (news["seat"], news["simulations"]) == ("first", 4)
    assert len(table.reply(number=1)["moves"]) == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--vertices", 6), "--vertices 6: the run {run} has a board of its own. Leave it out."),
        (("--clique", "--k", 3), "--k 3: the run {run} has a board of its own. Leave it out."),
        (("--seed", 3), "--seed 3: the clique game draws nothing. Leave --seed out."),
    ],
)
def test_flags_that_a_runs_board_has_no_use_for_are_refused(trained, flags, said):
    run, _ = trained
    assert_refused(invoke("ui", run, *flags, "--no-browser"), said.format(run=run))


def test_a_report_and_the_other_commands_know_such_a_run(trained):
    run, _ = trained
    done("report", run)
    page = (run / "report.html").read_text()
    assert "Elo" in page
    assert "differs from the preset debug" in page
    assert_refused(invoke("train", "--resume-run", run), "hackmatrix-rl selfplay --resume-run")
    assert_refused(
        invoke("eval", run),
        "by --algorithm self-play, and cannot play HackMatrix",
        "hm.load_self_play",
        "hackmatrix-rl ui lets you play against it",
    )


@pytest.mark.parametrize("how", ["resume", "dry run", "show a game"])
@pytest.mark.parametrize(
    "change", [("--k", 4), ("--full-board", "second-wins"), ("--vertices", 5)], ids=lambda c: c[0]
)
def test_a_run_keeps_its_board(trained, monkeypatch, change, how):
    run, _ = trained
    before = sorted(run.rglob("*"))
    monkeypatch.setattr("hackmatrix_rl.runs._launch.compose", lambda *_, **__: pytest.fail("late"))
    more = {"resume": (), "dry run": ("--dry-run",), "show a game": ("--show-game",)}[how]
    refused = invoke("selfplay", "--resume-run", run, "--num-games", 80, *change, *more)
    said = (f"{change[0]} {change[1]}: the run", "what it learned is of that board")
    assert_refused(refused, *said, f"Leave {change[0]} out, or begin a new run.")
    assert sorted(run.rglob("*")) == before


def test_the_board_of_a_run_may_be_named_again(trained):
    run, _ = trained
    same = ("--vertices", 4, "--k", 3, "--full-board", "draw")
    done("selfplay", "--resume-run", run, *same, "--num-games", 80, "--dry-run")


def test_a_checkpoint_is_not_taken_up_under_other_rules_in_python(trained):
    run, _ = trained
    key, checkpoint = jax.random.key(0), find_checkpoint(run)
    for change in ({"k": 4}, {"full_board": "second-wins"}):
        other = compose(replace(load_self_play(run).config, **change), key=key)
        with pytest.raises(ConfigError, match="what it learned is of that board"):
            restore_training(other, checkpoint, key=key)
    same = compose(load_self_play(run).config, key=key)
    restore_training(same, checkpoint, key=key)


REFUSED = {
    "--k 5": "--k 5 ... 4 vertices ... --k 4",
    "--k 6": "--k 6 ... 5 or less",
    "--vertices 15": "--vertices 15 ... 14 or less",
    "--num-simulations 0": "--num-simulations 0 ... 1 or more",
    "--opening 6": "--opening 6 ... 6 edges",
    "--training-batch-size 12": "--training-batch-size 12 ... --game-batch-size 8",
    "--mesh data=3": "--game-batch-size 8 ... 3 devices",
    "--mesh data=2 --game-batch-size 7 --training-batch-size 512": (
        "--game-batch-size 7 do not fit ... use --game-batch-size 8."
    ),
    "--mesh data=2 --game-batch-size 7 --training-batch-size 21": (
        "7 does not divide ... use --game-batch-size 8 and --training-batch-size 16, or fewer"
    ),
    "--num-envs 64": "--num-envs ... Use --game-batch-size.",
    "--num-steps 64": "--num-steps ... Use --moves-per-update.",
    "--buffer-size 3": "--buffer-size 3 ... 32 positions",
    "--league-games 3": "--league-games 3 ... --league-games 4",
    "--network gru": "--network gru ... memory",
    "--network nothing": "--network nothing ... mlp",
    "--learning-rate 0": "--learning-rate 0.0 ... more than 0",
    "--full-board lost": "--full-board lost ... second-wins",
    "--preset cpu": "--preset ... hackmatrix-rl train",
    "--show-game --dry-run": "--show-game ... --dry-run",
    "--num-simulations 100000 --game-batch-size 1048576 --training-batch-size 1048576 "
    "--buffer-size 8388608": "--num-simulations 100000 ... --game-batch-size 1048576 ... a smaller",
}


@pytest.mark.parametrize("flags", REFUSED)
def test_what_cannot_work_is_named(here, flags):
    refused = invoke("selfplay", *SMALL, "--run-dir", "run", *flags.split())
    assert_refused(refused, *REFUSED[flags].split(" ... "))
    assert not (here / "run").exists()
