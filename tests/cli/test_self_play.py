"""`hackmatrix-rl selfplay`, as users run it."""

import json
from dataclasses import replace

import equinox as eqx
import jax
import pytest
from processes import assert_same_end, copy_stopped_after

from hackmatrix_rl.algorithms.self_play import Search, SelfPlay, load_self_play
from hackmatrix_rl.env import VertexPermutations
from hackmatrix_rl.games.clique import CliqueConfig, read_colourings
from hackmatrix_rl.runs import compose
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_metadata
from hackmatrix_rl.runs.sinks import read_json_lines
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Trainer

from .commands import assert_refused, done, invoke

pytestmark = pytest.mark.search

KEY = jax.random.key(0)

SMALL = (
    *("--vertices", 4, "--num-simulations", 4, "--width", 8, "--game-batch-size", 8),
    *("--moves-per-update", 4, "--training-batch-size", 16, "--train-steps", 2),
    *("--buffer-size", 96, "--opening", 1, "--save-interval", 1, "--league-games", 2),
    *("--league-size", 2, "--keep", 100),
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A run of a network whose weights fit every board."""
    run = tmp_path_factory.mktemp("graph") / "run"
    flags = ("--network", "graph", "--depth", 1, "--num-games", 20, "--league-games", 0)
    done("selfplay", *SMALL, *flags, "--run-dir", run)
    return run


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


OPTIONS = (
    *("--full-search-share", 0.5, "--fast-simulations", 2, "--surprise-weight", 0.5),
    *("--value-mix", 0.25, "--gate", 0.5, "--gate-games", 2, "--gate-interval", 2),
)


@pytest.mark.nightly
def test_a_run_with_all_options_resumes_in_the_same_bits(tmp_path):
    straight, more = tmp_path / "straight", ("--num-games", 40, "--league-games", 0)
    done("selfplay", *SMALL, *OPTIONS, *more, "--run-dir", straight)
    rows = read_json_lines(straight / "metrics.jsonl")
    assert any(row.get("gates_passed") for row in rows)
    assert all(0 <= row["gate_score"] <= 1 for row in rows if "gate_score" in row)
    run = copy_stopped_after(straight, 3, tmp_path / "run")
    done("selfplay", "--resume-run", run)
    assert_same_end(straight, run)
    assert_refused(invoke("selfplay", "--resume-run", run, "--gate", 0.6), "--gate 0.6")


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
        "hackmatrix_rl.view.ui.serve", lambda make, **_: made.append(make(say=print)) or True
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
        (("--vertices", 6), "--vertices 6: the run {run} defines the board. Leave it out."),
        (("--clique", "--k", 3), "--k 3: the run {run} defines the board. Leave it out."),
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
        "trained by --algorithm self-play, which has no policy for an environment of one player",
        "hm.load_self_play",
        "hackmatrix-rl ui lets you play against it",
    )


@pytest.mark.nightly
def test_a_graph_network_resumes_in_the_same_bits(graph, tmp_path):
    run = copy_stopped_after(graph, 1, tmp_path / "run")
    done("selfplay", "--resume-run", run)
    assert_same_end(graph, run)


def test_a_graph_network_plays_boards_of_other_sizes(graph):
    loaded = load_self_play(graph)
    assert (loaded.config.vertices, loaded.config.network) == (4, "graph")
    for vertices in (3, 8, 6):
        there = loaded.on(CliqueConfig(vertices, 3))
        assert there.game.config == there.config.game() == CliqueConfig(vertices, 3)
        same = [eqx.filter(each.policy, eqx.is_array) for each in (there, loaded)]
        assert eqx.tree_equal(*same)
        seen = there.game.observe(there.game.start(key=KEY))
        logits, _, _ = eqx.filter_eval_shape(there.policy, seen, ())
        assert logits.shape == (there.game.num_actions,)
    flags = ("--vertices", 3, "--num-simulations", 1)
    shown = done("selfplay", "--resume-run", graph, "--show-game", *flags).stdout
    assert shown.startswith("n=3, k=3; ")
    assert "after 3 moves" in shown
    # Everything else is as in its training, and so is the board of a training that goes on.
    refused = invoke(
        "selfplay", "--resume-run", graph, "--show-game", "--full-board", "second-wins"
    )
    assert_refused(refused, "it has learned on that board")
    refused = invoke("selfplay", "--resume-run", graph, "--vertices", 5)
    assert_refused(refused, "it has learned on that board")


@pytest.mark.nightly
def test_a_training_goes_on_upon_a_larger_board_in_python(graph):
    larger = load_self_play(graph).on(CliqueConfig(5, 3))
    play = SelfPlay(
        *(larger.game, larger.policy),
        **{"search": Search(2), "symmetry": VertexPermutations(5), "buffer_size": 64},
        **{"game_batch_size": 8, "moves_per_update": 2, "training_batch_size": 8},
    )
    metrics = next(iter(Trainer(play).train(1, key=KEY)))
    assert metrics.env_steps == 16


def test_a_network_for_one_board_is_refused_on_others(trained):
    run, _ = trained
    loaded = load_self_play(run)
    with pytest.raises(
        ConfigError, match=r"--vertices 5: --network mlp .*--network graph"
    ) as error:
        loaded.on(CliqueConfig(5, 3))
    assert "\n" not in str(error.value)
    refused = invoke("selfplay", "--resume-run", run, "--show-game", "--vertices", 5)
    assert_refused(refused, "--vertices 5: --network mlp", "4 vertices", "--network graph")
    assert loaded.on(CliqueConfig(4, 3, "second-wins")).config.full_board == "second-wins"
    with pytest.raises(TypeError, match="CliqueConfig"):
        loaded.on(5)


def test_counterexamples_are_kept_and_a_handicap_is_played(tmp_path):
    run = tmp_path / "run"
    flags = ("--objective", "avoid", "--simulations-second", 2, "--run-dir", run)
    told = done("selfplay", *SMALL, *flags, "--num-games", 24).stdout
    found = read_colourings(run / "colourings.json")
    assert {(each.vertices, each.clique_size) for each in found} == {(4, 3)}
    assert f"{len(found)} colourings of K_4 without a clique of 3: R(3, 3) > 4; kept in " in told
    assert "k=3; who completes a clique loses; a full board is a draw" in told
    assert "4 simulations before each move of the first player, 2 of the second" in told
    loaded = load_self_play(run)
    assert loaded.game.config.objective == "avoid"
    assert loaded.player().moving_second().search.num_simulations == 2
    assert loaded.player(9).moving_second().search.num_simulations == 9
    again = done("selfplay", "--resume-run", run, "--num-games", 60).stdout
    more = read_colourings(run / "colourings.json")
    assert set(found) <= set(more)
    assert f"{len(more)} colourings of K_4" in again


BOARD_CHANGES = [
    ("--k", 4),
    ("--full-board", "second-wins"),
    ("--objective", "avoid"),
    ("--vertices", 5),
]


@pytest.mark.parametrize(
    ("change", "how"),
    [
        *((change, how) for change in BOARD_CHANGES for how in ("resume", "dry run")),
        *((change, "show a game") for change in BOARD_CHANGES[:3]),
    ],
)
def test_a_run_keeps_its_board(trained, monkeypatch, change, how):
    run, _ = trained
    before = sorted(run.rglob("*"))
    monkeypatch.setattr("hackmatrix_rl.runs._launch.compose", lambda *_, **__: pytest.fail("late"))
    more = {"resume": (), "dry run": ("--dry-run",), "show a game": ("--show-game",)}[how]
    refused = invoke("selfplay", "--resume-run", run, "--num-games", 80, *change, *more)
    said = (f"{change[0]} {change[1]}: the run", "it has learned on that board")
    assert_refused(refused, *said, f"Leave {change[0]} out, or begin a new run.")
    assert sorted(run.rglob("*")) == before


def test_the_board_of_a_run_may_be_named_again(trained):
    run, _ = trained
    same = ("--vertices", 4, "--k", 3, "--full-board", "draw", "--objective", "form")
    done("selfplay", "--resume-run", run, *same, "--num-games", 80, "--dry-run")


def test_a_checkpoint_is_not_taken_up_under_other_rules_in_python(trained):
    run, _ = trained
    key, checkpoint = jax.random.key(0), find_checkpoint(run)
    for change in ({"k": 4}, {"full_board": "second-wins"}, {"objective": "avoid"}):
        other = compose(replace(load_self_play(run).config, **change), key=key)
        with pytest.raises(ConfigError, match="it has learned on that board"):
            restore_training(other, checkpoint, key=key)
    same = compose(load_self_play(run).config, key=key)
    restore_training(same, checkpoint, key=key)
