"""What was typed as a path: the home folder, another working directory, other kinds of names."""

from pathlib import Path

import jax
import pytest
from runs.on_cartpole import TOML

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.imitation import read_demonstrations
from hackmatrix_rl.games.clique import Colouring, read_colourings, write_colourings
from hackmatrix_rl.runs import report_of
from hackmatrix_rl.runs.checkpoints import find_checkpoint
from hackmatrix_rl.runs.config import read_settings
from hackmatrix_rl.system import typed_path
from hackmatrix_rl.view import draw, save_gif, save_png
from hackmatrix_rl.view.replays import Match, Replay

from .commands import done

SMALL = TOML.replace("512", "64") + 'eval_episodes = 0\nrun_dir = "~/runs/a"\n'


@pytest.fixture
def home(here, monkeypatch):
    """The home folder; the working directory is another one."""
    (here / "home").mkdir()
    (here / "work").mkdir()
    monkeypatch.setenv("HOME", str(here / "home"))
    monkeypatch.chdir(here / "work")
    return here / "home"


@pytest.mark.parametrize(
    ("typed", "lasting", "meant"),
    [
        ("~/a", False, "{home}/a"),
        ("~", False, "{home}"),
        ("a/~", False, "a/~"),
        ("a", False, "a"),
        ("a", True, "{work}/a"),
        ("gs://bucket/~", True, "gs://bucket/~"),
        ("wandb:me/project/run", False, "wandb:me/project/run"),
        ("pretrained", False, "pretrained"),
        ("~\0", False, "~\0"),
    ],
)
def test_what_is_meant_by_a_path(home, typed, lasting, meant):
    expected = meant.format(home=home, work=Path.cwd())
    assert typed_path(typed, lasting=lasting) == expected


def test_a_run_is_found_from_every_folder_with_its_relative_checkpoints(home, monkeypatch):
    """No shell replaces `~` in a file or after an equals sign."""
    (home / "c.toml").write_text(SMALL)
    done("train", "--config=~/c.toml", "--checkpoint-dir=cks")
    work = Path.cwd()
    assert (home / "runs" / "a" / "config.json").exists()
    assert [each.name for each in work.iterdir()] == ["cks"]
    monkeypatch.chdir(home)
    done("eval", "~/runs/a", "--episodes", 2, "--json")
    done("train", "--resume-run=~/runs/a", "--total-timesteps", 128)
    assert find_checkpoint("~/runs/a") == find_checkpoint(work / "cks")
    assert (work / "cks" / "2" / "manifest.json").exists()
    assert not [*work.rglob("~*"), *home.rglob("~*")]


def test_functions_in_python_take_the_home_folder(home):
    spec = hm.CartPole().spec
    policy = hm.MLPActorCritic(spec, width=4, depth=1, key=jax.random.key(0))
    hm.save(policy, "~/policy")
    assert isinstance(hm.load("~/policy", like=policy), hm.MLPActorCritic)
    match = Match.start(0)
    Replay.from_match(match, player="nobody").save("~/game.json")
    assert Replay.load("~/game.json").seed == Replay.from_match(match, player="nobody").seed
    drawing = draw(match.now.frame)
    save_png(drawing, "~/game.png")
    save_gif([drawing], "~/game.gif")
    pentagon = Colouring(5, 3, (0, 3, 4, 7, 9))
    write_colourings("~/colourings.json", [pentagon])
    assert read_colourings("~/colourings.json") == (pentagon,)
    (home / "s.toml").write_text("num_envs = 8\n")
    assert read_settings("~/s.toml") == {"num_envs": 8}
    with pytest.raises(hm.ConfigError, match=f"{home}/none"):
        read_demonstrations("~/none", hm.HackMatrix())
    with pytest.raises(hm.ConfigError, match=f"{home}/none.npz"):
        hm.load_npz("~/none.npz")
    with pytest.raises(hm.ConfigError, match="holds no run"):
        report_of("~/none")
    assert not list(Path.cwd().iterdir())
