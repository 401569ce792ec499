"""`--launcher FILE`: what starts a training, or the workers of a sweep, on other machines."""

import gzip
import json
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import jax
import jsonschema
import pytest
import yaml
from processes import stand_ins

from hackmatrix_rl.system import Target

from .commands import assert_refused, done, invoke

SCHEMAS = Path(__file__).parents[1] / "data" / "launchers"
GCLOUD = """for each in "$@"; do printf '%s|' "$each" >> calls; done; echo >> calls
case "$*" in *describe*) [ -n "$STATE" ] && echo "$STATE" || exit 1 ;; esac
case "$*" in *"hackmatrix-rl train"*) ;; *) exit 0 ;; esac
[ -s statuses ] || exit 0
read -r status < statuses
sed -i 1d statuses
exit "$status"
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """`hackmatrix-rl train --dry-run` with a plan that is not compiled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "hackmatrix_rl.system.target", lambda name: Target(name, tuple(jax.devices()), 2**40)
    )
    told = SimpleNamespace(lines=lambda: ["the plan"])
    monkeypatch.setattr("hackmatrix_rl.runs.plan_for", lambda *_, **__: told)
    return lambda *arguments: ("train", "--preset", "debug", "--dry-run", *arguments)


def called(tmp_path, script, **variables):
    """What a script asks of gcloud, a list of arguments for each call, and how it ended."""
    (tmp_path / "calls").write_text("")
    path = stand_ins(tmp_path, gcloud=GCLOUD, sleep="")
    ended = subprocess.run(
        ["bash", script],
        cwd=tmp_path,
        env=path | variables,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    calls = [line.split("|")[3:-1] for line in (tmp_path / "calls").read_text().splitlines()]
    return calls, ended


WHERE = {"PACKAGE": "git+https://x/y", "ZONE": "us-central2-b"}


def test_the_script_makes_the_slice_and_trains_on_every_host(plan, tmp_path):
    (tmp_path / "mine.toml").write_text("num_envs = 16\n")
    flags = (
        "--config",
        "mine.toml",
        "--mesh",
        "data=8",
        "--no-offload-optimizer",
        "--width",
        "none",
    )
    result = done(*plan("--target", "v4-64", "--launcher", "go.sh", *flags))
    assert result.stdout.endswith("the plan\nWrote go.sh, which starts this training there\n")
    calls, ended = called(tmp_path, "go.sh", **WHERE, CHECKPOINTS="gs://b/x")
    assert ended.returncode == 0, ended.stderr
    described, created, copied, installed, trained = calls
    assert described[:2] == ["describe", "hackmatrix-rl-v4-64"]
    assert described[-2:] == ["--zone", "us-central2-b"]
    assert created[:2] == ["create", "hackmatrix-rl-v4-64"]
    assert created[2:6] == ["--accelerator-type", "v4-64", "--version", "tpu-ubuntu2204-base"]
    assert copied[:3] == ["scp", "mine.toml", "hackmatrix-rl-v4-64:"]
    assert "'hackmatrix-rl[tpu] @ git+https://x/y'" in installed[4]
    assert trained[:4] == ["ssh", "hackmatrix-rl-v4-64", "--worker=all", "--command"]
    program, command, *options = trained[4].split()
    assert (program, command) == ("~/.local/bin/hackmatrix-rl", "train")
    options.remove("--no-offload-optimizer")
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert given == {
        **{"--preset": "debug", "--config": "mine.toml", "--mesh": "data=8", "--width": "none"},
        **{"--run-dir": "runs/hackmatrix-rl-v4-64", "--checkpoint-dir": "gs://b/x"},
    }


def test_after_a_preemption_it_resumes(plan, tmp_path):
    done(*plan("--target", "v5e-16", "--launcher", "go.sh", "--run-dir", "runs/a b", "--seed", 3))
    resumed, _ = called(tmp_path, "go.sh", **WHERE, CHECKPOINTS="gs://b/x", RESUME="1", NAME="n")
    assert resumed[1][2:6] == [
        *("--accelerator-type", "v5litepod-16", "--version", "v2-alpha-tpuv5-lite")
    ]
    command = resumed[-1][4].partition(" ")[2]
    assert command == r"train --resume-run runs/a\ b --checkpoint-dir gs://b/x"


@pytest.mark.parametrize(
    ("state", "made"), [("PREEMPTED", ["delete", "create"]), ("READY", []), ("", ["create"])]
)
def test_a_slice_that_was_preempted_is_made_again(plan, tmp_path, state, made):
    done(*plan("--target", "v4-8", "--launcher", "go.sh"))
    calls, ended = called(tmp_path, "go.sh", **WHERE, STATE=state, RESUME="1", SPOT="1")
    assert ended.returncode == 0, ended.stderr
    assert [call[0] for call in calls] == ["describe", *made, "ssh", "ssh"]
    spot = [call[0] for call in calls if "--spot" in call]
    assert spot == [name for name in made if name == "create"]


def test_host_0_gets_the_login_of_wandb(plan, tmp_path):
    done(*plan("--target", "v4-64", "--launcher", "go.sh", "--tracker", "wandb"))
    where = {**WHERE, "CHECKPOINTS": "gs://b/x", "HOME": str(tmp_path)}
    without, _ = called(tmp_path, "go.sh", **where)
    (tmp_path / ".netrc").touch()
    calls, _ = called(tmp_path, "go.sh", **where)
    (copied,) = [call for call in calls if call not in without]
    login = str(tmp_path / ".netrc")
    assert copied[:4] == ["scp", login, "hackmatrix-rl-v4-64:", "--worker=0"]


def test_several_hosts_ask_for_checkpoints_that_all_see(plan, tmp_path):
    done(*plan("--target", "v4-64", "--launcher", "many.sh"))
    calls, ended = called(tmp_path, "many.sh", **WHERE)
    assert (calls, ended.returncode != 0) == ([], True)
    assert "CHECKPOINTS: a folder that all hosts see" in ended.stderr
    done(*plan("--target", "v4-8", "--launcher", "one.sh"))
    calls, ended = called(tmp_path, "one.sh", **WHERE)
    assert "--checkpoint-dir" not in calls[-1][4]
    given = ("--run-dir", "runs/it's $(x)", "--checkpoint-dir", "gs://b/$y '")
    done(*plan("--target", "v4-64", "--launcher", "given.sh", *given))
    calls, ended = called(tmp_path, "given.sh", **WHERE)
    assert shlex.split(calls[-1][4].removeprefix("--command="))[-4:] == list(given)


NEW, AGAIN = "--run-dir", "--resume-run"


@pytest.mark.parametrize(
    ("statuses", "attempts", "status"),
    [
        ([5, 0], [NEW, AGAIN], 0),
        ([134, 143, 0], [NEW, AGAIN, AGAIN], 0),
        ([137, 3], [NEW, AGAIN], 3),
        ([2], [NEW], 2),
        ([5, 2, 0], [NEW, AGAIN, NEW], 0),
        ([5, 2, 2], [NEW, AGAIN, NEW], 2),
    ],
)
def test_gcloud_resumes_where_another_attempt_may_work(plan, tmp_path, statuses, attempts, status):
    done(*plan("--target", "v4-8", "--launcher", "go.sh"))
    (tmp_path / "statuses").write_text("".join(f"{each}\n" for each in statuses))
    calls, ended = called(tmp_path, "go.sh", **WHERE, STATE="READY")
    commands = [word for call in calls for word in call if "hackmatrix-rl train" in word]
    assert ended.returncode == status, ended.stderr
    assert [NEW if NEW in each else AGAIN for each in commands] == attempts
    assert all(NEW in each or AGAIN in each for each in commands)


HOSTILE = ("--run-dir", 'runs/it\'s $(touch broken) `touch broken`: "- x" #')


@pytest.fixture
def launcher(plan):
    """The text of a launcher for a target, whose options a shell or YAML could take apart."""

    def write(target, file, *options):
        Path("my settings.toml").write_text("num_envs = 16\n")
        done(
            *plan("--target", target, "--launcher", file, "--config", "my settings.toml", *options)
        )
        return Path(file).read_text()

    return write


def documents(text):
    """The documents of a YAML file, by their kinds; SkyPilot's has none."""
    return {each.get("kind"): each for each in yaml.safe_load_all(text)}


def scripts(file, text):
    """The shell scripts of a launcher."""
    if file.endswith(".sky.yaml"):
        task = yaml.safe_load(text)
        return [task["setup"], task["run"]]
    if file.endswith(".jobset.yaml"):
        return [documents(text)["ConfigMap"]["data"]["start.sh"]]
    return [text]


def strict(schema):
    """A schema of Kubernetes that refuses unknown fields, as `kubectl apply` does."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(each) for name, each in schema.items()}
    return closed | ({"additionalProperties": False} if "properties" in schema else {})


def check(file, text):
    """Checks a launcher by the schemas of its system, and its scripts by ShellCheck."""
    if file.endswith(".sky.yaml"):
        schemas = json.loads((SCHEMAS / "skypilot.json").read_text())
        jsonschema.validate(yaml.safe_load(text), schemas["task"])
        jsonschema.validate(yaml.safe_load(text)["resources"], schemas["resources"])
    if file.endswith(".jobset.yaml"):
        schema = json.loads(gzip.decompress((SCHEMAS / "jobset.json.gz").read_bytes()))
        jsonschema.validate(documents(text)["JobSet"], strict(schema))
    for script in scripts(file, text):
        found = subprocess.run(
            [
                Path(sys.executable).with_name("shellcheck"),
                "--exclude",
                "SC2016",
                "--shell",
                "bash",
                "-",
            ],
            input=script,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert found.returncode == 0, found.stdout + script


LAUNCHERS = [
    ("v4-64", "go.sh"),
    ("16xh100", "go.sbatch"),
    ("2xcpu", "go.sbatch"),
    ("v5e-16", "go.sky.yaml"),
    ("16xh100", "go.sky.yaml"),
    ("2xv4-16", "go.jobset.yaml"),
    ("16xh100", "go.jobset.yaml"),
]


@pytest.mark.parametrize(("target", "file"), LAUNCHERS)
def test_launchers_are_what_their_systems_take(launcher, target, file):
    check(file, launcher(target, file, *HOSTILE, "--tracker", "wandb", "--trust-code"))


MACHINE = """case "$*" in
  *"uv tool dir"*) echo "$HOME/tools" ;;
esac"""


def executed(tmp_path, file, text, **variables):
    """The words of each `hackmatrix-rl` that a launcher starts on an empty machine."""
    path = stand_ins(
        tmp_path, python3=MACHINE, srun='while [ "$1" != hackmatrix-rl ]; do shift; done\n"$@"'
    )
    program = tmp_path / ".local" / "bin" / "hackmatrix-rl"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text('#!/bin/bash\nprintf "%s\\0" "$@" > words\n')
    program.chmod(0o755)
    interpreter = tmp_path / "tools" / "hackmatrix-rl" / "bin" / "python"
    interpreter.parent.mkdir(parents=True, exist_ok=True)
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    for script in scripts(file, text):
        ended = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=path
            | {"HOME": str(tmp_path), "PATH": f"{program.parent}:{path['PATH']}"}
            | {"PACKAGE": "git+https://x/y", "CHECKPOINTS": f"{tmp_path}/bucket"}
            | {"SLURM_JOB_ID": "7"}
            | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "broken").exists()
    return (tmp_path / "words").read_text().split("\0")[:-1]


@pytest.mark.parametrize("file", ["go.sbatch", "go.sky.yaml", "go.jobset.yaml"])
def test_a_launcher_starts_the_command_and_then_resumes_it(launcher, tmp_path, file):
    text = launcher("16xh100", file, *HOSTILE, "--seed", 3)
    hosts = {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "SKYPILOT_NODE_RANK": "1"}
    hosts["JOB_COMPLETION_INDEX"] = "1"
    words = executed(tmp_path, file, text, **hosts)
    begun = words[: words.index(HOSTILE[1]) + 1]
    settings = begun.pop(begun.index("--config") + 1)
    assert begun == ["train", "--preset", "debug", "--seed", "3", "--config", *HOSTILE]
    assert (tmp_path / settings).read_text() == "num_envs = 16\n"
    checkpoint = tmp_path / "bucket" / "40" / "manifest.json"
    for written in (checkpoint, tmp_path / HOSTILE[1] / "config.json"):
        written.parent.mkdir(parents=True)
        written.touch()
    again = executed(tmp_path, file, text, **hosts)
    assert again[:3] == ["train", "--resume-run", HOSTILE[1]]
    assert again[3:] == words[len(begun) + 1 :]
    given = dict(pairwise(again))
    if file != "go.sbatch":  # JAX asks SLURM for the other processes
        assert given["--checkpoint-dir"] == str(tmp_path / "bucket")
        assert (given["--num-processes"], given["--process-id"]) == ("2", "1")
        first = {"go.sky.yaml": "10.0.0.1"}.get(
            file, "hackmatrix-rl-16xh100-train-0-0.hackmatrix-rl-16xh100"
        )
        assert given["--coordinator"] == f"{first}:8476"


def test_each_kind_starts_again_by_the_exit_status(launcher):
    sky = yaml.safe_load(launcher("8xh100", "go.sky.yaml"))["resources"]["job_recovery"]
    assert sky == {"max_restarts_on_errors": 0, "recover_on_exit_codes": [5, 134, 143]}
    jobset = documents(launcher("v4-64", "go.jobset.yaml"))["JobSet"]["spec"]
    (rule,) = jobset["failurePolicy"]["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])
    (job,) = (each["template"]["spec"] for each in jobset["replicatedJobs"])
    (rule,) = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("status", "attempts", "again"),
    [
        *((status, "", False) for status in range(5)),
        *((5, "", True), (137, "99", True), (143, "", True), (143, "100", False)),
    ],
)
def test_a_slurm_job_is_queued_again_where_that_helps(launcher, tmp_path, status, attempts, again):
    text = launcher("8xh100", "go.sbatch")
    path = stand_ins(tmp_path, srun=f"exit {status}", scontrol='echo "$*" >> calls')
    environment = path | {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": attempts}
    ended = subprocess.run(
        ["bash", "-c", text], cwd=tmp_path, env=environment, timeout=20, check=False
    )
    assert ended.returncode == status
    assert (tmp_path / "calls").exists() == again


def test_the_launcher_asks_for_the_devices_of_the_plan(launcher):
    lines = launcher("16xh100", "go.sbatch").splitlines()
    asked = {"--nodes=2", "--ntasks-per-node=8", "--gpus-per-node=h100:8"}
    assert {f"#SBATCH {each}" for each in asked} < set(lines)
    sky = yaml.safe_load(launcher("16xh100", "go.sky.yaml"))
    assert (sky["num_nodes"], sky["resources"]["accelerators"]) == (2, "H100:8")
    assert "--gpus-per-node=rtx4090:4" in launcher("4xrtx4090", "four.sbatch")
    sky = yaml.safe_load(launcher("a100", "one.sky.yaml"))
    assert (sky["num_nodes"], sky["resources"]["accelerators"]) == (1, "A100-80GB:1")
    assert "gke-accelerator: nvidia-l4\n" in launcher("l4", "one.jobset.yaml")
    sky = yaml.safe_load(launcher("v5e-16", "a.yaml", "--launcher-kind", "skypilot"))
    assert (sky["num_nodes"], sky["resources"]["accelerators"]) == (1, "tpu-v5litepod-16")
    jobset = documents(launcher("2xv5e-16", "go.jobset.yaml"))["JobSet"]["spec"]
    (slices,) = jobset["replicatedJobs"]
    pods = slices["template"]["spec"]
    assert (slices["replicas"], pods["parallelism"], pods["completions"]) == (2, 4, 4)
    pod = pods["template"]["spec"]
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "4x4",
    }
    assert pod["containers"][0]["resources"]["limits"] == {"google.com/tpu": 4}


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """`hackmatrix-rl sweep --dry-run` of a small space."""
    monkeypatch.chdir(tmp_path)
    space = "[space]\nlearning_rate = {low = 1e-5, high = 1e-2, log = true}\n"
    (tmp_path / "space.toml").write_text(f'algorithm = "ppo"\nenv = "cartpole"\n{space}')
    return lambda *options: ("sweep", "space.toml", "--trials", 200, "--dry-run", *options)


ARRAYS = ["go.sbatch", "go.sky.yaml", "go.jobset.yaml"]


@pytest.mark.parametrize("file", ARRAYS)
def test_a_sweep_is_an_array_of_workers(sweep, tmp_path, file):
    told = done(*sweep("--target", "4xh100", "--workers", 16, "--launcher", file)).stdout
    assert told.endswith(f"Wrote {file}, which starts this sweep there\n")
    text = (tmp_path / file).read_text()
    check(file, text)
    if file == "go.sbatch":
        assert {"#SBATCH --array=0-15", "#SBATCH --gpus-per-node=h100:4"} < set(text.splitlines())
    elif file == "go.sky.yaml":
        assert yaml.safe_load(text)["num_nodes"] == 16
    else:
        (worker,) = documents(text)["JobSet"]["spec"]["replicatedJobs"]
        assert worker["template"]["spec"]["parallelism"] == 16
    text = text.replace("cd /shared", f"cd {tmp_path}")
    command, space, *options = executed(tmp_path, file, text)
    assert (command, options) == ("sweep", ["--trials", "200"])
    assert (tmp_path / space).read_text() == (tmp_path / "space.toml").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--target", "h100"), "--target h100: needs --launcher"),
        (("--workers", 2), "--workers 2: needs --launcher"),
        (("--launcher", "a.sbatch", "--target", "h100"), "--launcher a.sbatch: needs --workers"),
        (("--launcher", "a.sbatch", "--workers", 2), "--launcher a.sbatch: needs --target"),
        (
            ("--launcher", "a.sh", "--workers", 2, "--target", "v4-8"),
            "a.sh: starts no sweep there; it starts trainings on one TPU slice (v4, v5e, v5p, v6e)",
        ),
        (
            ("--launcher", "a.sbatch", "--workers", 2, "--target", "16xh100"),
            "--target 16xh100: a trial of a sweep trains on one host",
        ),
    ],
)
def test_an_array_that_cannot_be_is_refused(sweep, options, said):
    assert_refused(invoke(*sweep(*options)), said)


def test_a_launcher_that_cannot_be_is_refused_before_anything_compiles(plan, tmp_path, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.runs.plan_for", None)
    (tmp_path / "there.sh").write_text("mine")
    (tmp_path / "weights").mkdir()
    go = ("--launcher", "go.sh")
    for arguments, said in [
        ((*go,), "--launcher go.sh: needs --target"),
        (("--target", "v4-8", "--launcher", "go.yaml"), "go.yaml: its ending names no kind"),
        (
            ("--target", "v4-8", "--launcher-kind", "slurm"),
            "--launcher-kind slurm: needs --launcher",
        ),
        (("--target", "v4-8", "--launcher", "there.sh"), "there.sh: exists already"),
        (("--target", "v4-8", "--launcher", "no/go.sh"), "no/go.sh: there is no folder no"),
        (
            ("--target", "tpu7x-8", *go),
            "not --target tpu7x-8. Use a file that ends in .jobset.yaml",
        ),
        (("--target", "2xv4-8", *go), "go.sh: starts one TPU slice (v4, v5e, v5p, v6e), not"),
        (("--target", "2xcpu", *go), "not --target 2xcpu. Use a file that ends in .sbatch."),
        (("--target", "v4-8", "--launcher", "a.sbatch"), "a.sbatch: starts GPUs and cpu, not"),
        (
            ("--target", "2xv4-64", "--launcher", "a.sky.yaml"),
            "a.sky.yaml: starts one TPU slice (v4, v5e, v5p, v6e) and GPUs, not --target 2xv4-64",
        ),
        (
            ("--target", "cpu", "--launcher", "a.jobset.yaml"),
            "starts TPU slices and GKE's GPUs, not",
        ),
        (
            ("--target", "rtx4090", "--launcher", "a.jobset.yaml"),
            "that ends in .sbatch or .sky.yaml",
        ),
        (
            ("--target", "h100", "--launcher", "a.sky.yaml", "--init", "weights"),
            "--init weights: is a folder, not a file. --launcher copies files of up to 256 KiB",
        ),
        (
            ("--target", "8xh100", "--launcher", "a.sbatch", "--mesh", "data=16"),
            "--mesh data=16: needs 16 devices, but there are 8",
        ),
    ]:
        assert_refused(invoke(*plan(*arguments)), said)
    assert (tmp_path / "there.sh").read_text() == "mine"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--coordinator", "host:1"),
        ("--num-processes", "2"),
        ("--process-id", "0"),
        ("--connect-timeout", "9"),
    ],
)
def test_one_process_plans_for_all_hosts(plan, option, value):
    said = f"{option} {value}: one process plans for all hosts of --target v4-64"
    assert_refused(invoke(*plan("--target", "v4-64", option, value)), said, f"Leave {option} out")
