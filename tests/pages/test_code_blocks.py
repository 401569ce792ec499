"""Every command and every piece of code in README and docs/ runs as it is printed.

As users run it: by the installed command, with their compiler options, in a process of its own.
Only the variable HACKMATRIX_RL_FLAGS makes it small, so that nothing that is printed is edited.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from made_once import made_once

from hackmatrix_rl.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = "RUN"  # the run folder, as the pages name it

SMALL = (
    "--device=cpu --num-envs=64 --num-steps=4 --num-minibatches=2 --update-epochs=1 --width=8 "
    "--updates-per-dispatch=2 --total-timesteps=1024 --history=4 --eval-episodes=4 --episodes=8 "
    "--repeats=1 --updates=2"
)
SELF_PLAY = (
    "--device=cpu --vertices=4 --k=3 --num-games=40 --num-simulations=2 --game-batch-size=8 "
    "--moves-per-update=4 --training-batch-size=16 --train-steps=2 --buffer-size=640 --opening=1 "
    "--width=8 --league-games=2 --league-size=1"
)
REPLAY = (
    "--device=cpu --num-envs=8 --width=8 --total-timesteps=512 --history=4 --eval-episodes=4 "
    "--updates-per-dispatch=2 --learning-starts=64 --buffer-size=2048"
)
BY_REWARDS = "--algorithm=ppo"
"""On a CPU, `train` imitates by default, which takes far longer to compile."""
IMITATES = ("imitate", "pip install . ")
"""Blocks that run as they are: what imitates, and the first command of all."""
SETTINGS = """
device = "cpu"
num_envs = 64
num_steps = 4
num_minibatches = 2
width = 8
total_timesteps = 1024
"""
SPACE = """
algorithm = "ppo"
[space]
learning_rate = {low = 1e-5, high = 1e-2, log = true}
"""
# `compare` answers with its exit status, too.
VERDICTS = (0, 10, 11)

# What cannot run here, by a word in it: its commands are read by the command line instead.
ELSEWHERE = {
    "gcloud ": "needs Google Cloud",
    "--target ": "needs the TPU's compiler, which tests/accelerators has",
    "nox -s": "is what runs this test",
    "docker ": "needs Docker",
    "uvx ": "is what tests/package runs",
    "hackmatrix-rl play": "waits for a person",
    "hackmatrix-rl ui": "waits for a person",
    "PACKAGE=": "needs Google Cloud",
    "--tracker wandb --wandb-project": "needs an account of Weights & Biases",
    "trackio show": "serves until it is stopped",
    "hf://": "needs the hub, which tests/cli/test_push.py has",
    "wandb:ENTITY": "needs an account of Weights & Biases",
    "wandb sync": "needs an account of Weights & Biases",
    "python benchmarks/": "takes minutes, and is no part of the package",
    "python examples/": "is what tests/examples runs",
}
EXTRAS = {
    **{name: name for name in ("gymnasium", "gymnax", "neurogym", "sb3_contrib")},
    "hm.target": "libtpu",
}
"""What a block of Python with a word may need; only some sessions have it."""


class Block(NamedTuple):
    """Code between fences."""

    page: str
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def elsewhere(self) -> str | None:
        """Why it cannot run here."""
        return next((why for word, why in ELSEWHERE.items() if word in self.code), None)

    def commands(self) -> list[str]:
        """The lines of the shell, with what was continued in one."""
        joined = self.code.replace("\\\n", " ")
        lines = [re.sub(r"(^|\s+)#.*", "", line).strip() for line in joined.splitlines()]
        return [line for line in lines if line]


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page.name, text[: found.start()].count("\n") + 1, found[1], found[2])
        for found in re.finditer(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    ]


def is_whole_program(block: Block) -> bool:
    """Whether a block is neither a part of a script in examples/ nor a module of a package.

    tests/examples runs both of these.
    """
    parts_of = (script for script in SCRIPTS if block.code in script)
    return next(parts_of, None) is None and "\nfrom ._" not in block.code


TRAINS = re.compile(r"hackmatrix-rl (train|imitate|selfplay) ")
CLAIM = re.compile(r"(hackmatrix-rl .*?)\s+# reaches (\w+) ([\d.]+)")
"""A command with the result that its page promises: `# reaches return 475`."""
# Trainings without such a promise, by a word in them: they run at a small size alone.
UNCLAIMED = {
    **dict.fromkeys(("--dry-run", "--show-game", "--target list"), "does not train"),
    **dict.fromkeys(("--resume-run", "--init"), "goes on from what other commands make"),
    **dict.fromkeys(
        ("--config", "--recipe mine.toml", "my_module:"), "takes a file of the reader's"
    ),
    **dict.fromkeys(("--recipe pretrained", "--vertices 14"), "takes hours"),
    "--coordinator": "is for several machines",
    "docker run": "is README's first command, in an image",
    **dict.fromkeys(
        ("--env gymnax:", "--env brax:", "--env pgx:", "--env gymnasium:"), "needs an extra"
    ),
    **dict.fromkeys(
        (
            *("--precision", "--network", "--observation", "--league", "--preset", "--teacher"),
            *("--total-timesteps", "--vary", "--mesh", "--sequence-length", "--size"),
            *("--objective", "--run-dir"),
        ),
        "shows a setting",
    ),
}

SCRIPTS = [script.read_text(encoding="utf-8") for script in EXAMPLES.glob("*.py")]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SHELL = [block for block in BLOCKS if block.language == "bash"]
PYTHON = [block for block in BLOCKS if block.language == "python" and is_whole_program(block)]


CLAIMS = [found.groups() for block in SHELL for found in CLAIM.finditer(block.code)]


@pytest.fixture(scope="session")
def environment(cache, tmp_path_factory):
    """A user's own, with a cache folder and a `pip` that has nothing to do."""
    folder = tmp_path_factory.mktemp("user")
    pip = folder / "pip"
    pip.write_text('#!/bin/sh\n[ "$1" = install ]\n')
    pip.chmod(0o755)
    own = ("JAX_", "XLA_", "HACKMATRIX_", "PYTHONPATH")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return variables | {
        "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": f"{cache}/user",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "HACKMATRIX_RL_FLAGS": f"{SMALL} {BY_REWARDS}",
        "MPLBACKEND": "agg",
    }


@pytest.fixture(scope="session")
def folder(environment, tmp_path_factory):
    """Where a user stands: with settings files, and with the run that the pages speak of."""
    folder = tmp_path_factory.mktemp("here")
    for name, more in (("A", ""), ("B", "seed = 1\n"), ("my", "")):
        (folder / f"{name}.toml").write_text(SETTINGS + more)
    (folder / "space.toml").write_text(SETTINGS + SPACE)
    (folder / "my_module.py").write_text("from own_environment import Gridworld as MyGame\n")
    shutil.copy(EXAMPLES / "own_environment.py", folder)
    train = f"hackmatrix-rl train --run-dir {RUN}"
    made = made_once(tmp_path_factory, "pages", lambda place: shell(train, environment, place))
    shutil.copytree(made / RUN, folder / RUN)
    return folder


def shell(command, environment, folder, allowed=(0,), *, timeout=900):
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode in allowed, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_pages_have_code():
    (own,) = (page for page in PAGES if page.name == "own_algorithm.md")
    assert not any(map(is_whole_program, blocks_of(own)[1:6]))
    assert len(SHELL) > 10
    assert len(PYTHON) >= 3
    assert {block.language for block in BLOCKS} <= {
        "bash",
        "json",
        "mermaid",
        "python",
        "text",
        "toml",
        "yaml",
        "",
    }


def flags_for(block):
    """What makes the commands of a block small."""
    usual = f"{SMALL} {BY_REWARDS}"
    if any(word in block.code for word in IMITATES):
        usual = SMALL
    if "pip install . " in block.code:  # the default's teacher compiles for a minute of a free core
        usual += " --teacher=expert"
    if "hackmatrix-rl selfplay" in block.code:
        usual = SELF_PLAY
    if "--algorithm r2d2" in block.code:
        usual = REPLAY
    if "--env " in block.code:
        usual = usual.replace("--history=4 ", "")
    if "--init " in block.code:  # the width comes along with the weights
        usual = f"{SMALL} {BY_REWARDS}".replace("--width=8 ", "")
    if "hackmatrix-rl sweep" in block.code:
        usual += " --trials=1"
    if "--full" in block.code:
        usual = f"{SMALL} --sizes=16,64"
    if " compare " in block.code:
        usual = f"{usual} --seeds=1"
    if all(" compare " in command for command in block.commands()):
        # It has no flags for sizes; its default preset plays a thousand games at once.
        usual = f"{SMALL} --seeds=1 --preset=debug"
    return usual


@pytest.mark.parametrize("block", [each for each in SHELL if not each.elsewhere], ids=str)
def test_commands_run_as_printed(block, environment, folder):
    environment = environment | {"HACKMATRIX_RL_FLAGS": flags_for(block)}
    if "--coordinator" in block.code:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            own = f"--coordinator=127.0.0.1:{listener.getsockname()[1]}"
        own += f" --run-dir={folder / 'together'}"
        flags = f"{environment['HACKMATRIX_RL_FLAGS']} {own}"
        together = "{} & {} && wait $!".format(*block.commands())
        shell(together, environment | {"HACKMATRIX_RL_FLAGS": flags, "XLA_FLAGS": ""}, folder)
        return
    if any(word in block.code for word in ("until ", "while ", "for ", "case ")):
        shell(block.code, environment, folder)
        return
    for command in block.commands():
        package = re.search(r"--env (gymnax|brax|pgx|gymnasium|neurogym):", command)
        if package and find_spec(package[1]) is None:
            read(command)  # the session `adapters` has it
        else:
            shell(command, environment, folder, VERDICTS if " compare " in command else (0,))


@pytest.mark.parametrize("block", [each for each in SHELL if each.elsewhere], ids=str)
def test_commands_for_other_machines_are_known_to_the_command_line(block):
    for line in block.commands():
        read(line)


def read(line):
    """Reads the commands of a line as the command line does, and runs none."""
    context = click.Context(main, **main.context_settings)
    for words in re.findall(r"hackmatrix-rl ([a-z][^&|\"]*)", line):
        name, *arguments = shlex.split(words)
        command = main.get_command(context, name)
        assert command is not None
        command.make_context(name, arguments, parent=context)


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_runs_as_printed(block, environment, tmp_path):
    needed = [module for word, module in EXTRAS.items() if word in block.code]
    if missing := [module for module in needed if find_spec(module) is None]:
        pytest.skip(f"{', '.join(missing)} is not here: nox -s adapters sb3 neurogym accelerators")
    script = tmp_path / "block.py"
    script.write_text(block.code, encoding="utf-8")
    variables = {"XLA_FLAGS": "", "PYTHONPATH": str(EXAMPLES)}  # for what is the user's own there
    shell(f"{shlex.quote(sys.executable)} block.py", environment | variables, tmp_path)


def test_the_demonstrations_of_the_page_are_learned_from_as_it_says(environment, tmp_path):
    page = [block for block in BLOCKS if block.page == "demonstrations.md"]
    command, code = (next(b for b in page if b.language == name) for name in ("bash", "python"))
    shell(command.code, environment | {"HACKMATRIX_RL_FLAGS": f"{SMALL} --games=20"}, tmp_path)
    script = tmp_path / "block.py"
    script.write_text(f'{code.code}\nlearn_from("demos", batch_size=16)\n', encoding="utf-8")
    told = shell(f"{shlex.quote(sys.executable)} block.py", environment, tmp_path)
    assert "batch 0: cross-entropy" in told


def test_each_training_of_the_pages_promises_a_result_or_is_known_to_promise_none():
    claimed = {command for command, _, _ in CLAIMS}
    trainings = [
        command for block in SHELL for command in block.commands() if TRAINS.search(f"{command} ")
    ]
    whole = (
        "hackmatrix-rl train",
        "pip install . && hackmatrix-rl train",
        "hackmatrix-rl selfplay",
    )
    assert claimed <= {*trainings}
    assert [
        command
        for command in trainings
        if command not in claimed
        and command not in whole  # README has their results in its table
        and not any(word in command for word in UNCLAIMED)
    ] == []


@pytest.mark.nightly
@pytest.mark.parametrize(("command", "metric", "least"), CLAIMS)
def test_a_training_of_the_pages_reaches_what_its_page_says(
    command, metric, least, environment, tmp_path
):
    as_users = environment | {
        "HACKMATRIX_RL_FLAGS": "--run-dir=run",
        "XLA_FLAGS": "",
        "PYTHONPATH": str(EXAMPLES),
    }
    shell(command, as_users, tmp_path, timeout=3600)
    found = json.loads((tmp_path / "run" / "summary.json").read_text())["trained"][metric]
    assert (found["mean"] if isinstance(found, dict) else found) >= float(least)
