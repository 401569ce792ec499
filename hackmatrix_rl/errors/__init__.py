"""Errors for users, and checks of the values that users pass in."""

from hackmatrix_rl.errors._errors import (
    AgreedError,
    ConfigError,
    DamagedFileError,
    NoCheckpointError,
    as_given,
    flag,
    printable,
    shortened,
)
from hackmatrix_rl.errors._values import (
    check_actions,
    check_array,
    check_key,
    difference,
    instance,
    is_key,
    number,
    same_structure,
    truth,
    whole,
)
from hackmatrix_rl.errors._wording import (
    described,
    first_line,
    is_ours,
    path_in_words,
    place,
    summary,
)

__all__ = [
    "AgreedError",
    "ConfigError",
    "DamagedFileError",
    "NoCheckpointError",
    "as_given",
    "check_actions",
    "check_array",
    "check_key",
    "described",
    "difference",
    "first_line",
    "flag",
    "instance",
    "is_key",
    "is_ours",
    "number",
    "path_in_words",
    "place",
    "printable",
    "same_structure",
    "shortened",
    "summary",
    "truth",
    "whole",
]
