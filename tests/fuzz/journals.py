"""Forged journals of a sweep: a page, or one line that names the folder and what is wrong."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.commands import assert_answered, room, run_here
from fuzz.worker import Fuzzer

DATE = "2030-01-31T12:00:00.000000+00:00"
WORKER = {"worker_id": "a-1"}
RATE_ENDS: dict[str, Any] = {"step": None, "low": 1e-4, "high": 0.1, "log": True}
RATE = {"name": "FloatDistribution", "attributes": RATE_ENDS}
WIDTH = {"name": "CategoricalDistribution", "attributes": {"choices": [8, 16]}}


def parameter(trial: int, name: str, value: float, space: object) -> dict[str, Any]:
    told = {"trial_id": trial, "param_name": name, "param_value_internal": value}
    return {"op_code": 5, **WORKER, **told, "distribution": json.dumps(space)}


@cache
def good() -> list[dict[str, Any]]:
    """What Optuna writes of five trials."""
    identity = {"metric": "return, to be large", "learning_rate": "0.0001 to 0.1, log"}
    records: list[dict[str, Any]] = [
        {"op_code": 0, **WORKER, "study_name": "sweep", "directions": [2]},
        {"op_code": 2, **WORKER, "study_id": 0, "user_attr": {"hackmatrix_rl": identity}},
    ]
    for trial in range(5):
        end = {"trial_id": trial, "state": 1, "values": [float(trial)], "datetime_complete": DATE}
        records += [
            {"op_code": 4, **WORKER, "study_id": 0, "datetime_start": DATE},
            parameter(trial, "learning_rate", 0.001 * (1 + trial), RATE),
            parameter(trial, "width", trial % 2, WIDTH),
            {"op_code": 7, **WORKER, "trial_id": trial, "step": 12, "intermediate_value": 1.0},
            {"op_code": 9, **WORKER, "trial_id": trial, "system_attr": {"completed_rung_0": 1.0}},
            {"op_code": 8, **WORKER, "trial_id": trial, "user_attr": {"why": "after 12%"}},
            {"op_code": 6, **WORKER, **end},
        ]
    return records


def line(record: object) -> bytes:
    return json.dumps(record).encode() + b"\n"


def good_lines() -> list[bytes]:
    return [line(each) for each in good()]


scalars = st.one_of(
    *(st.none(), st.booleans(), st.floats(), st.integers(-3, 40), st.text(max_size=8)),
    st.sampled_from([10**400, -(2**70), 2**63, DATE]),
    st.sampled_from(["\x1b]0;t\x07", "$\\frac$", "\ud800", "x" * 9000]),
)
odd = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.dictionaries(st.text(max_size=8), scalars, max_size=2),
    st.integers(1, 1500).map(lambda depth: "[" * depth),
)
FIELDS = sorted({name for each in good() for name in each} | {"params", "distributions", "state"})
INNER = ("name", "attributes", "choices", "low", "high", "log", "step", "type")
spaces = st.one_of(
    odd,
    st.dictionaries(st.sampled_from(INNER), odd, max_size=4),
    st.builds(
        lambda name, changes: {"name": name, "attributes": {**RATE_ENDS, **changes}},
        st.sampled_from(["FloatDistribution", "IntDistribution", "CategoricalDistribution"]),
        st.dictionaries(st.sampled_from(INNER[2:7]), odd, max_size=2),
    ),
)
changes = st.one_of(
    st.dictionaries(st.sampled_from(FIELDS), odd, min_size=1, max_size=2),
    spaces.map(lambda space: {"distribution": json.dumps(space)}),
    odd.map(lambda value: {"user_attr": {"hackmatrix_rl": value}}),
    odd.map(lambda value: {"user_attr": {"why": value}}),
    odd.map(lambda value: {"system_attr": {"completed_rung_1": value}}),
)
places = st.integers(0, len(good()) - 1)


def changed(at: int, fields: dict[str, Any], without: list[str]) -> bytes:
    record = {n: v for n, v in {**good()[at], **fields}.items() if n not in without}
    return b"".join([*good_lines()[:at], line(record), *good_lines()[at + 1 :]])


def added(at: int, fields: dict[str, Any], raw: bytes | None) -> bytes:
    lines = good_lines()
    lines.insert(at, line(fields) if raw is None else raw + b"\n")
    return b"".join(lines)


forgeries = st.one_of(
    *[st.builds(changed, places, changes, st.just([]))] * 4,
    st.builds(changed, places, st.just({}), st.lists(st.sampled_from(FIELDS), max_size=2)),
    st.builds(
        added,
        places,
        st.dictionaries(
            st.sampled_from([*FIELDS, "value", "intermediate_values"]), odd, max_size=6
        ),
        st.one_of(st.none(), st.binary(max_size=30), st.just(b"[" * 5000)),
    ),
    st.builds(lambda cut: b"".join(good_lines())[:cut], st.integers(0, 3000)),
)


def check(content: bytes) -> None:
    folder = Path(room()).with_name("forged_sweep")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "journal.log").write_bytes(content)
    page = folder / "report.html"
    arguments = ["report", str(folder), "--output", str(page)]
    status, out, err = run_here(arguments)
    err = "".join(each for each in err.splitlines(True) if not each.endswith("it is left out\n"))
    assert_answered(arguments, (status, out, err), str(folder))
    assert page.exists() == (status == 0)


FUZZER = Fuzzer(
    forgeries,
    check,
    examples=100,
    found=(
        added(1, {}, b"[1]"),
        added(1, {}, b"[" * 5000),
        added(1, {}, b"\xff"),
        added(1, {"worker_id": "a"}, None),
        added(1, {"op_code": 99, "worker_id": "a"}, None),
        added(1, {"op_code": "4", "worker_id": "a"}, None),
        changed(0, {"directions": [1, 2]}, []),
        changed(0, {"directions": 3}, []),
        changed(0, {}, ["study_name"]),
        changed(1, {"user_attr": {"hackmatrix_rl": {"metric": 3}}}, []),
        changed(2, {"datetime_start": 3}, []),
        changed(3, {"param_name": "$\\frac$"}, []),
        changed(3, {"param_value_internal": 10**400}, []),
        changed(3, {"param_value_internal": "a"}, []),
        changed(3, {"distribution": "[" * 5000}, []),
        changed(3, {"distribution": json.dumps({**RATE, "attributes": {"low": 0}})}, []),
        changed(4, {"param_value_internal": 3}, []),
        changed(5, {"intermediate_value": "much"}, []),
        changed(6, {"system_attr": {"completed_rung_0": "good"}}, []),
        changed(7, {"user_attr": {"why": {"a": "b"}}}, []),
        changed(8, {"values": ["a"]}, []),
        changed(8, {"values": None}, []),
        changed(8, {"values": [float("nan")]}, []),
        changed(8, {"state": 17}, []),
    ),
)
