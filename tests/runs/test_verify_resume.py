"""The proof itself: real processes, a real kill."""

import sys

import numpy as np
import pytest
from processes import CARTPOLE, TIMEOUT

from hackmatrix_rl.runs import ProofError, verify_resume
from hackmatrix_rl.runs._verify_resume import first_difference, toml_of
from hackmatrix_rl.runs.config import make_config, read_settings
from hackmatrix_rl.training import Stored

pytestmark = pytest.mark.processes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "leaves"), [("ppo", 30), pytest.param("reinforce", 20, marks=pytest.mark.nightly)]
)
def test_a_killed_run_that_is_resumed_ends_in_the_same_bits(
    tmp_path, monkeypatch, algorithm, leaves
):
    monkeypatch.setenv("HACKMATRIX_TEST_ALGORITHM", algorithm)
    told = []
    verdict = verify_resume(
        # What is typed here may be resumed there; CartPole's command builds another one.
        make_config("debug", {"updates_per_dispatch": 1, "network": "of_ones_own:network"}),
        updates=40,
        folder=tmp_path,
        report=told.append,
        train=CARTPOLE,
        timeout=TIMEOUT,
    )
    assert verdict.same, verdict.differences
    assert verdict.updates == 80
    assert verdict.leaves > leaves
    assert len(told) == 4
    assert "CPU" in verdict.device or "cpu" in verdict.device


@pytest.mark.parametrize("algorithm", ["ppo", "r2d2"])
def test_the_processes_train_by_the_same_settings(tmp_path, algorithm):
    config = make_config("debug", {"algorithm": algorithm})
    (tmp_path / "settings.toml").write_text(toml_of(config), encoding="utf-8")
    settings = read_settings(tmp_path / "settings.toml")
    assert make_config("debug", settings) == config


def test_a_process_that_fails_is_no_verdict(tmp_path):
    with pytest.raises(ProofError, match=r"straight ended with exit status 1; see .*straight\.txt"):
        verify_resume(
            make_config("debug", {}),
            updates=1,
            folder=tmp_path,
            report=lambda line: None,
            train=(sys.executable, "-c", "raise SystemExit(1)"),
        )


def stored(array, name=".a"):
    return Stored({name: np.asarray(array)}, {})


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ([1.0, 2.0], [1.0, 2.0], None),
        ([1.0, np.nan], [1.0, np.nan], None),
        ([1.0, 2.0], [1.0, 3.0], r".a[1]: 2.0 against 3.0"),
        ([0.0], [-0.0], r".a[0]: 0.0 against -0.0"),
        ([[1, 2], [3, 4]], [[1, 2], [9, 4]], r".a[1, 0]: 3 against 9"),
        (True, False, r".a[]: True against False"),
        ([1, 2], [1, 2, 3], r".a: int64[2] against int64[3]"),
    ],
)
def test_the_first_difference_is_named(one, other, words):
    assert first_difference(stored(one), stored(other)) == words


def test_a_missing_array_is_a_difference():
    assert first_difference(stored(1), stored(1, ".b")) == ".a is in one of them only"
