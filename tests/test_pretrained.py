"""The agents that come with the package: they are there, they play, and they win as they did."""

import dataclasses
import itertools
import json
import math
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cli.commands import assert_refused, invoke
from etils import epath
from orbax.checkpoint import v1 as ocp
from training.states import assert_same

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.evaluation import evaluate
from hackmatrix_rl.games.hackmatrix import LEAGUES
from hackmatrix_rl.runs import config_here, find_player
from hackmatrix_rl.runs.checkpoints import (
    find_checkpoint,
    initial_settings,
    initial_weights,
    trim_checkpoint,
)
from hackmatrix_rl.runs.config import make_stages, read_settings, recipe_file
from hackmatrix_rl.system.errors import ConfigError

pytestmark = pytest.mark.view

GAMES = 250
FOLDER = Path(hm.__file__).parent / "pretrained"
SHIPPED = sorted(f"{each.parent.name}/{each.name}" for each in FOLDER.glob("*/*"))
"""Version and league of each agent."""
TOLERANCE = 4
"""Standard errors by which a mean over GAMES may miss the one of the card."""
NOT_TOLD = (
    "run_dir",
    "checkpoint_dir",
    "init",
    "eval_episodes",
    "save_interval_minutes",
    "replays",
)
"""Settings that a card leaves out: places, and how a training was watched."""


def card_of(agent):
    """The card of a shipped agent."""
    return json.loads((FOLDER / agent / "card.json").read_text())


CURRENT = {
    league: max(
        (each for each in SHIPPED if each.endswith(f"/{league}")),
        key=lambda e: int(e.partition("/")[0]),
    )
    for league in LEAGUES
}
"""The newest agent of each league."""


def test_the_newest_agent_of_a_league_needs_no_version():
    for league, agent in CURRENT.items():
        assert find_checkpoint(f"pretrained/{league}") == find_checkpoint(f"pretrained@{agent}")


@pytest.mark.nightly
@pytest.mark.parametrize("agent", SHIPPED)
def test_it_plays_as_it_did(agent):
    player, environment = find_player(f"pretrained@{agent}")
    card = card_of(agent)
    assert card["league"] == environment.config.league == agent.partition("/")[2]
    # Earlier cards have the figure of the likeliest action alone, without `undo_memory`.
    remembers = int(agent.partition("/")[0]) > 2
    alone = dataclasses.replace(player, greedy=True)
    player = player.likeliest(environment) if remembers else alone
    found = evaluate(player, environment, episodes=GAMES, key=jax.random.key(5))
    games, greedy = card["evaluation"]["games"], card["evaluation"]["greedy"]
    for name in ("won", "return", "score"):
        told, low, high = greedy[name]
        error = (high - low) / 2 / 1.96 * math.sqrt(games / GAMES)
        assert found.estimate(name).mean == pytest.approx(told, abs=TOLERANCE * error), name


@pytest.mark.parametrize("agent", SHIPPED)
def test_its_card_tells_how_it_was_trained_and_what_it_reaches(agent):
    card = card_of(agent)
    assert card.keys() == {
        *("league", "observation", "network", "versions", "recipe", "stages", "notes"),
        *("evaluation", "failings"),
    }
    metadata = json.loads((FOLDER / agent / "metadata.json").read_text())
    assert card["versions"] == metadata["versions"]
    stored = {name: value for name, value in metadata["config"].items() if name not in NOT_TOLD}
    for stage in card["stages"]:
        assert stage.keys() == {
            *("command", "config", "reward_weights", "starts_from", "steps", "hours", "hardware"),
            *("device", "seed"),
        }
        weights = dataclasses.asdict(PPOConfig(reward=stage["config"]["reward"]).reward_config)
        assert stage["reward_weights"] == weights
        assert stage["seed"] == stage["config"]["seed"]
        assert stage["hours"] > 0 < stage["steps"]
        assert all(stage[name] for name in ("command", "starts_from", "hardware", "device"))
    last = card["stages"][-1]
    assert {name: last["config"][name] for name in stored} == stored
    begun = last["config"].get("begun_at", 0)
    assert begun + last["steps"] == metadata["counters"]["env_steps"]
    evaluation = card["evaluation"]
    for way in ("greedy", "sampled"):
        assert evaluation[way].keys() >= {"won", "return", "stage", "undos"}
    assert card["failings"]
    if agent in CURRENT.values():
        others = evaluation["other_ways"]
        assert {"pretrained --search 32", "without UNDO"} <= others.keys()
        for told in others.values():
            assert told["games"] >= 256
            assert told["score"] > 0
            for mean, low, high in (told["return"], told["won"]):
                assert low < mean < high
        assert any("ithout UNDO" in each for each in card["failings"])


@pytest.mark.parametrize("agent", SHIPPED)
def test_the_commands_of_its_card_are_those_of_its_settings(agent):
    card = card_of(agent)
    for stage in card["stages"]:
        _, command, *words = stage["command"].split()
        config = stage["config"]
        if words == ["--recipe", card["recipe"]]:  # the next test compares it
            continue
        assert (command == "imitate") == (config["algorithm"] == "imitation")
        compared = 0
        for word, value in itertools.pairwise([*words, "--"]):
            name = word.removeprefix("--").replace("-", "_")
            if not word.startswith("--") or name not in config:
                continue
            if value.startswith("--"):
                assert config[name] is True, word
            elif isinstance(config[name], int | float):
                assert float(value) == config[name], word
            elif not set(":=") & set(value):  # schedules and weights may be written in other ways
                assert value == config[name], word
            compared += 1
        assert compared > 6


@pytest.mark.parametrize("agent", SHIPPED)
def test_the_recipe_of_its_card_repeats_its_stages(agent):
    card = card_of(agent)
    settings = read_settings(recipe_file(card["recipe"]))
    settings.pop("preset", None)
    recipe = make_stages("cpu", settings, settings.pop("stages"), {}).stages
    assert len(recipe) == len(card["stages"])
    for stage, told in zip(recipe, card["stages"], strict=True):
        assert stage.steps_taken == told["steps"]
        compared = 0
        for name, value in told["config"].items():
            again = getattr(stage, name, None)
            # A stage that was left early has its schedules end where they stood.
            if again is not None and not isinstance(again, str) and name not in EARLY:
                assert again == value, name
                compared += 1
        assert compared > 30


EARLY = ("begun_at", "total_timesteps", "learning_rate", "gamma", "ent_coef", "teacher_kl")


def test_it_is_loaded_by_name():
    first = hm.load("pretrained")
    assert first.config.league == "original"
    assert hm.load("pretrained/no-rewind").config.league == "no-rewind"
    assert first.value_scale() is not None
    assert find_checkpoint("pretrained/original") == find_checkpoint("pretrained")
    assert find_checkpoint("pretrained@1") == find_checkpoint("pretrained@1/original")
    assert find_player("pretrained@1", league="no-rewind")[1].config.league == "no-rewind"
    seen = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), first.environment.spec.observation
    )
    logits, _, _ = first.policy(seen, first.policy.initial_carry())
    assert np.isfinite(np.asarray(logits)).all()


def test_a_loaded_agent_has_its_card_and_the_last_discount_of_its_training(tmp_path):
    loaded = hm.load("pretrained/no-rewind")
    assert loaded.card == card_of(CURRENT["no-rewind"])
    assert dataclasses.replace(loaded, folder=epath.Path(tmp_path)).card is None
    player, _ = find_player("pretrained")
    assert hm.load("pretrained").config.gamma == player.gamma
    gamma = hm.load("pretrained@1").config.gamma
    assert float(gamma.rpartition(":")[2]) == find_player("pretrained@1")[0].gamma


def test_a_league_that_there_is_not_is_no_agent():
    for name in ("pretrained/modern", "pretrained@0", "pretrained@1/modern", "pretrained@x"):
        with pytest.raises(ConfigError, match=f"{name}.*: no checkpoint there"):
            hm.load(name)
    assert_refused(
        invoke("eval", "pretrained/original", "--league", "no-rewind"),
        "pretrained/original was trained in the league original",
    )


def test_a_training_from_it_has_its_network():
    refused = invoke(
        "train", "--algorithm", "ppo", "--init", "pretrained", "--network", "conv", "--dry-run"
    )
    assert_refused(refused, "trained with --network cells, but this training has --network conv")
    alike = initial_settings("pretrained", "no-rewind")
    assert (alike["observation"], alike["width"]) == ("tactical", 192)
    config = config_here("debug", {"init": "pretrained", "aux_coefficient": 0.1})
    assert (config.observation, config.width, config.algorithm) == ("tactical", 192, "ppo")


@pytest.mark.parametrize(
    "given", [{}, {"aux_coefficient": 0.1}, {"aux_coefficient": 0.1, "aux_victory": True}]
)
def test_a_training_starts_from_it_with_any_auxiliary_head(given):
    config = config_here("debug", {"init": "pretrained", "algorithm": "ppo", **given})
    there = hm.load("pretrained").policy
    policy, _ = initial_weights(config, config.policy(key=jax.random.key(1)))
    headless = getattr(policy, "headless", policy)
    assert_same(headless, there.headless)
    same_head = given.get("aux_victory", False)
    if same_head:
        np.testing.assert_array_equal(policy.auxiliary.won.weight, there.auxiliary.won.weight)


def test_the_files_are_small_and_name_no_place():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 5e6
    for path in files:
        # Neither the folders nor the machine of the training.
        assert not re.search(rb"/(work|home|root|tmp|Users)/", path.read_bytes())


def test_rounded_weights_take_half_the_space(tmp_path):
    original = find_checkpoint("pretrained@2")
    full, half = (
        trim_checkpoint(original, tmp_path / str(rounded), rounded=rounded)
        for rounded in (False, True)
    )
    assert half < 0.6 * full
    there = jax.tree.leaves(eqx.filter(hm.load(original).policy, eqx.is_inexact_array))
    here = jax.tree.leaves(eqx.filter(hm.load(tmp_path / "True").policy, eqx.is_inexact_array))
    for was, weight in zip(there, here, strict=True):
        assert weight.dtype == was.dtype
        np.testing.assert_allclose(weight, was, rtol=2.0**-8)


def names_as_in_a_bucket(folder):
    """The names that Orbax itself reads by the rules of buckets, where no folder is renamed."""
    context = ocp.Context()
    if not hasattr(context, "atomicity"):
        pytest.skip("before 0.12.3, Orbax applies these rules to paths of buckets alone")
    context.atomicity.mode = type(context.atomicity.mode).COMMIT_FILE
    with context:
        return [*ocp.metadata(folder, checkpointable_name="policy").metadata]


@pytest.mark.parametrize("agent", SHIPPED)
def test_orbax_takes_it_for_complete_in_a_bucket(agent):
    assert ".heads.policy.weight" in names_as_in_a_bucket(FOLDER / agent)


def test_a_trimmed_checkpoint_has_the_same_policy(tmp_path):
    copied = tmp_path / "copy"
    trim_checkpoint(find_checkpoint("pretrained"), copied)
    assert ".heads.policy.weight" in names_as_in_a_bucket(copied)
    assert_same(hm.load(copied).policy, hm.load("pretrained").policy)
    with pytest.raises(FileExistsError):
        trim_checkpoint(find_checkpoint("pretrained"), copied)
