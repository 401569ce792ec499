import gc
import io
import math
import sys
import warnings
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from hackmatrix_rl.runs import make_run_folder
from hackmatrix_rl.runs._curve import draw_curve
from hackmatrix_rl.runs._folder import new_wandb_id
from hackmatrix_rl.runs._monitor import open_sinks
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.runs.sinks import (
    Fanout,
    JsonLines,
    Length,
    LiveTerminal,
    LogFile,
    OriginalNames,
    PlainTerminal,
    Queued,
    WeightsAndBiases,
    read_json_lines,
    terminal,
)
from hackmatrix_rl.runs.sinks._terminal import duration, one_line
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view import draw, save_gif
from hackmatrix_rl.view.replays import Match

pytestmark = pytest.mark.smoke


def row(**changes):
    numbers = {
        "env_steps": 250.0,
        "steps_per_second": 50.0,
        "return": -1.25,
        "stage": 1.5,
        "entropy": 2.0,
        "approx_kl": 0.01,
        "policy_loss": -0.002,
        "value_loss": 0.5,
    }
    return numbers | changes


def test_json_lines_are_on_disk_at_once_with_null_for_what_json_cannot_say(tmp_path):
    path = tmp_path / "metrics.jsonl"
    sink = JsonLines(path)
    sink.write(row())
    sink.write(row(**{"return": math.nan}))
    assert read_json_lines(path) == [row(), row(**{"return": None})]
    sink.close()
    # A crash may cut a line short.
    path.write_text('{"a": 1.0}\n{"a": 2')
    assert read_json_lines(path) == [{"a": 1.0}]


def test_output_that_is_no_terminal_gets_plain_lines():
    out = io.StringIO()
    sink = terminal(Console(file=out), length=Length(1000))
    assert isinstance(sink, PlainTerminal)
    sink.note("[hello]")
    sink.write(row())
    sink.close()
    first, second = out.getvalue().splitlines()
    assert first == "[hello]"
    assert "\x1b" not in second
    for part in (
        *("25%", "250 steps", "0:15 left", "steps/s 50", "return -1.250", "stage 1.50"),
        *("entropy 2.000", "KL 0.0100", "policy loss -0.0020", "value loss 0.5000"),
    ):
        assert part in second


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"updates": 10.0}, "0:45 left"),  # 25 steps an update, of which 90 are left
        ({"updates": 10.0, "steps_per_second": 0.0}, ""),
        ({"updates": 0.0, "env_steps": 0.0}, ""),
    ],
)
def test_the_time_left_is_told_in_whatever_unit_a_run_counts(changes, left):
    assert Length(100, "updates").left(row(**changes)) == left


def test_the_time_left_is_that_of_all_trainings_at_once():
    def left(seeds):
        config = make_config("debug", {"algorithm": "ppo", "total_timesteps": 1000, "seeds": seeds})
        return Length.from_config(config).left(row(steps_per_second=400.0))

    assert left(1) == "0:02 left"
    assert left(8) == "0:15 left"


def test_a_terminal_gets_a_live_display():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    sink = terminal(console, length=Length(1000))
    assert isinstance(sink, LiveTerminal)
    sink.write(row(**{"return": math.nan}))
    sink.note("a note")
    sink.working("compiling", 7.0)
    sink.close()
    text = out.getvalue()
    shown = ("25%", "250 steps", "0:15 left", "entropy", "2.000", "a note", "compiling ... (7 s)")
    for part in shown:
        assert part in text


def test_work_that_lasts_is_told_now_and_then():
    out = io.StringIO()
    sink = Fanout([PlainTerminal(Console(file=out), length=Length(1000))])
    for second in range(1, 25):
        sink.working("compiling", float(second))
    for second in range(1, 12):
        sink.working("evaluating", float(second))
    assert out.getvalue().splitlines() == [
        "compiling ... (10 s)",
        "compiling ... (20 s)",
        "evaluating ... (10 s)",
    ]


def test_the_log_has_the_time_of_day(tmp_path):
    path = tmp_path / "log.txt"
    sink = LogFile(path, length=Length(1000), now=lambda: datetime(2030, 1, 2, 3, 4, 5))
    sink.note("two\nlines")
    sink.write(row())
    sink.close()
    lines = path.read_text().splitlines()
    assert lines[:2] == ["2030-01-02 03:04:05  two", "2030-01-02 03:04:05  lines"]
    assert "return -1.250" in lines[2]


def test_a_fanout_reaches_all(tmp_path):
    out = io.StringIO()
    path = tmp_path / "metrics.jsonl"
    sink = Fanout([PlainTerminal(Console(file=out), length=Length(1000)), JsonLines(path)])
    sink.write(row())
    sink.note("note")
    sink.close()
    assert "note" in out.getvalue()
    assert read_json_lines(path) == [row()]


class Settings(SimpleNamespace):
    """Stands for the library's settings, of which this package asks what there are."""

    init_timeout: float
    finish_timeout: float


class FakeWandb(SimpleNamespace):
    """Stands for the library: a service cannot be reached in a test."""

    class Error(Exception):
        pass

    def __init__(self, refuses=False):
        super().__init__(
            logged=[], how=[], finished=False, refuses=refuses, metrics={}, Settings=Settings
        )

    def init(self, **arguments):
        if self.refuses:
            raise self.Error("no login.")
        self.arguments = arguments
        return self

    def Html(self, data, inject):
        assert not inject
        return ("html", data)

    def Table(self, columns, data):
        return [dict(zip(columns, row, strict=True)) for row in data]

    def Video(self, file, format):
        return (format, Path(file).read_bytes()[:6])

    def define_metric(self, name, step_metric=None):
        self.metrics[name] = step_metric

    def log(self, numbers, **how):
        self.logged.append(numbers)
        self.how.append(how)

    def finish(self):
        self.finished = True

    def teardown(self):
        self.let_go = True


@pytest.fixture
def fake(monkeypatch):
    made = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", made)
    return made


def wandb_sink(folder, **changes):
    settings = {
        "project": "p",
        "run_id": "r-1",
        "name": "r",
        "folder": folder,
        "config": {"seed": 1},
    }
    return WeightsAndBiases(**{**settings, **changes})


def test_wandb_gets_known_numbers_over_environment_steps(fake, tmp_path):
    sink = wandb_sink(tmp_path)
    sink.write({"env_steps": 64.0, "return": math.nan, "entropy": 1.0})
    sink.close()
    assert (fake.arguments["id"], fake.arguments["resume"]) == ("r-1", "allow")
    assert fake.arguments["config"] == {"seed": 1}
    assert fake.logged == [{"env_steps": 64.0, "entropy": 1.0}]
    # Drawn over environment steps, and not over a counter that may only grow.
    assert fake.metrics == {"env_steps": None, "*": "env_steps"}
    assert fake.finished


def test_wandb_knows_a_run_by_what_its_settings_say(fake, tmp_path):
    settings = {
        "tracker": "wandb",
        "wandb_group": "seeds",
        "wandb_name": "third",
        "wandb_tags": "small, no rewind,",
        "wandb_notes": "why",
        "run_dir": str(tmp_path / "run"),
    }
    for given, name in ((settings, "third"), ({**settings, "wandb_name": None}, "run")):
        config = make_config("debug", {**given, "run_dir": str(tmp_path / name / "run")})
        folder = make_run_folder(config)
        open_sinks(config, folder).close()
        assert fake.arguments["name"] == name
    assert fake.arguments["group"] == "seeds"
    assert fake.arguments["tags"] == ["small", "no rewind"]
    assert fake.arguments["notes"] == "why"


def test_wandb_gets_each_of_several_trainings_as_a_run_in_a_group(monkeypatch, tmp_path):
    every = []

    class Several(FakeWandb):
        def init(self, **arguments):
            every.append(FakeWandb())
            return every[-1].init(**arguments)

    monkeypatch.setitem(sys.modules, "wandb", Several())
    settings = {
        "env": "cartpole",
        "algorithm": "ppo",
        "seed": 5,
        "vary": "gamma=0.9,0.99",
        "tracker": "wandb",
        "wandb_members": True,
        "wandb_tags": "small",
        "run_dir": str(tmp_path / "run"),
    }
    config = make_config("debug", settings)
    folder = make_run_folder(config)
    sink = open_sinks(config, folder)
    sink.write(row(updates=1.0, seconds=1.0, **{"member/0/return": 2.0, "member/1/return": 4.0}))
    sink.close()
    whole, first, second = every
    assert [one.arguments["id"] for one in every] == [
        folder.wandb_id, f"{folder.wandb_id}-0", f"{folder.wandb_id}-1",
    ]  # fmt: skip
    assert whole.arguments["group"] is None
    assert "reinit" not in whole.arguments
    assert first.arguments["group"] == second.arguments["group"] == folder.wandb_id
    assert second.arguments["tags"] == ["small", "seed=5", "gamma=0.99"]
    assert second.arguments["config"]["gamma"] == 0.99
    assert second.arguments["reinit"] == "create_new"
    assert whole.logged[0]["member/1/return"] == 4.0
    assert second.logged == [
        {"env_steps": 250.0, "updates": 1.0, "time/seconds": 1.0, "train/return": 4.0}
    ]


def test_a_sweeps_agent_names_the_run(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_RUN_ID", "abc123")
    assert new_wandb_id(tmp_path / "run") != "abc123"
    monkeypatch.setenv("WANDB_SWEEP_ID", "s1")
    assert new_wandb_id(tmp_path / "run") == "abc123"


def test_wandb_gets_a_page_a_film_and_a_table(fake, tmp_path):
    (tmp_path / "replay.html").write_text("<p>a game")
    (tmp_path / "replay.gif").write_bytes(b"GIF89a...")
    sink, told = wandb_sink(tmp_path), []
    sink.film(lambda: tmp_path / "replay.gif")
    sink.table("evaluations", [{"player": "a", "return": 1.0}, {"player": "b", "return": 2.0}])
    queued = Fanout([Queued(sink, report=told.append)])
    queued.show(tmp_path / "replay.html")
    queued.close()
    assert told == []
    assert fake.logged == [
        {"replay.gif": ("gif", b"GIF89a")},
        {"evaluations": [{"player": "a", "return": 1.0}, {"player": "b", "return": 2.0}]},
        {"replay": ("html", "<p>a game")},
    ]


def test_under_the_original_names_units_are_the_original_ones_over_updates(fake, tmp_path):
    settings = {
        "tracker": "wandb",
        "metric_names": "original",
        "vf_coef": 0.25,
        "ent_coef": "linear:1:0",
        "run_dir": str(tmp_path / "run"),
    }
    config = make_config("debug", settings)
    own = {"env_steps": 8000.0, "updates": 10.0, "seconds": 2.0, "steps_per_second": 200.0}
    games = {"episodes": 4.0, "return": 3.0, "length": 50.0, "siphons": 5.0, "programs": 10.0}
    terms = {"reward/kills": 2.0, "reward/death_penalty": -1.0, "ent_coef": 0.5}
    first = row(**own, **games, **terms, clip_fraction=0.1, won=0.25)
    sink = open_sinks(config, make_run_folder(config))
    sink.write(first)
    page = tmp_path / "replay.html"
    page.write_text("<p>a game")
    sink.show(page)
    sink.write(row(updates=12.0, seconds=4.0, entropy=math.nan))
    sink.close()
    assert fake.metrics == {"train/update_step": None, "*": "train/update_step"}
    assert fake.how == [{"step": 10}, {"commit": False}, {"step": 12}]
    sent = fake.logged[0]
    assert sent == pytest.approx(
        {
            "train/update_step": 10,
            "train/pg_loss": -0.002,
            "train/vf_loss": 0.5,
            "train/ent_loss": -2.0,
            "train/total_loss": -0.002 + 0.25 * 0.5 - 0.5 * 2.0,
            "train/entropy": 2.0,
            "train/approx_kl": 0.01,
            "train/clip_frac": 0.1,
            "train/mean_episode_return": 3.0,
            "train/mean_episode_length": 50.0,
            "train/num_episodes": 4.0,
            # 4 games have ended in 400 steps.
            "reward/kills": 2.0 * 4 / 400,
            "reward/death_penalty": -1.0 * 4 / 400,
            "train/mean_reward": (2.0 - 1.0) * 4 / 400,
            "actions/move_frac": 0.7,
            "actions/siphon_frac": 0.1,
            "actions/program_frac": 0.2,
            "env_steps": 8000.0,
            "seconds": 2.0,
            "steps_per_second": 200.0,
            "stage": 1.5,
            "won": 0.25,
            "ent_coef": 0.5,
        }
    )
    assert fake.logged[2]["train/updates_per_second"] == 0.5
    # What stays here keeps its names.
    (written, _) = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert written == first


def test_the_loss_is_left_out_where_its_weights_are_not_known():
    for settings in ({}, {"vf_coef": 0.5, "ent_coef": 0.01, "then": {}}):
        names = OriginalNames(settings)(row(updates=1.0))
        assert "train/total_loss" not in names
        assert names["train/ent_loss"] == -2.0


def test_a_service_that_refuses_is_a_setting_that_cannot_work(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb(refuses=True))
    with pytest.raises(ConfigError, match=r"--tracker wandb: no login\. Log in with"):
        wandb_sink(tmp_path)


@pytest.fixture
def real_wandb(monkeypatch, tmp_path):
    """The library itself, with a key, and a service that is not there."""
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    wandb = pytest.importorskip("wandb")
    yield wandb
    wandb.teardown()


@pytest.mark.parametrize("names", [dict, OriginalNames({})], ids=["flat", "original"])
def test_the_library_keeps_a_run_offline_and_goes_on_with_it(real_wandb, tmp_path, names):
    page = tmp_path / "replay.html"
    page.write_text("<!doctype html><p>a game")
    film = tmp_path / "replay.gif"
    save_gif([draw(Match.start(seed=1).now.frame)] * 2, film)
    for steps in ((64, 128), (64, 128, 192)):
        sink = wandb_sink(tmp_path, mode="offline", names=names)
        for step in steps:
            sink.write({"env_steps": step, "updates": step // 64, "entropy": 1.0})
        sink.show(page)
        sink.film(lambda: film)
        sink.close()
    kept = list((tmp_path / "wandb").glob("offline-run-*/run-r-1.wandb"))
    assert kept
    assert list((tmp_path / "wandb").glob("offline-run-*/files/media/html/replay_*.html"))
    assert list((tmp_path / "wandb").glob("offline-run-*/files/media/videos/replay.gif_*.gif"))
    assert all(file.stat().st_size for file in kept)


@pytest.mark.nightly
def test_the_library_keeps_several_trainings_at_once_offline(real_wandb, tmp_path):
    row = {"env_steps": 1.0, "updates": 1.0, "seconds": 1.0, "member/0/return": 2.0}
    whole = wandb_sink(tmp_path, mode="offline")
    first = wandb_sink(tmp_path, mode="offline", run_id="r-1-0", member=0)
    for sink in (whole, first):
        sink.write(row)
    for sink in (first, whole):
        sink.close()
    sizes = [file.stat().st_size for file in (tmp_path / "wandb").glob("offline-run-*/*.wandb")]
    assert len(sizes) == 2
    assert all(sizes)


@pytest.mark.nightly
def test_the_library_keeps_a_table_offline_or_says_so_in_time(real_wandb, tmp_path):
    # So long because a busy machine may need seconds to start the library's own process.
    sink = wandb_sink(tmp_path, mode="offline", patience=20.0)
    try:
        sink.table("evaluations", [{"player": "trained", "return": 1.0}])
    except TimeoutError:
        pytest.skip("this version of the library asks the service even offline")
    finally:
        sink.close()
    assert list((tmp_path / "wandb").glob("offline-run-*/files/media/table/evaluations_*.json"))


def test_a_service_that_cannot_be_reached_at_the_start_is_said_soon(real_wandb, tmp_path):
    with pytest.raises(ConfigError, match=r"--tracker wandb: .*--wandb-mode offline"):
        wandb_sink(tmp_path, patience=1.0)
    with warnings.catch_warnings():
        # Old versions of the library leave their sockets to whoever collects garbage next.
        warnings.simplefilter("ignore")
        gc.collect()


def test_gradient_steps_are_shown_where_they_start_late_and_durations_as_clocks():
    row = {"env_steps": 64, "steps_per_second": 8.0, "gradient_steps": 3}
    assert "gradient steps" not in one_line(row, Length(128))
    line = one_line({**row, "q_loss": 0.25}, Length(128))
    assert line.endswith("Q loss 0.2500  gradient steps 3")
    assert [duration(s) for s in (-3, 5, 65, 3725)] == ["0:00", "0:05", "1:05", "1:02:05"]


def test_a_run_without_metrics_has_no_curve(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    assert not draw_curve(tmp_path / "metrics.jsonl", tmp_path / "curve.png", title="run")
    assert not (tmp_path / "curve.png").exists()
