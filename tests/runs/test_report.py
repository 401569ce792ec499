"""The report of a run, however much of the run is there, and of several."""

import html
import json
import re
from pathlib import Path

import pytest

from hackmatrix_rl.runs import RunLock, make_run_folder, report_of, report_of_seeds
from hackmatrix_rl.runs._record import read_run
from hackmatrix_rl.runs._versions import record_start
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import Match, Replay, script_source

pytestmark = pytest.mark.view

LOG = """\
2030-01-31 12:00:00  compiling ... (14 s last time)
2030-01-31 12:04:00  Warning: update 30: the policy moved by 0.31, beyond 0.2 (--kl-alarm).
2030-01-31 12:08:00  resumed at update 400, 13,107,200 steps
2030-01-31 12:14:00  trained to the end at 24,000,000 steps; saved
"""
FILES = ("config.json", "metrics.jsonl", "versions.json", "summary.json", "log.txt")


@pytest.fixture
def run(tmp_path):
    """The folder of a run that has ended, with everything in it except checkpoints."""
    folder = tmp_path / "2030-01-31_12-00-00"
    config = make_config("debug", {"run_dir": str(folder), "learning_rate": 5e-4})
    made = make_run_folder(config)
    rows = [
        {"updates": place, "env_steps": place * 1e5, "return": place / 10, "stage": 1.0}
        for place in range(1, 41)
    ]
    rows[0] |= {"seconds": 10.0, "mfu": 0.5}
    rows[-1] |= {"time/train": 75.0, "time/lost": 25.0, "seconds": 30.0, "mfu": 0.3}
    made.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made.log.write_text(LOG)
    estimate = {"mean": 1.5, "ci95": [1.25, 1.75]}
    players = {
        name: {"episodes": 16, "return": estimate, "stage": {**estimate, "histogram": {"1": 16}},
               "win_rate": {"mean": 0.25, "ci95": [0.1, 0.5]}}
        for name in ("trained", "random", "runner")
    }  # fmt: skip
    players["trained"]["env_steps"] = 102_400
    made.summary.write_text(json.dumps(players))
    made.page.write_text("<!doctype html><script>alert('anybody wrote this')</script>")
    record_start(made.versions)
    return folder


def page_of(run):
    return report_of(str(run))[0]


def test_it_has_everything_and_fetches_nothing(run):
    page, folder = report_of(str(run))
    assert folder == run
    for part in (
        *("It trained to the end at 24,000,000 steps; saved.", "4,000,000 of 2,048"),
        "Wall time 1:40: 75% training, 25% lost to restarts; MFU 35.0%.",
        "share of the peak (MFU)",
        *("The trained player is from step 102,400.", "25.0% <span>[10.0, 50.0]</span>"),
        *("ended in stage 1", "<svg", "the policy moved by 0.31", "resumed at update 400"),
        *("Start 1 of 1", "differs from the preset debug"),
    ):
        assert part in page, part
    assert re.findall(r"class=changed><td>(\w+)", page) == ["learning_rate"]
    addresses = set(re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\'\s)>]+)', page))
    assert all(each.startswith(("#", "data:")) for each in addresses)
    assert "Missing" not in page


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_and_a_folder_in_its_place_are_told(run, name):
    (run / name).unlink()
    assert re.search(rf"{name} \([^)]*\) is not there", page_of(run))
    (run / name).mkdir()
    assert re.search(rf"{name} \([^)]*\) cannot be used: is a folder", page_of(run))


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\x00\xff", b'{"a": {"b": [null]}}'])
def test_damaged_files_are_no_reason_to_fail(run, content):
    for name in FILES:
        (run / name).write_bytes(content)
    assert "</html>" in page_of(run)


def test_damaged_rows_are_counted(run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write('nonsense\n{"env_steps": "many"}\n')
    assert "metrics.jsonl holds 2 damaged lines" in page_of(run)


@pytest.fixture(scope="module")
def replay():
    """What a replay's file holds."""
    match = Match.start(0)
    for _ in range(2):
        match.play(match.now.legal[0])
    return Replay.from_match(match, player="</script><b>somebody").as_dict()


def test_the_newest_replay_is_played_again_by_our_script_alone(run, replay):
    (run / "replays").mkdir()
    for number in (1, 2):
        forged = replay | {"total_reward": number}
        (run / "replays" / f"update-0000000{number}_return-0.00_stage-1.json").write_text(
            json.dumps(forged)
        )
    page = page_of(run)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert f"script-src {script_source()};" in policy
    frame = re.search(r'<iframe title="the newest replay" sandbox="([^"]*)" srcdoc="([^"]*)"', page)
    assert frame[1] == "allow-scripts"
    inside = html.unescape(frame[2])
    assert script_source() in html.unescape(inside)
    assert "anybody wrote this" not in page
    assert "</script><b>" not in inside
    assert page.index("update-00000002") < page.index("update-00000001")


def test_a_replay_that_plays_otherwise_is_told(run, replay):
    (run / "replays").mkdir()
    (run / "replays" / "update-1.json").write_text(json.dumps(replay | {"check": "0"}))
    page = page_of(run)
    assert "update-1.json: the replay plays otherwise here" in page
    assert "<iframe" not in page


def test_an_empty_run_has_a_page(tmp_path):
    folder = tmp_path / "run"
    make_run_folder(make_config("debug", {"run_dir": str(folder)}))
    page = page_of(folder)
    assert "It has no log, so its end is unknown." in page
    assert "log.txt (log) is not there" in page


def test_a_run_that_is_going_says_so(run):
    with RunLock() as lock:
        lock.take("--run-dir", run)
        assert "It is still running." in page_of(run)
    assert "It is still running." not in page_of(run)


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("stopped at 500 steps; saved", "It stopped at 500 steps; saved."),
        ("update 3: entropy not finite. Stopping; the last", "stopped because it went wrong"),
        ("update 3: evaluated on 4 games", "killed, or still runs on another machine; last "
         "log entry: 2030-01-31 12:20:00."),
    ],
)  # fmt: skip
def test_it_says_how_the_run_ended(run, last, said):
    log = [*LOG.splitlines()[:-1], f"2030-01-31 12:20:00  {last}"]
    (run / "log.txt").write_text("\n".join(log))
    assert said in read_run(str(run)).end


def test_text_of_the_run_is_only_text(run):
    (run / "log.txt").write_text("2030-01-31 12:00:00  Warning: <script>alert(1)</script>\n")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "<b>": "<i>"}))
    page = page_of(run)
    assert "<script" not in page
    assert "&lt;b&gt;" in page


RETURNS = {"a": 10.0, "b": 20.0, "c": 60.0}


def trained(folder, seed, mean, **settings):
    """A run that has ended with a mean return."""
    run = make_run_folder(
        make_config(
            "debug", {"run_dir": str(folder), "seed": seed, "wandb_name": str(seed), **settings}
        )
    )
    rows = [{"updates": n, "env_steps": n * 1e5, "return": n * mean / 40} for n in range(1, 41)]
    run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    estimate = {"mean": mean, "ci95": [mean - 1, mean + 1]}
    if mean:
        won = {"mean": 0.25, "ci95": [0.1, 0.5]}
        summary = {"trained": {"episodes": 16, "return": estimate, "win_rate": won}}
        run.summary.write_text(json.dumps(summary))
    return str(folder)


@pytest.fixture
def runs(tmp_path):
    return [trained(tmp_path / name, seed, RETURNS[name]) for seed, name in enumerate(RETURNS)]


def test_runs_that_differ_in_the_seed_alone_are_one_way_to_train(runs):
    file = Path(runs[0], "config.json")  # as earlier versions wrote a learning rate
    before = {"learning_rate": 0.001, "learning_rate_schedule": "linear"}
    file.write_text(json.dumps(json.loads(file.read_text()) | before))
    page, returns = report_of_seeds(runs)
    assert returns == {"all": [[10.0], [20.0], [60.0]]}
    for part in ("3 runs", "30.00 (-35.", "25.0%", "interquartile mean", "share of runs above"):
        assert part in page
    assert "Ways to train" not in page
    assert page.count("<svg") == 2


def test_ways_to_train_are_told_apart_by_what_differs(runs, tmp_path):
    other = trained(tmp_path / "other", 7, 5.0, learning_rate=0.5)
    page, returns = report_of_seeds([*runs, other])
    ways = ["learning_rate linear:0.001:0.0", "learning_rate linear:0.5:0.0"]
    assert list(returns) == ways
    assert returns[ways[1]] == [[5.0]]
    assert "Ways to train" in page


def test_only_what_a_way_has_is_shown_of_it(runs, tmp_path):
    others = {"env": "cartpole", "algorithm": "pqn", "q_lambda": 0.5}
    other = trained(tmp_path / "other", 7, 5.0, **others)
    summary = json.loads((tmp_path / "other" / "summary.json").read_text())
    for folder in (tmp_path / name for name in (*RETURNS, "other")):
        del summary["trained"]["win_rate"]
        (folder / "summary.json").write_text(json.dumps(summary))
        summary["trained"]["win_rate"] = {}
    page, returns = report_of_seeds([*runs, other])
    assert "None" not in page
    first, second = returns
    assert "q_lambda" not in first
    assert "q_lambda 0.5" in second
    assert "epsilon" not in page  # as the only algorithm that has it has it by default
    assert {"win rate" in page, "score" in page} == {False}


def test_trainings_in_one_program_are_shown_by_setting(run):
    rows = [
        {"updates": n, "env_steps": n * 1e5, "return": 1.0}
        | {f"member/{k}/return": float(k if n > 36 else 99) for k in range(4)}
        for n in range(1, 41)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = json.loads((run / "config.json").read_text())
    config |= {"seeds": 2, "seed": 3, "vary": "learning_rate=0.001,0.01"}
    (run / "config.json").write_text(json.dumps(config))
    summary = json.loads((run / "summary.json").read_text())
    summary["trained"]["member"] = 3
    (run / "summary.json").write_text(json.dumps(summary))
    page = page_of(run)
    told = html.unescape(re.sub(r"<[^>]*>", " ", page))
    # Two seeds: Student's interval is 0.5 and 12.7 times their standard error around it.
    assert re.search(r"learning_rate=0.001\s+2\s+0.50\s+-5.85 to 6.85\s+1.00 \(#1\)", told)
    assert re.search(r"learning_rate=0.01\s+2\s+2.50\s+-3.85 to 8.85\s+3.00 \(#3\)", told)
    assert "training 3 (learning_rate=0.01), which had the highest return" in told
    assert "3 to 4" in told
    assert "4 in one program" in told
    assert ">learning_rate=0.01</text>" in page
    # Settings that anybody may have written.
    for odd in ({"vary": "learning_rate"}, {"seeds": "many"}, {"seeds": -1}, {"vary": 3}):
        (run / "config.json").write_text(json.dumps(config | odd))
        page_of(run)


def test_a_run_without_evaluation_or_named_twice_is_refused(runs, tmp_path):
    unfinished = trained(tmp_path / "unfinished", 0, 0)
    with pytest.raises(ConfigError, match=r"unfinished: has no evaluation yet .* let it end"):
        report_of_seeds([*runs, unfinished])
    with pytest.raises(ConfigError, match="a: named twice"):
        report_of_seeds([*runs, runs[0]])
