"""Moving code changes no bit of a training."""

import pytest

from .fingerprints import TRAININGS, check, fingerprint

# Daily, one device; two devices, which compute the same but for rounding, at night.
CASES = [
    pytest.param(name, marks=pytest.mark.nightly if "two devices" in name else ())
    for name in TRAININGS
]


@pytest.mark.parametrize("name", CASES)
def test_a_training_ends_as_it_did(name, request):
    check(name, fingerprint(name), write=request.config.getoption("--write-fingerprints"))
