"""The package as a whole: what importing it costs, and what it offers."""

import subprocess
import sys

import hackmatrix_rl


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_importing_the_package_imports_nothing_heavy():
    loaded = _python("import hackmatrix_rl, sys; print(*sys.modules)").split()
    heavy = {"orbax", "orbax.checkpoint", "wandb", "matplotlib", "jax", "click", "rich"}
    assert not heavy & set(loaded)


def test_using_the_modules_loads_neither_checkpoints_nor_loggers():
    loaded = _python(
        "import hackmatrix_rl as hm, sys; hm.HackMatrix, hm.Trainer, hm.PPOLoss, hm.evaluate;"
        "print(*sys.modules)"
    ).split()
    assert not {"orbax.checkpoint", "wandb", "matplotlib"} & set(loaded)


def test_importing_every_public_name_starts_no_backend():
    backends = _python(
        "import hackmatrix_rl as hm, jax\n"
        "for name in hm.__all__: getattr(hm, name)\n"
        "import hackmatrix_rl.cli.main, hackmatrix_rl.training.run\n"
        "from jax._src import xla_bridge\n"
        "print(len(xla_bridge._backends))"
    )
    assert backends.strip() == "0"


def test_every_public_name_is_there_and_listed_once():
    assert sorted(hackmatrix_rl.__all__) == sorted(set(hackmatrix_rl.__all__))
    assert set(hackmatrix_rl.__all__) == set(hackmatrix_rl._HOME)
    for name in hackmatrix_rl.__all__:
        assert getattr(hackmatrix_rl, name) is not None
        assert name in dir(hackmatrix_rl)
