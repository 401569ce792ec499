"""Runs that somebody sent: nothing in them is run, and nothing in them leads elsewhere."""

import json
import math
import os
import pickle
import shlex
import shutil
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from cli.commands import assert_refused, done, invoke
from etils import epath
from processes import python

from hackmatrix_rl.agent.networks import build_network
from hackmatrix_rl.algorithms.self_play import SelfPlayConfig, load_self_play
from hackmatrix_rl.cli._main import _COMMANDS
from hackmatrix_rl.env import clique_identity
from hackmatrix_rl.runs import (
    RunLock,
    config_here,
    find_player,
    find_resumable_run,
    launch,
    make_run_folder,
    reopen_run_folder,
)
from hackmatrix_rl.runs.checkpoints import (
    CheckpointWriter,
    find_checkpoint,
    initial_settings,
    load,
    read_arrays,
)
from hackmatrix_rl.runs.checkpoints._manifest import damage as damage_in
from hackmatrix_rl.runs.checkpoints._metadata import LONGEST
from hackmatrix_rl.runs.config import make_config
from hackmatrix_rl.system.errors import ConfigError
from hackmatrix_rl.view.replays import Replay
from runs.checkpoints.kept import (
    NEWEST,
    checkpoint_of,
    content,
    edit,
    forge,
    forge_config,
    seal,
    unpack,
)

pytestmark = pytest.mark.view

MODULE = """
from pathlib import Path
from hackmatrix_rl.agent.networks import build_network
Path({sign!r}).touch()
def factory(spec, *, width, key):
    return build_network("cells", spec, width=width, key=key)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A whole run that somebody sent, as `sent` where the user stands."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return unpack(NEWEST, here).rename("sent")


@pytest.fixture
def sign(run, tmp_path, monkeypatch):
    """What is there once the code was run that the sent run names as its network."""
    sign = tmp_path / "the code was run"
    (run / "x").mkdir()
    (run / "x" / "net.py").write_text(MODULE.format(sign=str(sign)))
    forge_config(run, network=NETWORK)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield sign
    forget_sent()


def forget_sent():
    for name in [name for name in sys.modules if name.split(".")[0] == "sent"]:
        del sys.modules[name]


NETWORK = "sent.x.net:factory"
REFUSAL = ("network sent.x.net:factory is code of the module sent.x.net", "--trust-code")


COMMANDS = {
    "train": [
        ("--resume-run", "sent"),
        ("--resume-run", "sent", "--dry-run"),
        ("--resume-run", "sent", "--total-timesteps", "1024"),
        ("--init", "sent"),
        ("--init", "sent", "--preset", "debug", "--dry-run"),
        ("--config", "a.toml", "--dry-run"),
        ("--algorithm", "imitation", "--teacher", "sent", "--preset", "debug", "--dry-run"),
    ],
    "imitate": [
        ("--teacher", "sent", "--preset", "debug", "--buffer-size", "256", "--dry-run"),
        ("--teacher", "search(sent, 15)", "--preset", "debug", "--save-demonstrations", "new"),
        ("--init", "sent", "--save-demonstrations", "new"),
    ],
    "selfplay": [
        ("--resume-run", "of_self_play", "--dry-run"),
        ("--resume-run", "of_self_play", "--show-game"),
    ],
    "eval": [("sent",), ("sent", "--best"), ("search(sent, 15)",), ("sent", "--search", "2")],
    "watch": [("sent",)],
    "replay": [("game.json", "--agent", "sent")],
    "analyze": [("sent",)],
    "report": [("sent", "--output", "page.html")],
    "export": [("sent", "--format", "json", "--output", "agent.json")],
    "push": [("sent", "hf://somebody/an-agent")],
    "ui": [("sent", "--no-browser"), ("of_self_play", "--no-browser")],
    "bench": [("--init", "sent")],
    "compare": [("a.toml", "b.toml"), ("a.toml", "--precision")],
    "play": [("--agent", "sent"), ("--agent", "sent", "--search", "2")],
    "serve": [],
    "sweep": [("space.toml",), ("space.toml", "--dry-run")],
    "play-app": [("sent", "--app", "app"), ("sent", "--app", "app", "--search", "2")],
    "doctor": [],
    "verify-resume": [],
}
"""Each command, with the ways to give it something that somebody sent."""
NEEDS_NO_NETWORK = ("report",)

IN_PYTHON = {
    "load": load,
    "best": lambda run: load(run, best=True),
    "load_self_play": lambda run: load_self_play("of_self_play"),
    "find_player": lambda run: find_player(f"search({run}, 15)"),
    "config_here": lambda run: config_here("debug", {"init": run}),
    "initial_settings": lambda run: initial_settings(run, None),
    "launch": lambda run: launch(resume_run=run).__enter__(),
}


@pytest.fixture
def given(run):
    """What `COMMANDS` name, beside the sent run."""
    of_self_play = run.parent / "of_self_play"
    shutil.copytree(run, of_self_play)
    config = SelfPlayConfig(network=NETWORK).as_dict()
    game = clique_identity().as_dict()
    forge(of_self_play, lambda metadata: metadata.update(config=config, game=game))
    for name in ("a.toml", "b.toml"):
        (run.parent / name).write_text('init = "sent"\npreset = "debug"\n')
    searched = "[space]\nlearning_rate = {low = 1e-4, high = 1e-3}\n"
    (run.parent / "space.toml").write_text(f'init = "sent"\npreset = "debug"\n{searched}')
    Replay(seed=(0, 0), actions=(), max_steps=9).save(run.parent / "game.json")


def test_each_command_is_in_the_table():
    assert COMMANDS.keys() == _COMMANDS.keys()


@pytest.mark.parametrize(
    "arguments", [(name, *each) for name, ways in COMMANDS.items() for each in ways], ids=" ".join
)
def test_no_command_imports_code_that_a_sent_run_names(run, given, sign, monkeypatch, arguments):
    monkeypatch.setattr("hackmatrix_rl.view.terminal.check_terminal", lambda command: None)
    before = content(run.parent)
    result = invoke(*arguments)
    assert not sign.exists()
    if arguments[0] in NEEDS_NO_NETWORK:
        assert result.exit_code == 0, result.output
        return
    assert_refused(result, *REFUSAL)
    assert content(run.parent) == before


@pytest.mark.parametrize("name", IN_PYTHON)
def test_nothing_in_python_imports_code_that_a_sent_run_names(given, sign, name):
    with pytest.raises(ConfigError, match=r"module sent\.x\.net, .* --trust-code, .*trust_code=T"):
        IN_PYTHON[name]("sent")
    assert not sign.exists()


@pytest.mark.parametrize("how", [{"trust_code": True}, {"network": NETWORK}])
def test_code_is_imported_for_whoever_trusts_it_or_names_it(run, sign, how):
    player, _ = find_player(str(run), **how)
    assert sign.exists()
    assert type(player.policy) is type(load(run, **how).policy)


def test_a_policy_to_fill_in_needs_neither_code_nor_trust(run, sign):
    spec = load(unpack(NEWEST, run.parent)).environment.spec
    policy = build_network("cells", spec, width=1, key=jax.random.key(0))
    assert load(run, policy=policy).config.network == NETWORK
    assert not sign.exists()


INIT = ("--preset", "debug", "--aux-coefficient", "0", "--init", "sent", "--dry-run")


@pytest.mark.parametrize("how", [("--trust-code",), ("--network", NETWORK)])
@pytest.mark.parametrize(
    ("begin", "status"),
    [(INIT, 7), (("--resume-run", "sent"), 0)],  # a run to resume is at its end
    ids=["init", "resume"],
)
def test_training_takes_trust_or_the_same_name_again(given, sign, monkeypatch, begin, status, how):
    monkeypatch.setattr("hackmatrix_rl.runs._launch.make_plan", lambda *_: sys.exit(7))
    result = invoke("train", *begin, *how)
    assert result.exit_code == status, result.output
    assert sign.exists()


def test_the_name_in_a_file_of_ones_own_is_ones_own(run, sign, tmp_path):
    (tmp_path / "mine.toml").write_text(f'network = "{NETWORK}"\n')
    done("train", "--resume-run", run, "--config", tmp_path / "mine.toml")


def test_another_name_than_the_stored_one_runs_only_what_was_typed(run, sign):
    assert load(run, network="cells").config.network == "cells"
    assert not sign.exists()


@pytest.mark.parametrize(
    "network", ["os:system", "hackmatrix_rl.__main__:main", "..x:y", "a b:c", "a:b.c", "x.y", "é:"]
)
def test_no_stored_name_is_anything_but_a_network_or_code_to_be_trusted(run, network):
    modules = set(sys.modules)
    forge_config(run, network=network)
    with pytest.raises(ConfigError, match=r"--trust-code|unknown network"):
        load(run)
    assert set(sys.modules) - modules == set()


def test_all_processes_of_a_run_must_trust_it(run, sign, monkeypatch):
    monkeypatch.setattr(
        "hackmatrix_rl.runs._launch.system.any_process", lambda mine: True
    )  # another does not
    resume = ("train", "--resume-run", run, "--trust-code")
    assert_refused(invoke(*resume), "--trust-code is missing in another process")
    assert not sign.exists()


def test_the_advice_after_a_run_needs_no_flag_for_code_that_is_trusted_now(run, sign, monkeypatch):
    output = invoke("train", "--resume-run", run, "--trust-code").output
    assert "hackmatrix-rl watch sent" in " ".join(output.split())
    assert "--network" not in output
    monkeypatch.setenv("HACKMATRIX_RL_STATE_DIR", "")  # nothing is remembered
    output = invoke("train", "--resume-run", run, "--trust-code").output
    assert f"hackmatrix-rl watch sent --network {NETWORK}" in " ".join(output.split())


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The state folder of somebody who has trusted the sent run once."""
    state = tmp_path / "state"
    monkeypatch.setenv("HACKMATRIX_RL_STATE_DIR", str(state))
    return state


def test_what_was_trusted_once_needs_no_flag_again(run, sign, state):
    load(run, trust_code=True)
    load(run)
    (entry,) = state.iterdir()
    assert (state.stat().st_mode & 0o777, entry.stat().st_mode & 0o777) == (0o700, 0o600)
    # The same text, and the same content, but other files.
    shutil.move(run, run.parent / "moved")
    (run / "x").mkdir(parents=True)
    shutil.copy(run.parent / "moved" / "x" / "net.py", run.parent / "net.py")
    (run / "x" / "net.py").symlink_to(run.parent / "net.py")
    forget_sent()
    with pytest.raises(ConfigError, match=r"code of the module sent\.x\.net, which would be"):
        load(run.parent / "moved")


def change_the_file(run, entry):
    with (run / "x" / "net.py").open("a") as file:
        file.write("# changed")


def name_another_factory(run, entry):
    forge_config(run, network="sent.x.net:build_network")


def add_a_package_file(run, entry):
    (run / "x" / "__init__.py").touch()


def damage_the_entry(run, entry):
    entry.write_text("[" * 10_000)


def make_it_writable(run, entry):
    entry.chmod(0o620)


def open_the_folder(run, entry):
    entry.parent.chmod(0o777)


def claim_all(run, entry):
    stored = json.loads(entry.read_text())
    (run / entry.name).write_text(json.dumps(stored))
    entry.unlink()


@pytest.mark.parametrize(
    "change",
    [
        *(change_the_file, name_another_factory, add_a_package_file),
        *(damage_the_entry, make_it_writable, open_the_folder, claim_all),
    ],
)
def test_what_was_trusted_once_is_not_another_thing(run, sign, state, change):
    load(run, trust_code=True)
    forget_sent()
    sign.unlink()
    (entry,) = state.iterdir()
    change(run, entry)
    with pytest.raises(ConfigError, match="code of the module sent"):
        load(run)
    assert not sign.exists()


@pytest.mark.parametrize("begin", ["eval sent", "train --init sent --run-dir 'my runs'"])
def test_the_refusal_ends_with_the_command_to_type(run, sign, begin):
    line = f"If you trust it:  hackmatrix-rl {begin} --trust-code"
    assert invoke(*shlex.split(begin)).stderr.splitlines()[-1].endswith(line)


FORGED = ("../../x", "/abs", ".", "..", "a/b", "a\\b", "a\0b", "a\nb", "\x1b[2J", "x" * 300)


@pytest.mark.parametrize("field", ["run_id", "wandb_id"])
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_name_is_refused_in_one_line_and_nothing_is_made(run, field, name):
    forge(run, lambda metadata: metadata["run"].update({field: name}))
    folder = checkpoint_of(run)
    before = content(run.parent)
    for command in (
        ("train", "--resume-run", run),
        ("train", "--resume-run", "gone", "--checkpoint-dir", folder.parent),
        ("eval", run),
    ):
        assert_refused(invoke(*command), f"metadata.json: {field}: ", "Use another checkpoint")
    assert content(run.parent) == before


def test_no_name_is_none_to_make_a_folder_of(run):
    forge(run, lambda metadata: metadata["run"].update(run_id=""))
    before = content(run.parent)
    elsewhere = ("--checkpoint-dir", checkpoint_of(run).parent)
    assert_refused(invoke("train", "--resume-run", "gone", *elsewhere), "does not name its run")
    assert content(run.parent) == before
    assert find_resumable_run(str(run)).path == run  # where the folder itself is there


def test_a_run_in_the_working_directory_has_a_name(here):
    folder = make_run_folder(make_config("debug", {"run_dir": "."}))
    assert folder.run_id == here.name
    assert folder.wandb_id.startswith(f"{here.name}-")


def test_the_longest_name_of_a_folder_is_none_too_long(run):
    name = "x" * LONGEST
    identity = {"run_id": name, "wandb_id": f"{name}-01234567"}
    forge(run, lambda metadata: metadata.update(run=identity))
    (run / "run.json").write_text(json.dumps(identity))
    load(run)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("update", -1),
        ("update", True),
        ("update", "2"),
        ("config", []),
        ("counters", {"mean_return": "high"}),
        ("counters", {"mean_return": math.nan}),
        ("counters", {"member/0/return": 10**400}),
        ("counters", {"member/0/return": [1.0, 2.0]}),
        ("counters", {"member/0/left_out": True}),
        ("counters", {"env_steps": -1}),
        ("counters", {"env_steps": 0.5}),
        ("versions", {"jax": 1}),
        ("random_keys", {"policy": {}}),
        ("random_keys", {"policy": {}, "training": {".key": 1}}),
        ("run", []),
        ("run", {"run_id": 7}),
        ("game", None),
        ("game", {"rules": "1"}),
        ("game", {"rules": 1, "observation": "", "actions": ""}),
    ],
)
def test_metadata_that_no_version_writes_is_named(run, part, value):
    forge(run, lambda metadata: metadata.update({part: value}))
    with pytest.raises(ConfigError, match=rf"metadata\.json: {part}.*: .*Use another checkpoint"):
        load(run)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\xff"])
def test_metadata_that_is_no_metadata_is_named(run, text):
    (checkpoint_of(run) / "metadata.json").write_bytes(text.encode("latin-1"))
    seal(checkpoint_of(run))
    with pytest.raises(ConfigError, match=r"metadata\.json: .*Use another checkpoint"):
        load(run)


def test_an_unknown_generator_of_random_keys_is_named(run):
    forge(run, lambda metadata: metadata["random_keys"]["training"].update({".key": "dice"}))
    with pytest.raises(ConfigError, match=r"training cannot be read: .*dice"):
        read_arrays(find_checkpoint(run), "training")


@pytest.fixture
def others(run):
    """A run of the user's own, whose checkpoints a sent run would like to have."""
    others = unpack(NEWEST, run.parent).rename("others")
    identity = {"run_id": "others", "wandb_id": "others-01234567"}
    forge(others, lambda metadata: metadata.update(run=identity))
    return others


def test_checkpoints_are_written_where_they_were_found(run, others):
    elsewhere = str(others.absolute() / "checkpoints")
    forge(run, lambda metadata: metadata["config"].update(checkpoint_dir=elsewhere))
    stopped = find_resumable_run(str(run))
    folder = reopen_run_folder(stopped.config({}), stopped.path, stopped.metadata["run"])
    assert folder.checkpoints == stopped.checkpoint.parent
    assert folder.checkpoints.parent.name == "sent"


def test_a_config_that_names_the_checkpoints_of_another_run_is_refused_on_resume(run, others):
    shutil.rmtree(run / "checkpoints")
    elsewhere = others.absolute() / "checkpoints"
    edit(run / "config.json", checkpoint_dir=str(elsewhere))
    before = content(run.parent)
    resume = ("train", "--resume-run", run)
    assert_refused(invoke(*resume), "of the run 'others'", f"--checkpoint-dir {elsewhere}")
    (run / "run.json").unlink()
    before.pop("sent/run.json")
    assert_refused(invoke(*resume), "of the run 'others'", f"--checkpoint-dir {elsewhere}")
    assert content(run.parent) == before
    assert find_checkpoint(run).parent.parent.name == "others"  # to look at it does no harm


def test_a_run_that_put_its_checkpoints_elsewhere_goes_on_there(run):
    far = run.parent / "far"
    (run / "checkpoints").rename(far)
    edit(run / "config.json", checkpoint_dir=str(far))
    stopped = find_resumable_run(str(run))
    assert stopped.config({}).checkpoint_dir == str(far.absolute())


@pytest.fixture
def begun(run):
    """The sent run, as if it had ended before its first checkpoint."""
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").write_text("")
    return run


def test_a_run_that_starts_anew_needs_the_same_trust(sign, begun):
    edit(begun / "config.json", network=NETWORK)
    before = content(begun.parent)
    assert_refused(invoke("train", "--resume-run", begun), "sent/config.json: ", *REFUSAL)
    assert not sign.exists()
    assert content(begun.parent) == before


def test_a_run_that_starts_anew_writes_nowhere_but_in_its_folder(begun):
    far = begun.parent / "far"
    edit(begun / "config.json", checkpoint_dir=str(far))
    said = ("but none is there", f"give it: --checkpoint-dir {far}")
    assert_refused(invoke("train", "--resume-run", begun), *said)
    assert not far.exists()
    stopped = find_resumable_run(str(begun), str(far))
    assert stopped.config({}).checkpoint_dir == str(far.absolute())


def test_a_forged_id_beside_no_checkpoint_is_not_taken(begun):
    (begun / "run.json").write_text(json.dumps({"wandb_id": "../x"}))
    assert find_resumable_run(str(begun)).metadata["run"]["wandb_id"].startswith("sent-")


WRITTEN = (
    *("metrics.jsonl", "log.txt", "config.json.part", "lock", "checkpoints", "wandb"),
    *("replays/update-1.json", "tensorboard/old/events"),
)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_link_out_of_a_sent_folder_is_refused_on_resume(run, tmp_path, name):
    mine = tmp_path / "mine"
    if name == "checkpoints":
        (run / name).rename(mine)
    elif name == "wandb":
        mine.mkdir()
    else:
        (run / name).unlink(missing_ok=True)
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        mine.write_text("precious")
    (run / name).symlink_to(mine)
    result = invoke("train", "--resume-run", run)
    assert_refused(result, f"{name} in it is a link that leads out of the folder")
    if mine.is_file():
        assert mine.read_text() == "precious"
    if name == "checkpoints":
        assert "--checkpoint-dir" in result.stderr
        assert find_resumable_run(str(run), str(mine)).checkpoint.parent == mine


def reopen(run):
    """The folder of a run, ready to be written by a resumed training."""
    with RunLock() as lock:
        stopped = find_resumable_run(str(run), lock=lock)
        return reopen_run_folder(stopped.config({}), run, stopped.metadata["run"], lock=lock)


@pytest.mark.parametrize("kind", ["link", "hard link"])
@pytest.mark.parametrize("name", ["checkpoints/lock", "log.txt"])
def test_a_run_goes_on_into_no_file_of_another_folder(run, tmp_path, name, kind):
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (run / name).unlink(missing_ok=True)
    (run / name).hardlink_to(mine) if kind == "hard link" else (run / name).symlink_to(mine)
    with pytest.raises(ConfigError, match=f"{Path(name).name}.* is a"):
        reopen(run)
    assert mine.read_text() == "precious"


def test_a_new_run_does_not_write_through_a_link(run, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("precious")
    new = run.parent / "new"
    new.mkdir()
    (new / "log.txt").symlink_to(mine)
    with pytest.raises(ConfigError, match=r"--run-dir .*new: log.txt in it is a link that leads"):
        make_run_folder(make_config("debug", {"run_dir": str(new)}))
    assert [each.name for each in new.iterdir()] == ["log.txt"]


def test_a_link_within_the_folder_is_fine_and_what_is_no_file_is_refused_on_resume(run):
    (run / "latest").symlink_to("log.txt")
    find_resumable_run(str(run))
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    assert_refused(invoke("train", "--resume-run", run), "neither a file nor a folder")


def test_a_checkpoint_that_is_a_link_is_not_cleared_away(run, others):
    (run / "checkpoints" / "1").symlink_to(checkpoint_of(others).absolute())
    before = content(others)
    config = make_config("debug", {"network": "cells", "width": 1})
    with CheckpointWriter(run / "checkpoints", keep=1, config=config) as checkpoints:
        checkpoints.save(3, policy=load(run).policy, training={"a": jnp.ones(3)}, counters={})
        assert [each.error for each in checkpoints.wait()] == [None]
    assert content(others) == before


@pytest.mark.parametrize("name", ["policy/link", "policy/_METADATA", "manifest.json", "loop"])
def test_a_link_in_a_checkpoint_is_refused(run, tmp_path, name):
    path = checkpoint_of(run) / name
    if path.exists():
        path.rename(tmp_path / "aside")
    path.symlink_to("." if name == "loop" else tmp_path / "aside")
    if not path.exists():
        (tmp_path / "aside").touch()
    with pytest.raises(ConfigError, match=f"{name} is a link; copy"):
        load(checkpoint_of(run))


def test_what_is_no_file_in_a_checkpoint_is_refused(run):
    os.mkfifo(checkpoint_of(run) / "policy" / "pipe")
    with pytest.raises(ConfigError, match="policy/pipe is not a file"):
        load(checkpoint_of(run))


READ = """
import sys
from click.testing import CliRunner
from hackmatrix_rl.cli import main
for command in sys.argv[1:]:
    result = CliRunner().invoke(main, command.split())
    print(result.exit_code, repr(result.stderr))
"""


def test_what_is_no_file_beside_the_checkpoints_is_not_waited_for(run):
    (run / "replays").mkdir()
    names = ("config", "run", "versions", "summary", "replays/1")
    for name in (*(f"{each}.json" for each in names), "metrics.jsonl", "log.txt"):
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)
    (run / "replays" / "2.json").symlink_to("/dev/zero")
    (run / "checkpoints").rename("elsewhere")
    commands = ("eval sent", "replay sent/replays/2.json", "report sent --output page.html")
    played, replayed, reported = python("-c", READ, *commands).splitlines()
    assert played.startswith("2 ")
    assert "no checkpoint there" in played
    assert "config.json: cannot be read (a pipe, a device or a socket, not a file)" in played
    assert replayed.startswith("2 ")
    assert "2.json: cannot be read (a pipe, a device or a socket" in replayed
    assert reported.startswith("0 ")
    assert Path("page.html").read_text().count("a pipe, a device or a socket") == 7


@pytest.mark.parametrize("sums", [{"../../log.txt": "0"}, {"/etc/passwd": "0"}, ["x"], "x", 7])
def test_a_manifest_names_nothing_outside_of_its_checkpoint(run, sums):
    (checkpoint_of(run) / "manifest.json").write_text(json.dumps({"sha256": sums}))
    wrong = damage_in(epath.Path(checkpoint_of(run)))
    assert wrong is not None
    assert "is missing" in wrong or "cannot be read" in wrong


@pytest.mark.parametrize("name", ["../../../far", "/far", "a/../../far"])
def test_the_name_of_an_array_leads_nowhere(run, name):
    file = checkpoint_of(run) / "policy" / "_METADATA"
    described = json.loads(file.read_text())
    entry = described["tree_metadata"].popitem()[1]
    entry["key_metadata"][0]["key"] = name
    described["tree_metadata"][f"('{name}',)"] = entry
    described["use_ocdbt"] = False  # each array in files of its own name
    file.write_text(json.dumps(described))
    seal(checkpoint_of(run))
    with pytest.raises(ConfigError, match="leads out of the checkpoint"):
        load(run)


class Payload:
    """Runs code where it is unpickled."""

    def __init__(self, sign):
        self.sign = sign

    def __reduce__(self):
        return os.mkdir, (str(self.sign),)


PLACES = (
    *("metadata.json", "manifest.json", "_CHECKPOINT_METADATA", "policy/_METADATA"),
    *("policy/_sharding", "policy/manifest.ocdbt", "policy/array_metadatas/*", "policy/d/*"),
    *("policy/ocdbt.process_0/*", "policy/ocdbt.process_0/d/*"),
)


LOAD = """
import contextlib, sys
from hackmatrix_rl.runs.checkpoints import load
from hackmatrix_rl.system.errors import ConfigError, in_shell
for checkpoint in sys.argv[1:]:
    with contextlib.suppress(ConfigError):  # not every file is read
        load(checkpoint)
"""


def test_a_pickle_in_place_of_a_file_is_not_unpickled(run, tmp_path):
    sign = tmp_path / "unpickled"
    spoiled = []
    for number, place in enumerate(PLACES):
        checkpoint = tmp_path / str(number)
        shutil.copytree(checkpoint_of(run), checkpoint)
        found = [path for path in checkpoint.glob(place) if path.is_file()]
        assert found
        for path in found:
            path.write_bytes(pickle.dumps(Payload(sign)))
        if place != "manifest.json":
            seal(checkpoint)
        spoiled.append(str(checkpoint))
    # In a process of its own: Orbax leaves threads behind where reading fails.
    python("-c", LOAD, *spoiled)
    assert not sign.exists()
    pickle.loads(pickle.dumps(Payload(sign)))
    assert sign.exists(), "it would have shown"
