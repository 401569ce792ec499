"""Real processes with the compiler options that users get.

The other tests compile with fewer optimizations, or in this process. A compiler that fails ends the
process, so each training is one of its own. Meshes and several processes: tests/pages.
"""

import pytest
from processes import python

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def output_of(folder, cache, *arguments):
    """What a command prints in a folder.

    What was compiled before is not compiled again: where the compiler fails, it leaves nothing.
    """
    given = {"XLA_FLAGS": "", "JAX_COMPILATION_CACHE_DIR": cache}
    return python("-m", "hackmatrix_rl", *arguments, cwd=folder, as_users=True, **given)


@pytest.mark.parametrize("games", [pytest.param(1, marks=pytest.mark.nightly), 8])
def test_few_games_on_one_device_train(games, tmp_path, cache):
    flags = ("--preset", "debug", "--num-envs", games, "--num-minibatches", 1)
    small = ("--num-steps", 4, "--total-timesteps", 8, "--eval-episodes", 0)
    assert "100%" in output_of(tmp_path, cache, "train", *flags, *small)


@pytest.mark.nightly
def test_q_learning_trains_on_a_cpu_of_two_devices(tmp_path, cache):
    flags = ("--preset", "max", "--total-timesteps", 4096, "--learning-starts", 1024)
    told = output_of(tmp_path, cache, "train", *flags, "--eval-episodes", 4)
    assert "a gradient step on 128 sequences of 10 actions" in told
    assert "trained to the end at 4,096 steps; saved" in told


@pytest.mark.nightly
@pytest.mark.parametrize("network", ["mlp", "graph"])
def test_self_play_trains_on_a_cpu_of_two_devices(network, tmp_path, cache):
    flags = ("--cpu-devices", 2, "--num-games", 100, "--num-simulations", 8, "--network", network)
    told = output_of(tmp_path, cache, "selfplay", *flags, "--league-size", 1, "--league-games", 2)
    assert "(2 x cpu)" in told
    assert "Against the perfect player: " in told
