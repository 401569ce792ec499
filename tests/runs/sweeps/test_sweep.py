"""`hackmatrix-rl sweep` on CartPole, in this process."""

import json
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli.commands import assert_refused, done, invoke

from hackmatrix_rl.runs import RunLock
from hackmatrix_rl.runs.config import config_from_dict, make_config, read_settings
from hackmatrix_rl.runs.sinks import Length, read_json_lines
from hackmatrix_rl.runs.sweeps import _study as studies
from hackmatrix_rl.runs.sweeps import _work as working
from hackmatrix_rl.runs.sweeps import open_sweep, space_here
from hackmatrix_rl.runs.sweeps._page import _parallel
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.training import Metrics, StopTraining
from hackmatrix_rl.view import figures
from runs.on_cartpole import TOML as BASE

pytestmark = pytest.mark.processes

pytest.importorskip("optuna")

SPACE = 'learning_rate = {low = 1e-4, high = 1e-1, log = true, schedule = "constant:{}"}\n'
OWN = """
import hackmatrix_rl as hm


def factory(spec, *, width, key):
    return hm.MLPActorCritic(spec, width=width, depth=1, key=key)
"""
# Its value is known before: that of the setting.
RATE = ("--metric", "learning_rate")


def write(space=SPACE, base=BASE, name="space.toml"):
    Path(name).write_text(f"{base}\n[space]\n{space}")
    return name


def trials(folder):
    return studies.find_study(Path(folder), None).get_trials()


def rows(folder):
    return read_json_lines(folder / "metrics.jsonl")


def opened(folder="sweep", **changes):
    given = {
        "metric": "return",
        "minimize": False,
        "folder": Path(folder),
        "storage": None,
        "trials": 4,
        "sampler": "tpe",
        "seed": 0,
        "prune": True,
    }
    space = space_here(Path(write()), report=print)
    return open_sweep(space, **given | changes)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A folder with a finished sweep of three trials in `sweeps/space`, and what it printed."""
    place = tmp_path_factory.mktemp("swept")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        result = done("sweep", write(), "--trials", 3, *RATE)
    return place, result.stdout


def test_each_trial_is_a_run_and_a_bad_one_ends_early(swept, monkeypatch):
    place, told = swept
    monkeypatch.chdir(place)
    found = trials("sweeps/space")
    assert [each.number for each in found] == [0, 1, 2]
    best = 0.0
    for each in found:
        rate = each.params["learning_rate"]
        folder = Path("sweeps/space", f"trial-{each.number:04}")
        assert (
            json.loads((folder / "config.json").read_text())["learning_rate"]
            == f"constant:{rate!r}"
        )
        log = (folder / "log.txt").read_text()
        # A trial that is worse than the best one so far is none of the best third.
        if rate > best:
            best = rate
            assert each.state.name == "COMPLETE"
            assert each.value == pytest.approx(rate)
            assert "trained to the end at 512 steps; saved" in log
        else:
            assert each.state.name == "PRUNED"
            assert each.user_attrs["why"] == "after 12%"
            assert "stopped at 64 steps; saved" in log
            assert (folder / "checkpoints" / "1" / "manifest.json").exists()
    assert {each.state.name for each in found} == {"COMPLETE", "PRUNED"}
    assert f"Best: learning_rate {best:.4g}" in told
    assert f"trial 0: learning_rate constant:{found[0].params['learning_rate']:.4g}" in told


def test_the_best_settings_are_a_file_for_train(swept):
    place, _ = swept
    file = place / "sweeps" / "space" / "best.toml"
    best = max((each for each in studies.find_study(file.parent, None).get_trials()
                if each.state.name == "COMPLETE"), key=lambda each: each.value)  # fmt: skip
    settings = read_settings(file)
    config = make_config("cpu", settings)
    stored = json.loads((file.parent / f"trial-{best.number:04}" / "config.json").read_text())
    trained = config_from_dict({**stored, "run_dir": None})
    assert config == trained
    assert config.learning_rate == f"constant:{best.params['learning_rate']!r}"


def test_a_sweep_that_is_done_does_nothing_more(swept, monkeypatch):
    place, _ = swept
    monkeypatch.chdir(place)
    before = len(trials("sweeps/space"))
    assert "trial 3" not in done("sweep", "space.toml", "--trials", 3, *RATE).stdout
    assert len(trials("sweeps/space")) == before


def test_the_report_draws_names_and_values_as_they_are():
    odd = "a$x_$b"
    trials = [
        SimpleNamespace(number=n, value=n, params={odd: f"{odd}{n}"}, distributions={})
        for n in range(2)
    ]
    page = figures({"": lambda axes: _parallel(axes, trials, [], odd)})
    assert {f"{each}</text>" in page for each in (odd, f"{odd}0", f"{odd}1")} == {True}


def test_the_report_shows_the_best_and_every_trial(swept, monkeypatch):
    place, _ = swept
    monkeypatch.chdir(place)
    done("report", "sweeps/space", "--output", "page.html")
    page = Path("page.html").read_text()
    for part in (
        *("PED-ANOVA", "a line through its settings", "the best so far", "pruned, at its last"),
        *("hackmatrix-rl train --config sweeps/space/best.toml", "trial-0002", "after 12%"),
    ):
        assert part in page
    assert page.count("<svg") == 3


def test_a_journal_of_another_space_is_refused(swept, monkeypatch):
    place, _ = swept
    monkeypatch.chdir(place)
    folder = ("--folder", "sweeps/space", "--trials", 4)
    other = write(SPACE.replace("1e-4", "1e-3"), name="other.toml")
    told = ("sweeps/space: holds a sweep of another space", "0.0001 to 0.1", "0.001 to 0.1")
    assert_refused(invoke("sweep", other, *RATE, *folder), *told)
    more = write(f"{SPACE}\nwidth = {{choices = [8, 16]}}\n", name="other.toml")
    assert_refused(invoke("sweep", more, *RATE, *folder), "[space] is learning_rate there")
    longer = write(base=BASE.replace("512", "1024"), name="other.toml")
    assert_refused(invoke("sweep", longer, *RATE, *folder), "total_timesteps is 512 there")
    assert_refused(invoke("sweep", "space.toml", "--metric", "entropy", *folder), "metric is")
    assert_refused(invoke("sweep", "space.toml", *RATE, "--minimize", *folder), "to be small here")
    assert len(trials("sweeps/space")) == 3


def test_code_that_only_a_stored_trial_names_is_never_imported(swept, here):
    """Somebody sent the folder; `best.toml` would name it as one's own."""
    shutil.copytree(swept[0], here, dirs_exist_ok=True)
    folder, best = Path("sweeps/space"), studies.find_study(Path("sweeps/space"), None).best_trial
    Path("evil.py").write_text("raise SystemExit('the code was run')\n")
    stored = folder / f"trial-{best.number:04}" / "config.json"
    kept = (folder / "best.toml").read_text()
    for changes in ({"network": "evil:factory"}, {"env": "evil:factory", "seeds": 2}):
        before = json.loads(stored.read_text())
        stored.write_text(json.dumps({**before, **changes}))
        refused = invoke("sweep", "space.toml", "--trials", 4, *RATE)
        assert_refused(refused, str(stored), "code of the module evil", "--trust-code")
        done("report", folder, "--output", "page.html")
        stored.write_text(json.dumps(before))
    assert "evil" not in sys.modules
    assert (folder / "best.toml").read_text() == kept
    assert len(trials(folder)) == 3


def test_a_dry_run_shows_the_first_settings_and_leaves_nothing(here):
    name = write(f"{SPACE}num_minibatches = {{choices = [2, 3]}}\n")
    told = done("sweep", name, "--trials", 4, "--dry-run").stdout
    assert sorted(here.iterdir()) == [here / name]
    assert "0.0001 to 0.1, log" in told
    sweep = opened(trials=4)
    sweep = studies.Sweep(**{**vars(sweep), "space": space_here(Path(write(
        f"{SPACE}num_minibatches = {{choices = [2, 3]}}\n")), report=print)})  # fmt: skip
    for number in range(4):
        trial = sweep.take()
        line = next(line for line in told.splitlines() if f"trial-{number:04}  " in line)
        assert studies.shown(trial.values["learning_rate"]) in line
        assert ("CANNOT WORK" in line) == (trial.values["num_minibatches"] == 3)
        sweep.end(trial, "FAIL")
        trial.lock.close()
    assert sweep.take() is None


def test_several_seeds_are_one_run_and_the_best_file_trains_one(here):
    metric = ("--metric", "return_iqm", "--seeds", 2)
    done("sweep", write(), "--trials", 1, *metric, "--folder", "sweep")
    logged = rows(Path("sweep/trial-0000"))
    known = [row["return_iqm"] for row in logged if "return_iqm" in row]
    assert "member/1/return" in logged[-1]
    (trial,) = trials("sweep")
    assert trial.value == pytest.approx(known[-1])  # a tenth of the steps is one row
    assert read_settings(Path("sweep/best.toml"))["seeds"] == 1


def test_settings_that_cannot_go_together_end_their_trial_alone(here):
    name = write("num_minibatches = {choices = [2, 3]}\n")
    told = done("sweep", name, "--trials", 2, "--folder", "sweep", "--no-prune").stdout
    states = {each.params["num_minibatches"]: each.state.name for each in trials("sweep")}
    assert states == {2: "COMPLETE", 3: "FAIL"}
    assert "failed: --num-minibatches 3" in told
    failed = next(each for each in trials("sweep") if each.state.name == "FAIL")
    assert not Path("sweep", f"trial-{failed.number:04}").exists()


def test_a_worker_ends_where_every_trial_fails(here, monkeypatch):
    def refused(*_, **__):
        raise ConfigError("--tracker wandb: no login found.")

    monkeypatch.setattr(working, "launch", refused)
    sweep = opened(trials=40)
    nothing = {"begins": lambda *_: None, "ends": lambda _: None, "progress": lambda *_: None}
    with pytest.raises(ConfigError, match=r"5 trials failed one after another.*no login"):
        working.work(sweep, **nothing)
    assert sweep.counts()["FAIL"] == 5


def test_ctrl_c_leaves_the_trial_to_the_next_worker(here, monkeypatch):
    """Its checkpoint, its rows and its settings go on, and so does the network of its space."""
    Path("mine.py").write_text(OWN)
    sys.modules.pop("mine", None)
    prune = studies.Trial.prune

    def interrupted(self, value, percent):
        signal.raise_signal(signal.SIGINT)
        return prune(self, value, percent)

    own = write(base=BASE.replace("depth = 1", 'network = "mine:factory"'))
    command = ("sweep", own, "--trials", 1, "--folder", "sweep", *RATE)
    with monkeypatch.context() as patch:
        patch.setattr(studies.Trial, "prune", interrupted)
        stopped = invoke(*command)
    assert stopped.exit_code == 130, stopped.output
    assert "The same command resumes the trial that was left." in stopped.stdout
    (left,) = trials("sweep")
    assert left.state.name == "RUNNING"
    told = done(*command).stdout
    assert "trial 0: " in told
    assert "from its last checkpoint" in told
    (trial,) = trials("sweep")
    assert (trial.state.name, trial.params) == ("COMPLETE", left.params)
    assert "resumed at update 1" in Path("sweep/trial-0000/log.txt").read_text()
    assert [row["updates"] for row in rows(Path("sweep/trial-0000"))] == [*range(1, 9)]
    assert sorted(trial.intermediate_values) == [12, 25, 37, 50, 62, 75, 87]


def test_an_error_of_the_program_is_no_trial_for_the_next_worker(here, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(working, "launch", broken)
    sweep = opened()
    nothing = {"begins": lambda *_: None, "ends": print, "progress": lambda *_: None}
    with pytest.raises(ZeroDivisionError):
        working.work(sweep, **nothing)
    (trial,) = sweep.study.get_trials()
    assert (trial.state.name, trial.user_attrs["why"]) == ("FAIL", "ZeroDivisionError: a bug")


def test_only_a_trial_without_a_lock_is_taken_over(here):
    one, two = opened(), opened()
    first = one.take()
    second = two.take()
    assert (first.number, second.number) == (0, 1)
    first.lock.close()  # as if its process had died
    again = two.take()
    assert (again.number, again.values) == (0, first.values)
    assert one.take().number == 2
    two.end(again, "COMPLETE", 1.0)
    again.lock.close()
    assert one.take().number == 3
    assert two.take() is None


def test_nothing_is_taken_over_where_locks_do_not_work(here, monkeypatch):
    monkeypatch.setattr(RunLock, "_lock", lambda *_, **__: False)
    one, two = opened(), opened()
    assert [one.take().number, two.take().number, one.take().number] == [0, 1, 2]


def test_a_database_holds_a_sweep_as_well(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    storage = "sqlite:///~/study.db"
    opened("sweep", storage=storage, look=True)
    assert invoke("report", "sweep", "--storage", storage).exit_code == 2
    assert not Path("study.db").exists()
    Path("study.db").touch()
    opened("sweep", storage=storage, look=True)
    assert Path("study.db").stat().st_size == 0
    one = opened("sweep", storage=storage, trials=2)
    other = opened("elsewhere/sweep", storage=storage, trials=2)
    trial = one.take()
    trial.lock.close()
    # This trial may be trained where the other folder is.
    assert other.take().number == 1
    assert opened("sweep", storage=storage, trials=2).take().number == 0
    with pytest.raises(ConfigError, match="--storage, study sweep: holds a sweep of another space"):
        opened("sweep", storage=storage, metric="entropy")
    with pytest.raises(ConfigError, match="--storage: the database cannot be used"):
        opened("sweep", storage="nothing")


def test_trials_draw_by_seed_and_number_and_workers_not_the_same(here):
    drawn = [each["learning_rate"] for each in opened().next_values(4)]
    assert len({*drawn}) == 4
    assert drawn == [each["learning_rate"] for each in opened().next_values(4)]
    assert drawn != [each["learning_rate"] for each in opened(seed=1).next_values(4)]
    one, two = opened(), opened()
    pairs = [(one.take(), two.take()) for _ in range(2)]
    assert [each.values["learning_rate"] for pair in pairs for each in pair] == drawn


class Reported:
    """Takes a trial's reports in Optuna's place, and prunes it from some share on."""

    def __init__(self, pruned=1000):
        self.reports, self._pruned = [], pruned

    def report(self, value, percent):
        self.reports.append((percent, value))

    def should_prune(self):
        return self.reports[-1][0] >= self._pruned


def watch(reported, rows="nothing.jsonl"):
    trial = studies.Trial(0, Path("trial-0000"), {}, RunLock(), 0, reported)
    return working._Watch(trial, "return", Length(100), lambda *_: None, Path(rows))


def dispatched(steps, **episode):
    return Metrics(steps, steps, 1.0, 1.0, len(episode), episode=episode)


def test_the_value_is_the_mean_over_the_last_tenth():
    trial = Reported()
    hook = watch(trial)
    for steps in range(5, 101, 5):
        found = {} if steps == 100 else {"return": float(steps)}
        hook.after_dispatch(None, dispatched(steps, **found))
    assert hook.value == pytest.approx((90 + 95) / 2)
    assert trial.reports[:2] == [(5, 5.0), (10, 10.0)]
    assert trial.reports[-1] == (95, pytest.approx((90 + 95) / 2))  # none at the end


def test_a_resumed_training_counts_what_it_logged_before(here):
    """A worker may die after the last step, before Optuna knows the result."""
    (here / "rows.jsonl").write_text('{"env_steps": 99, "return": 4.0}\n{"env_steps": 100}\n')
    hook = watch(Reported(), "rows.jsonl")
    hook.on_start(None)
    assert hook.value == 4.0


def test_a_pruned_training_stops_and_one_at_its_end_does_not():
    hook = watch(Reported(pruned=50))
    hook.after_dispatch(None, dispatched(49, **{"return": 1.0}))
    with pytest.raises(StopTraining):
        hook.after_dispatch(None, dispatched(50, **{"return": 1.0}))
    assert hook.pruned_at == 50
    whole = watch(Reported(pruned=50))
    whole.after_dispatch(None, dispatched(100, **{"return": 1.0}))
    assert whole.pruned_at is None


def test_a_training_that_goes_wrong_counts_as_pruned(here):
    name = write("max_grad_norm = {choices = [1e30, 1e31]}\n",
                 BASE + "learning_rate = 1e30\nstop_after_nonfinite = 1\n")  # fmt: skip
    told = done("sweep", name, "--trials", 1, "--folder", "sweep").stdout
    (trial,) = trials("sweep")
    assert trial.state.name == "PRUNED", told
    assert "pruned training went wrong" in told


@pytest.mark.parametrize(
    ("space", "parts"),
    [
        ("", ("has no setting to search in [space]",)),
        ("learning_rate = {low = 1e-2, high = 1e-2}", ("low 0.01 must be less than high 0.01",)),
        ("learning_rate = {low = 1, high = 0}", ("low 1.0 must be less",)),
        ("learning_rate = {low = 0, high = 1, log = true}", ("low 0.0 must be more than 0",)),
        ("learning_rate = {low = 0, high = 1, log = 1}", ("log must be true or false",)),
        ("learning_rate = {low = -1, high = 1}", ("--learning-rate -1.0 is too small",)),
        ("learning_rate = {low = 'a', high = 1}", ("--learning-rate a",)),
        ("learning_rate = {low = nan, high = 1}", ("--learning-rate nan",)),
        (
            "learning_rate = {low = 0, high = 1, schedule = 'constant'}",
            ("a text with {} for the number",),
        ),
        ("learning_rate = {low = 0, high = 1, schedule = 'half:{}'}", ("a schedule such as",)),
        ("width = {low = 8, high = 16, schedule = 'linear:{}:0'}", ("must be a whole number",)),
        ("learning_rate = {low = 1e-3}", ("not understood", "{low = 1, high = 8}")),
        ("learning_rate = {low = 0, hihg = 1}", ("not understood",)),
        ("learning_rate = 3e-4", ("learning_rate 0.0003: not understood",)),
        ("width = {low = 8, high = 17, step = 4}", ("end at 16, not at 17. Use high = 16",)),
        ("width = {low = 8, high = 16, step = 0}", ("step 0 must be between 0 and",)),
        ("width = {low = 8.5, high = 16}", ("--width 8.5: must be a whole number",)),
        ("width = {choices = [8]}", ("two different values or more",)),
        ("width = {choices = [8, 8]}", ("two different values or more",)),
        ("network = {low = 1, high = 2}", ("--network 1: must be text",)),
        ("widht = {choices = [8, 16]}", ("unknown setting 'widht'", "Did you mean width?")),
        ("q_lambda = {low = 0.1, high = 0.9}", ("--q-lambda 0.1", "--algorithm pqn")),
        ("league = {choices = ['original', 'no-rewind']}", ("--league", "--env hackmatrix")),
        ("seed = {low = 0, high = 9}", ("[space] seed: is the same for all trials",)),
        ("algorithm = {choices = ['ppo', 'pqn']}", ("[space] algorithm: is the same",)),
    ],
)
def test_a_space_that_cannot_be_is_refused_before_anything_starts(here, space, parts):
    assert_refused(invoke("sweep", write(space)), *parts)
    assert [each.name for each in here.iterdir()] == ["space.toml"]


@pytest.mark.parametrize(
    ("base", "given", "parts"),
    [
        (BASE, ("--trials", 0), ("--trials", "0 is not in the range")),
        (BASE, ("--metric", "retun"), ("--metric retun: not among", "Did you mean return?")),
        (BASE, ("--metric", "eval/return"), ("no evaluation is logged", "eval_interval = 20")),
        (
            f"{BASE}eval_interval = 2\n",
            ("--metric", "eval/retrun"),
            ("Use eval/return, eval/length. Did you mean eval/return?",),
        ),
        (BASE, ("--metric", "return_iqm"), ("not among the metrics",)),
        (BASE, ("--folder", "gs://bucket/sweep"), ("must be a folder that all machines mount",)),
        (BASE, ("--folder", "space.toml/sweep"), ("space.toml is a file. Use another folder",)),
        (BASE, ("--folder", "a" * 300), ("more than 255 characters. Use another name",)),
        (BASE, ("--folder", r"a\b"), ("cannot keep checkpoints: ", "a backslash")),
        (BASE, ("--sampler", "grid"), ("'grid' is not one of 'tpe', 'random'",)),
        (f"{BASE}run_dir = 'here'\n", (), ("run_dir is of one run, and a sweep has many",)),
        (f"{BASE}vary = 'gamma=0.9,0.99'\n", (), ("vary is of one run",)),
        (f"{BASE}[[stage]]\nalgorithm = 'ppo'\n", (), ("Leave [[stage]] out",)),
        (BASE.replace('"cartpole"', '"cartpol"'), (), ("--env cartpol",)),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_before_anything_starts(here, base, given, parts):
    assert_refused(invoke("sweep", write(base=base), *given), *parts)
    assert [each.name for each in here.iterdir()] == ["space.toml"]


def test_a_link_out_of_a_sweep_is_not_followed(here):
    Path("sweep").mkdir()
    Path("mine").write_text("precious")
    Path("sweep/journal.log").symlink_to(here / "mine")
    refused = invoke("sweep", write(), "--folder", "sweep")
    assert_refused(refused, "--folder sweep: journal.log in it is a link that leads out")
    assert Path("mine").read_text() == "precious"


def test_a_damaged_journal_and_a_folder_without_a_sweep_are_told(here):
    Path("sweep").mkdir()
    Path("sweep/journal.log").write_text("nothing\nnothing\n")
    refused = invoke("sweep", write(), "--folder", "sweep")
    assert_refused(refused, "--folder sweep: the journal cannot be used")
    assert_refused(invoke("report", "nowhere"), "nowhere: holds no run")
    nowhere = ("report", "nowhere", "--storage", f"sqlite:///{here}/none.db")
    assert_refused(invoke(*nowhere), "nowhere: holds no sweep")


def test_without_optuna_one_line_says_what_to_install(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    told = ("sweep needs the package optuna", "pip install '.[sweep]'")
    assert_refused(invoke("sweep", write()), *told)
