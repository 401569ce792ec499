"""`train --dry-run --target SLICE --launcher FILE`: the script for all hosts of a slice."""

import shlex
import subprocess
from types import SimpleNamespace

import jax
import pytest
from processes import stand_ins

from hackmatrix_rl.system import Target

from .commands import assert_refused, done, invoke

GCLOUD = """for each in "$@"; do printf '%s|' "$each" >> calls; done; echo >> calls
case "$*" in *describe*) [ -n "$STATE" ] && echo "$STATE" || exit 1 ;; esac
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """`hackmatrix-rl train --dry-run` with a plan that is not compiled; hosts by slice's name."""
    monkeypatch.chdir(tmp_path)
    hosts = {"v4-8": 1, "v4-64": 8, "v5e-16": 4, "tpu7x-8": 1, "2xv4-8": 2}

    def target(name):
        found = Target(name, tuple(jax.devices()), 2**40)
        object.__setattr__(found, "hosts", hosts[name])
        return found

    monkeypatch.setattr("hackmatrix_rl.system.target", target)
    told = SimpleNamespace(lines=lambda: ["the plan"])
    monkeypatch.setattr("hackmatrix_rl.runs.plan_for", lambda *_, **__: told)
    return lambda *arguments: ("train", "--preset", "debug", "--dry-run", *arguments)


def called(tmp_path, script, **variables):
    """What a script asks of gcloud, a list of arguments for each call, and how it ended."""
    (tmp_path / "calls").write_text("")
    path = stand_ins(tmp_path, gcloud=GCLOUD)
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
    flags = ("--config", "mine.toml", "--mesh", "data=8", "--no-wandb", "--width", "none")
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
    options.remove("--no-wandb")
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
    done(*plan("--target", "v4-64", "--launcher", "go.sh", "--wandb"))
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


def test_a_launcher_that_cannot_be_is_refused_before_anything_compiles(plan, tmp_path, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.runs.plan_for", None)
    (tmp_path / "there.sh").write_text("mine")
    go = ("--launcher", "go.sh")
    for arguments, said in [
        ((*go,), "--launcher go.sh: needs --target"),
        (("--target", "v4-8", "--launcher", "go.yaml"), "go.yaml: it is a shell script"),
        (("--target", "v4-8", "--launcher", "there.sh"), "there.sh: exists already"),
        (("--target", "v4-8", "--launcher", "no/go.sh"), "no/go.sh: there is no folder no"),
        (("--target", "tpu7x-8", *go), "go.sh: starts one slice of v4, v5e, v5p, v6e"),
        (("--target", "2xv4-8", *go), "go.sh: starts one slice"),
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
