"""Runs that earlier versions wrote are played and gone on with, or refused by name."""

import json

import jax
import numpy as np
import pytest
from cli.commands import assert_refused, done, invoke

from hackmatrix_rl.env import game_identity
from hackmatrix_rl.evaluation import evaluate_all
from hackmatrix_rl.runs import compose, find_player, find_resumable_run
from hackmatrix_rl.runs._resume import restore_training
from hackmatrix_rl.runs.checkpoints import FORMAT, find_checkpoint, load, read_arrays, read_metadata
from hackmatrix_rl.system.errors import ConfigError

from .kept import DATA, FORMATS, NEWEST, UPDATES, checkpoint_of, content, forge, unpack

pytestmark = pytest.mark.processes


@pytest.fixture(params=FORMATS)
def run(request, tmp_path, monkeypatch):
    """A run as it was written."""
    monkeypatch.chdir(tmp_path)
    return unpack(request.param, tmp_path)


def test_the_newest_format_is_kept():
    # A new format is kept as the ones before it were: see tests/data/checkpoints/README.md.
    assert f"format-{FORMAT}" == NEWEST
    assert NEWEST in FORMATS
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 200_000


def test_its_values_have_units(run):
    scale = load(run).value_scale()
    folder = find_checkpoint(run)
    every = read_arrays(folder, "training")
    some = read_arrays(folder, "training", under=".learner.value_scale")
    assert 0 < len(some.arrays) < len(every.arrays)
    stored = every.under(".learner.value_scale").arrays
    assert set(stored) == {".mean", ".variance", ".weight"}
    for name, array in stored.items():
        np.testing.assert_array_equal(getattr(scale, name[1:]), array)
        np.testing.assert_array_equal(some.arrays[f".learner.value_scale{name}"], array)
    assert float(scale.weight) > 0


def test_the_newest_plays_and_its_player_tells_its_value_and_plays_the_same(tmp_path):
    run = unpack(NEWEST, tmp_path)
    player, environment = find_player(str(run))
    state, timestep = jax.jit(environment.reset)(jax.random.split(jax.random.key(0), 1))
    seen = jax.tree.map(lambda leaf: leaf[0], timestep.observation)
    _, _, thought = player.think(seen, state.mask[0], player.initial_carry(), key=jax.random.key(0))
    assert np.isfinite(float(thought.value))
    players = {"player": player, "policy": load(run).policy}
    found = evaluate_all(players, environment, episodes=8, key=jax.random.key(0))
    assert len(found["policy"].values["return"]) == 8
    assert np.isfinite(found["policy"].values["return"]).all()
    for name, values in found["player"].values.items():
        np.testing.assert_array_equal(values, found["policy"].values[name])


def test_units_that_cannot_be_read_are_told_and_the_player_plays(run, monkeypatch):
    def damaged(*_, **__):
        raise ConfigError("its training cannot be read")

    monkeypatch.setattr("hackmatrix_rl.runs.checkpoints._reader.read_arrays", damaged)
    monkeypatch.setattr(
        "hackmatrix_rl.runs.checkpoints._reader.restore", lambda folder, part, like, **_: like
    )
    told = []
    player, _ = find_player(str(run), report=told.append)
    assert player.value_scale is None
    assert told == ["its training cannot be read; it plays, but shows no value"]


def test_a_checkpoint_without_units_has_none(run, monkeypatch):
    monkeypatch.setattr("hackmatrix_rl.runs.checkpoints._reader.VALUE_SCALE", ".elsewhere")
    assert load(run).value_scale() is None
    assert find_player(str(run))[0].value_scale is None


def test_the_policies_of_both_formats_are_the_same(tmp_path):
    # They were trained alike; only what is said of them differs.
    first, *others = (jax.tree.leaves(load(unpack(name, tmp_path)).policy) for name in FORMATS)
    for other in others:
        for one, another in zip(first, other, strict=True):
            np.testing.assert_allclose(one, another, rtol=0, atol=1e-6)


def test_its_training_goes_on(run):
    result = done("train", "--resume-run", run, "--total-timesteps", 1024)
    # Both have the names of 0.1; what goes on has those of today.
    assert "read under the old names num_epochs (now update_epochs), " in " ".join(
        result.output.split()
    )
    assert json.loads((run / "config.json").read_text())["gamma"] == 0.99
    newest = find_checkpoint(run)
    metadata = read_metadata(newest)
    assert metadata["update"] == 2 * UPDATES
    assert metadata["format"] == FORMAT
    assert metadata["game"] == game_identity().as_dict()
    assert "discount" not in metadata["config"]
    assert "resumed at update 2, 512 steps" in (run / "log.txt").read_text()


def test_old_names_and_changes_under_new_ones_go_together(run):
    stopped = find_resumable_run(str(run))
    assert stopped.config({"gamma": 0.5}).gamma == 0.5
    forge(run, lambda metadata: metadata["config"].update(gamma=0.5))
    result = invoke("train", "--resume-run", run)
    assert_refused(
        result, str(checkpoint_of(run)), "discount is the old name of gamma.", "Give only gamma."
    )


@pytest.mark.parametrize(
    ("part", "there"), [("rules", "0"), ("observation", "compact-0"), ("actions", "27-0")]
)
def test_another_game_is_refused_by_name(here, part, there):
    run = unpack(NEWEST, here)

    def change(metadata):
        metadata["game"][part] = there
        metadata["versions"]["hackmatrix-rl"] = "0.0.7"

    forge(run, change)
    ours = game_identity().as_dict()[part]
    before = content(here)
    for command in (("eval", run), ("train", "--resume-run", run)):
        said = f"of another game: {part} '{there}', but this version has '{ours}'."
        assert_refused(invoke(*command), said, "hackmatrix-rl 0.0.7", "Use the version that wrote")
    assert content(here) == before


def test_it_says_what_it_is(run):
    metadata = read_metadata(find_checkpoint(run))
    assert f"format-{metadata['format']}" == run.name
    assert metadata["update"] == UPDATES
    assert metadata["run"]["run_id"] == run.name
    stopped = find_resumable_run(str(run))
    trainer = compose(stopped.config({}), key=jax.random.key(0))
    # Its games go on, too.
    assert restore_training(trainer, stopped.checkpoint, key=jax.random.key(1)) == ()
