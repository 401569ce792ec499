"""The networks that a run of self-play keeps, and their league."""

import jax
import numpy as np
import pytest

from hackmatrix_rl.agent.networks import MLPActorCritic
from hackmatrix_rl.algorithms.self_play import SelfPlayConfig
from hackmatrix_rl.algorithms.self_play._command import play_league, play_perfect
from hackmatrix_rl.algorithms.self_play._league import LeagueFolder
from hackmatrix_rl.env import Batched, CliqueGame
from hackmatrix_rl.runs import make_run_folder
from hackmatrix_rl.system.errors import ConfigError

pytestmark = pytest.mark.search


def config_of(tmp_path, **changes):
    given = {"vertices": 4, "num_simulations": 2, "width": 8, "league_games": 2, **changes}
    return SelfPlayConfig(run_dir=str(tmp_path / "run"), num_games=100, **given)


def league_of(config, folder):
    return LeagueFolder.from_run(folder.path, size=config.league_size, goal=config.num_games)


def network(config, seed=0):
    game = CliqueGame(config.game())
    return MLPActorCritic(Batched(game).spec, width=8, key=jax.random.key(seed))


def test_marks_lie_evenly_over_the_games(tmp_path):
    config = config_of(tmp_path, league_size=3)
    league = league_of(config, make_run_folder(config))
    assert league.marks == (33, 66, 100)
    assert [league.next_mark(games) for games in (0, 33, 34, 99, 100)] == [33, 66, 66, 100, None]
    passed = {(10, 40): [33], (7, 40): [], (8, 40): [33], (100, 100): [33, 66, 100]}
    assert {each: league.passed(*each) for each in passed} == passed
    none = config_of(tmp_path / "other", league_size=0)
    assert league_of(none, make_run_folder(none)).marks == ()


def test_a_longer_run_takes_some_of_all_networks_evenly(tmp_path):
    config = config_of(tmp_path, league_size=2)
    league = league_of(config, make_run_folder(config))
    for mark in (0, 10, 20, 30, 40, 50, 60):
        league.write(mark, network(config, seed=mark))
    found = league.read(network(config))
    assert list(found) == ["0 games", "30 games", "60 games"]
    np.testing.assert_array_equal(
        jax.tree.leaves(found["30 games"])[0], jax.tree.leaves(network(config, seed=30))[0]
    )


def test_a_damaged_network_is_named(tmp_path):
    config = config_of(tmp_path)
    folder = make_run_folder(config)
    league = league_of(config, folder)
    league.write(0, network(config))
    file = next(league.path.iterdir())
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ConfigError, match=r"000000000000\.policy"):
        play_league(config, folder, network(config))


def test_the_perfect_player_is_met_on_small_boards_alone(tmp_path):
    large = config_of(tmp_path, vertices=7)
    assert play_perfect(large, network(large)) is None
