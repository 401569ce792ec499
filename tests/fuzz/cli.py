"""Flags and values: one line that names what is wrong, before anything long begins."""

from hypothesis import strategies as st

from fuzz.commands import assert_answered, run_apart, run_here
from fuzz.worker import Fuzzer
from hackmatrix_rl.runs.config import algorithms_of, field_types, options_of
from hackmatrix_rl.system.errors import flag, shortened

NUMBERS = (
    *("0", "-1", "1", "2", "3", "7", "8", "16", "64", "100", "0.5", "1.5", "-0.0", "1e3", "1e-5"),
    *("1e400", "-1e400", "1e308", "1e18", "nan", "NaN", "inf", "-inf", "1_000", "1__0", "0x10"),
    *("2147483647", "2147483648", "4294967295", "4294967296", "9223372036854775808", "9" * 30),
    *("9" * 5000, "10000000", "1000000000", " 5", "5 ", "٣", "²", "+4", "1,000", "--", "none"),
)
HUGE = (
    *("2147483647", "2147483648", "10000000", "1000000000", "9223372036854775808"),
    *("1e18", "9" * 30),
)
"""More than any machine has, and where integers end."""
TEXTS = (
    *("", " ", "none", "None", "null", "true", "auto", "x", "-", ".", "..", "%s", "{}", "\n", "é"),
    *("a" * 5000, "*", "[", "[" * 50, "=", ",", "a=b", "'", "\\", "~", "\t", "\x1b[31m", "🙂"),
)
SPECIAL = {
    "mesh": (
        *("data=1", "data=2", "data=0", "data=-1", "data=1,fsdp=1", "fsdp=2", "data=2,data=2"),
        *("data=", "=1", "data=1,", "data=x", "data=9999999999", "data", "model=2", "data=1.0"),
    ),
    "network": (
        *("mlp", "cells", "conv", "gru", "residual", "mpl", ":", "a:", ":b", "a:b:c", "json:dumps"),
        *("json:nothing", "json.decoder:JSONDecoder", "nowhere.at.all:f", "..x:y", "os:sep"),
        "a b:c",
    ),
    "precision": ("f32", "bf16", "f16", "f8", "p=f32,c=bf16,o=f32", "p=,c=,o=", "params=float32"),
    "precision_parts": (
        *(".heads=f32", ".heads.value*=f32", "=", "=f32", ".x=", "*=bf16", ".a=f32,,"),
    ),
    "run_dir": ("runs/x", "/dev/null/x", "/proc/no/such", "a/" * 300, "run\nof lines"),
    "checkpoint_dir": ("c", "/dev/null/x", "gs:/", "file:", "a/" * 300),
    "algorithm": ("ppo", "imitation", "r2d2", "pqn", "supervised", "self-play", "PPO"),
    "preset": ("auto", "cpu", "debug", "gpu", "tpu", "Debug", "32"),
    "config": ("nothing.toml", ".", "/dev/null", "/proc/self/mem", "a/" * 300, "\x01"),
    "resume_run": ("gone", ".", "..", "/", "/proc", "a/" * 300, "runs/gone"),
    "sizes": ("64", "0", "1,2", ",", "64,,1", "9" * 30, "\u0661"),
    "json": ("no/such/file", ".", "a/" * 300),
}

FIELDS = {
    each.name: each
    for kind in algorithms_of("train").values()
    for each in options_of(kind)
    if each.name != "tracker"  # asks a service
}
FLAGS_OF = {
    "train": ("resume_run", "heartbeat_timeout", "num_processes", "process_id"),
    "eval": ("episodes", "seed", "num_envs"),
    "bench": ("sizes", "json", "repeats"),
    "compare": ("seeds", "total_timesteps", "episodes"),
    "verify-resume": ("updates",),
}
TARGETS = (
    *("random", "runner", "gone", "", " ", ".", "/", "/proc", "-", "a/" * 300, "a" * 5000, "\n"),
)

OF_ARGUMENTS = ("RUN_OR_CHECKPOINT", "compare takes two", "no checkpoint")
"""What is said of arguments that have no flag."""


def _values(name: str) -> st.SearchStrategy[str]:
    likely = st.sampled_from(NUMBERS if name in FIELDS and _is_number(name) else TEXTS + NUMBERS)
    choices = FIELDS[name].metadata["choices"] if name in FIELDS else ()
    special = (*SPECIAL.get(name, ()), *choices)
    typed = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
    parts = [likely, likely, likely, typed]
    if name in FIELDS and field_types(FIELDS[name])[0] is int:
        parts += [st.sampled_from(HUGE)] * 3
    return st.one_of(*parts, *([st.sampled_from(special)] * 3 if special else []))


def _is_number(name: str) -> bool:
    return field_types(FIELDS[name])[0] in (int, float)


@st.composite
def _flags(draw: st.DrawFn, names: tuple[str, ...]) -> list[str]:
    name = draw(st.sampled_from(names))
    if name in FIELDS and field_types(FIELDS[name])[0] is bool:
        return [draw(st.sampled_from([flag(name), flag(f"no_{name}"), f"{flag(name)}=1"]))]
    return [flag(name), draw(_values(name))]


@st.composite
def commands(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(["train"] * 6 + ["eval", "bench", "compare", "verify-resume"]))
    own = FLAGS_OF[command]
    takes_settings = command in ("train", "bench", "verify-resume")
    names = (*own, *own, *((*FIELDS, "algorithm", "preset", "config") if takes_settings else ()))
    flags = draw(st.lists(_flags(names), min_size=1, max_size=3))
    odd = st.lists(st.sampled_from(["--num-env", "--", "x", "-9", "--json=", "-"]), max_size=1)
    start = {
        "train": ["train", "--dry-run", "--preset", "debug"],
        "eval": ["eval", draw(st.sampled_from(TARGETS))],
        "compare": ["compare", *draw(st.lists(st.sampled_from(TARGETS), max_size=2))],
    }
    rare = draw(st.integers(0, 9)) == 0
    return [
        *start.get(command, [command]),
        *(part for each in flags for part in each),
        *(draw(odd) if rare else []),
    ]


refused: list[list[str]] = []


def check(arguments: list[str]) -> None:
    answer = run_here(arguments)
    given = [each.split("=")[0] for each in arguments if each.startswith("-") and len(each) > 1]
    values = [shown for each in arguments[1:] if each.strip() for shown in (each, shortened(each))]
    assert_answered(arguments, answer, *given, *values, *OF_ARGUMENTS)
    if answer[0] == 2:
        refused.append(arguments)


def check_a_real_process(seed: int) -> None:
    """One of the round's commands that were refused, as users run it."""
    arguments = refused[seed % len(refused)]
    refused.clear()
    answer = run_apart(arguments)
    assert answer[0] == 2, f"{arguments}: {answer}"
    assert_answered(arguments, answer, "")


FUZZER = Fuzzer(commands(), check, examples=100, after=check_a_real_process)
