"""The package as a whole: what importing it costs, and what it offers."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
from processes import python

import hackmatrix_rl
from hackmatrix_rl._moved import MOVED

pytestmark = pytest.mark.processes

# What takes long to import, and what few need.
HEAVY = {"jax", "equinox", "optax", "orbax", "wandb", "matplotlib", "scipy", "tensorboardX"}
HEAVY |= {"rich", "click"}


def test_importing_the_package_imports_nothing_heavy():
    loaded = python("-c", "import hackmatrix_rl, sys; print(*sys.modules)").split()
    assert not HEAVY & set(loaded)


def test_help_and_version_wait_for_nothing_heavy():
    *told, loaded = python(
        "-c",
        "import contextlib, sys\n"
        "from hackmatrix_rl.cli._main import main\n"
        "for asked in ('--help', '--version'):\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        main([asked])\n"
        "print(*sys.modules)",
    ).splitlines()
    assert any("verify-resume" in line for line in told)
    assert "rules 1" in told[-1]
    assert HEAVY & set(loaded.split()) == {"click"}


def test_commands_that_play_nothing_wait_for_nothing_heavy():
    *told, loaded = python(
        "-c",
        "import contextlib, os, sys\n"
        "from hackmatrix_rl.cli._main import _COMMANDS, main\n"
        "sys.stderr = sys.stdout\n"
        "asked = [[name, '--help'] for name in _COMMANDS] + [['train', '--help-all']]\n"
        "asked += [['train', '--netwrok', 'x'], ['train', '--num-envs', 'minus'], ['evl']]\n"
        "for words in asked:\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        main(words)\n"
        "os.environ |= {'_HM_COMPLETE': 'bash_complete', 'COMP_CWORD': '2'}\n"
        "os.environ['COMP_WORDS'] = 'hm train --algo'\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main([], prog_name='hm')\n"
        "print(*sys.modules)",
    ).splitlines()
    said = "\n".join(told)
    assert said.count("Show this message and exit.") >= 18  # each help, whole
    for answer in ("Did you mean --network?", "minus: must be a whole number", "plain,--algorithm"):
        assert answer in said
    assert not HEAVY - {"click", "rich"} & set(loaded.split())


def test_using_the_modules_loads_neither_checkpoints_nor_loggers():
    loaded = python(
        "-c",
        "import hackmatrix_rl as hm, sys; hm.HackMatrix, hm.Trainer, hm.PPOLoss, hm.evaluate;"
        "print(*sys.modules)",
    ).split()
    assert "jax" in loaded
    assert not {"orbax", "wandb", "matplotlib", "rich", "tensorboardX"} & set(loaded)


def test_importing_every_public_name_starts_no_backend():
    backends = python(
        "-c",
        "import hackmatrix_rl as hm, jax\n"
        "for name in hm.__all__: getattr(hm, name)\n"
        "import hackmatrix_rl.cli._train, hackmatrix_rl.runs._run\n"
        "from hackmatrix_rl.system._compatibility import backend_started\n"
        "print(backend_started()); jax.devices(); print(backend_started())",
    )
    assert backends.split() == ["False", "True"]


def test_other_packages_are_used_by_their_public_names():
    folder = Path(hackmatrix_rl.__file__).parent
    private = re.compile(r"^ *(?:from|import) +(?!hackmatrix_rl)(?:\w+\.)+_[a-z].*", re.MULTILINE)
    found = {
        (str(path.relative_to(folder)), line)
        for path in folder.rglob("*.py")
        for line in private.findall(path.read_text())
    }
    # No public function says whether a device is started without starting one.
    assert found == {("system/_compatibility.py", "from jax._src import xla_bridge")}
    xla_bridge = import_module("jax._src.xla_bridge")
    assert callable(xla_bridge.backends_are_initialized)
    # Filtered by name (`_plugins.py`), and read by tests.
    assert xla_bridge.logger.name == "jax._src.xla_bridge"
    assert import_module("jax._src.dispatch").logger.name == "jax._src.dispatch"


def test_every_public_name_is_there_and_listed_once():
    assert sorted(hackmatrix_rl.__all__) == sorted(set(hackmatrix_rl.__all__))
    for name in hackmatrix_rl.__all__:
        assert getattr(hackmatrix_rl, name) is not None
        assert name in dir(hackmatrix_rl)


@pytest.mark.parametrize(("old", "new"), sorted(MOVED.items()))
def test_a_package_is_still_found_by_its_earlier_place(old, new):
    sys.modules.pop(f"hackmatrix_rl.{old}", None)
    with pytest.warns(
        DeprecationWarning, match=rf"hackmatrix_rl.{old} is now hackmatrix_rl.{new};"
    ):
        found = import_module(f"hackmatrix_rl.{old}")
    there = import_module(f"hackmatrix_rl.{new}")
    assert found.__all__ == there.__all__
    names = {*there.__all__} - {"HackEnv"}  # its module imports gymnasium
    assert all(getattr(found, name) is getattr(there, name) for name in names)


def test_what_moved_is_imported_in_every_way_and_what_never_was_is_missing():
    with pytest.warns(DeprecationWarning, match="interop.protocol"):
        client = import_module("hackmatrix_rl.protocol.client")
    assert client.App is hackmatrix_rl.interop.protocol.client.App
    warned = pytest.warns(DeprecationWarning, match="games.hackmatrix")
    with pytest.raises(ModuleNotFoundError), warned:
        import_module("hackmatrix_rl.game._nothing")
    with pytest.raises(ModuleNotFoundError):
        import_module("hackmatrix_rl.nothing")
