"""Names that settings had, and names that others give them."""

import dataclasses

import pytest

from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.runs.config import (
    RENAMED,
    config_from_dict,
    make_config,
    options_of,
    read_settings,
    rename,
)
from hackmatrix_rl.runs.config._renamed import FOREIGN, settings_in
from hackmatrix_rl.system.errors import ConfigError

FIELDS = {each.name for each in options_of(PPOConfig)}
FOR_OLD = {
    "clip": 0.3,
    "discount": 0.9,
    "entropy_coefficient": 0.1,
    "keep_checkpoints": 5,
    "kl_limit": 0.02,
    "max_gradient_norm": 0.7,
    "num_epochs": 3,
    "trace_decay": 0.8,
    "value_coefficient": 0.4,
}


def test_old_and_foreign_names_lead_to_fields_and_are_none():
    assert set(RENAMED.values()) <= FIELDS
    assert not set(RENAMED) & FIELDS
    assert FOR_OLD.keys() == RENAMED.keys()
    for name, template in FOREIGN.items():
        assert name == name.lower()
        assert name not in FIELDS | set(RENAMED), name
        assert set(settings_in(template)) <= FIELDS, name
        assert template.endswith("."), name


@pytest.mark.parametrize("name", RENAMED)
def test_a_stored_config_is_read_under_old_names(name):
    config = make_config("debug", {})
    stored = config.as_dict()
    del stored[RENAMED[name]]
    found = config_from_dict({**stored, name: FOR_OLD[name]})
    assert found == dataclasses.replace(config, **{RENAMED[name]: FOR_OLD[name]})


@pytest.mark.parametrize("name", RENAMED)
def test_a_file_is_read_under_old_names_with_a_line_that_names_the_new(name, tmp_path):
    file = tmp_path / "old.toml"
    file.write_text(f"[learning]\n{name.replace('_', '-')} = {FOR_OLD[name]}\n")
    told = []
    assert read_settings(file, report=told.append) == {RENAMED[name]: FOR_OLD[name]}
    assert told == [
        f"--config {file}: {name} is now {RENAMED[name]}; the old name works until version 0.3."
    ]


def test_new_names_are_nothing_to_speak_of_and_an_old_one_is_at_least_a_warning(tmp_path):
    file, told = tmp_path / "some.toml", []
    file.write_text("gamma = 0.9")
    assert read_settings(file, report=told.append) == {"gamma": 0.9}
    assert told == []
    file.write_text('kl_limit = "none"')
    assert read_settings(file, report=told.append) == {"target_kl": None}
    (tmp_path / "old.toml").write_text("discount = 0.9")
    with pytest.warns(UserWarning, match="discount is now gamma"):
        read_settings(tmp_path / "old.toml")


def test_an_old_and_a_new_name_together_are_refused(tmp_path):
    said = "discount is the old name of gamma. Give only gamma."
    both = {"gamma": 0.9, "discount": 0.9}
    file = tmp_path / "both.toml"
    file.write_text("discount = 0.9\n[b]\ngamma = 0.9")
    for read, source in (
        (lambda: config_from_dict(both), ""),
        (lambda: config_from_dict(dict(reversed(both.items()))), ""),
        (lambda: rename(both, source="config.json"), "config.json: "),
        (lambda: read_settings(file), f"--config {file}: "),
    ):
        with pytest.raises(ConfigError) as error:
            read()
        assert str(error.value) == f"{source}{said}"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("lr", "unknown setting 'lr'. Use learning_rate."),
        ("LR", "unknown setting 'LR'. Use learning_rate."),
        ("n-steps", "unknown setting 'n-steps'. Use num_steps."),
        ("NUM_ENVS", "unknown setting 'NUM_ENVS'. Did you mean num_envs?"),
        ("cuda", "unknown setting 'cuda'. Use device = \"gpu\"."),
        ("batch_size", "Use minibatch_size for the actions of a minibatch; an update learns from "),
        ("discoun", "unknown setting 'discoun'. Did you mean gamma?"),
        ("colour", "unknown setting 'colour'."),
    ],
)
def test_a_key_of_another_library_is_answered_with_ours(key, said, tmp_path):
    file = tmp_path / "theirs.toml"
    file.write_text(f"{key} = 1")
    with pytest.raises(ConfigError) as error:
        read_settings(file)
    assert str(error.value).startswith(f"--config {file}: ")
    assert said in str(error.value)
