"""Where compiled programs are kept, and which."""

import stat

import jax
import pytest

from hackmatrix_rl.system import enable_compilation_cache

SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
LIMIT = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """As in a process that nobody has told anything of a cache; gives the user's folder."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update(SETTINGS[0], None)
    jax.config.update(SETTINGS[1], 1.0)
    for name in ("JAX_COMPILATION_CACHE_DIR", LIMIT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)


def test_programs_are_kept_in_a_folder_that_nobody_else_may_write_small_ones_as_well(fresh):
    folder = enable_compilation_cache()
    assert folder.is_relative_to(fresh)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert jax.config.jax_compilation_cache_dir == str(folder)
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.1


def test_variables_of_the_users_own_count(fresh, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/elsewhere")
    monkeypatch.setenv(LIMIT, "1")
    assert str(enable_compilation_cache()) == "/elsewhere"
    assert jax.config.jax_compilation_cache_dir is None
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 1.0
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    assert enable_compilation_cache() is None
