"""Checkpoints on Weights & Biases: uploaded by a run, and gone on with from there."""

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli.commands import assert_refused, done, invoke

from hackmatrix_rl.runs.checkpoints import find_checkpoint, read_metadata
from hackmatrix_rl.runs.sinks import WeightsAndBiases, artifact_name

SMALL = ("--num-envs", "4", "--network", "mlp", "--width", "8", "--depth", "1")
TINY = ("--preset", "debug", "--env", "cartpole", *SMALL, "--eval-episodes", "0")
SENT = ("--wandb", "--wandb-mode", "offline", "--wandb-artifacts")


class Artifact:
    """A version of an artifact, whose files lie in a folder."""

    def __init__(self, name, type, metadata):
        self.collection, self.type, self.metadata = name, type, metadata
        self.version, self.place, self.waited = None, None, False

    @property
    def name(self):
        return f"{self.collection}:{self.version}"

    @property
    def size(self):
        return sum(each.stat().st_size for each in self.place.rglob("*") if each.is_file())

    @property
    def manifest(self):
        names = [str(each.relative_to(self.place)) for each in self.place.rglob("*")]
        return SimpleNamespace(entries={name: SimpleNamespace(ref=None) for name in names})

    def add_dir(self, place):
        self.source = place

    def wait(self, timeout):
        self.waited = True

    def download(self, root):
        shutil.copytree(self.place, root)


class Service:
    """Stands for the library and the service behind it."""

    Error, Artifact = RuntimeError, Artifact
    offline = False
    default_entity = "me"

    class Settings:
        """Has no time limits."""

    def __init__(self, folder):
        self.folder, self.kept = folder, []

    def init(self, **arguments):
        return self

    def define_metric(self, name, step_metric=None):
        pass

    log = finish = teardown = lambda self, *_, **__: None

    def log_artifact(self, artifact, aliases):
        artifact.version = f"v{len(self.kept)}"
        artifact.place = self.folder / artifact.version
        shutil.copytree(artifact.source, artifact.place)
        self.kept.append(artifact)
        return artifact

    def Api(self, timeout):
        return self

    def artifacts(self, kind, name):
        found = [each for each in self.kept if name.endswith(f"/{each.collection}")]
        if kind != "checkpoint" or not found:
            raise ValueError("no such\nartifact.")
        return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What a run of 2 updates has sent, and its id."""
    place = tmp_path_factory.mktemp("trained")
    made = Service(place / "service")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(place)
        patched.setitem(sys.modules, "wandb", made)
        done("train", *TINY, *SENT, "--total-timesteps", "128", "--run-dir", "runs/first")
        run_id = json.loads(Path("runs/first/run.json").read_text())["wandb_id"]
    assert all(each.waited for each in made.kept)
    return made.kept, run_id


@pytest.fixture
def service(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    made = Service(tmp_path / "service")
    monkeypatch.setitem(sys.modules, "wandb", made)
    return made


@pytest.fixture
def run(trained, service):
    """The id of the run, whose folder is lost."""
    kept, run_id = trained
    for sent in kept:
        artifact = Artifact(sent.collection, sent.type, sent.metadata)
        artifact.add_dir(sent.place)
        service.log_artifact(artifact, aliases=[])
    return run_id


def test_a_run_goes_on_from_its_newest_whole_checkpoint_there(service, run):
    first, last = service.kept
    assert (first.metadata["update"], last.metadata["update"]) == (0, 2)
    go_on = ("train", "--resume-run", f"wandb:me/mine/{run}", "--total-timesteps")
    said = done(*go_on, "256").output
    assert "checkpoint-first" in said
    assert "fetched from Weights & Biases into runs/first" in said
    assert "resumed at update 2" in said
    found = find_checkpoint("runs/first")
    assert read_metadata(found)["run"] == {"run_id": "first", "wandb_id": run}
    assert found.name == "4"
    # The run here is as new as what it has sent since, so nothing is fetched.
    for each in service.kept:
        shutil.rmtree(each.place)
    assert "runs/first: has update 4, as new as" in done(*go_on, "320").output
    assert not list(Path("runs").glob(".fetching-*"))


def test_a_damaged_checkpoint_there_is_skipped_and_another_run_s_refused(service, run):
    first, last = service.kept
    (last.place / "metadata.json").write_text("{}")
    go_on = ("train", "--resume-run", f"wandb:me/mine/{run}")
    dry = done(*go_on, "--dry-run").output
    assert f"{last.name}: " in dry
    assert "metadata.json is not what was written" in dry
    assert f"{first.name}: fetched" in dry
    shutil.rmtree("runs/first")
    for each in service.kept:
        each.collection = artifact_name("other")
    assert_refused(
        invoke("train", "--resume-run", "wandb:me/mine/other"),
        "wandb:me/mine/other: no checkpoint there can be used: ",
    )
    assert not list(Path("runs").iterdir())


def test_the_folders_of_other_runs_stay_as_they_are(service, run):
    places = {
        "first": {"wandb_id": "another"},
        run: {"wandb_id": run, "wandb_project": "another"},
        f"{run}_2": {"wandb_id": run, "wandb_entity": "another"},
    }
    for name, names in places.items():
        kept = Path("runs", name, "checkpoints", "2")
        kept.mkdir(parents=True)
        (kept / "metadata.json").write_text("{}")
        Path("runs", name, "run.json").write_text(json.dumps(names))
    before = {file: file.read_text() for file in Path("runs").rglob("*") if file.is_file()}
    dry = ("train", "--resume-run", f"wandb:me/mine/{run}", "--dry-run")
    assert f"into runs/{run}_3" in done(*dry).output
    assert f"runs/{run}_3: has update 2, as new as" in done(*dry).output
    assert {file: file.read_text() for file in before} == before
    assert sorted(os.listdir("runs")) == sorted([*places, f"{run}_3"])


def test_a_run_is_not_fetched_where_runs_is_a_file(service):
    Path("runs").write_text("")
    service.Api = pytest.fail
    assert_refused(
        invoke("train", "--resume-run", "wandb:me/mine/a"), "wandb:", "runs is not a folder"
    )


def entry(name, ref=None):
    return SimpleNamespace(entries={name: SimpleNamespace(ref=ref)})


@pytest.mark.parametrize(
    ("manifest", "size", "said"),
    [
        (entry("../../.bashrc"), 1, "leads out of the checkpoint"),
        (entry("/etc/passwd"), 1, "leads out of the checkpoint"),
        (entry("a", ref="file:///etc/passwd"), 1, "is elsewhere, not in the artifact"),
        (SimpleNamespace(entries=dict.fromkeys(map(str, range(10_001)))), 1, "has 10,001 files"),
        (entry("a"), 2**70, "are free"),
    ],
)
def test_what_is_no_checkpoint_is_not_downloaded(service, manifest, size, said):
    listed = SimpleNamespace(version="v0", name="c:v0", metadata={}, manifest=manifest, size=size)
    listed.download = pytest.fail
    service.artifacts = lambda kind, name: [listed]
    assert_refused(invoke("train", "--resume-run", "wandb:mine/a"), said)


@pytest.mark.parametrize("name", ["wandb:a", "wandb:a/b/c/d", "wandb:a//c", "wandb:a/b/.."])
def test_a_name_that_is_none_of_a_run_there_is_refused(service, name):
    assert_refused(invoke("train", "--resume-run", name), name, "Write wandb:ENTITY/PROJECT/RUN_ID")


def test_what_the_service_says_is_one_line_and_folders_of_checkpoints_do_not_mix(service):
    missing = ("train", "--resume-run", "wandb:me/mine/a")
    assert_refused(invoke(*missing), "Weights & Biases says: no such artifact. Log in")
    assert_refused(
        invoke(*missing, "--checkpoint-dir", "x"), "--checkpoint-dir ", "/x: ", "Leave it"
    )


@pytest.mark.nightly
def test_the_library_keeps_a_checkpoint_offline(monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    wandb = pytest.importorskip("wandb")
    checkpoint = tmp_path / "12"
    checkpoint.mkdir()
    (checkpoint / "manifest.json").write_text("{}")
    sink = WeightsAndBiases(
        project="p", run_id="a b", name="r", folder=tmp_path, config={}, mode="offline",
        artifacts=True,
    )  # fmt: skip
    try:
        sink.keep(checkpoint)
    finally:
        sink.close()
        wandb.teardown()
    (kept,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"checkpoint-a_b" in kept.read_bytes()
