"""Settings files: read, or one line that names the file and what is wrong."""

from pathlib import Path

from hypothesis import strategies as st

from fuzz.commands import assert_answered, room, run_here
from fuzz.worker import Fuzzer
from hackmatrix_rl.runs.config import algorithms, options_of
from hackmatrix_rl.system.errors import flag

FIELDS = {each.name for kind in algorithms().values() for each in options_of(kind)}
NAMES = sorted(name for name in FIELDS if name != "tracker")
LITERALS = (
    *("0", "-1", "1", "2", "8", "32", "100", "1.5", "-0.0", "1e400", "nan", "-inf", "0x10"),
    "1_000",
    *("2147483648", "9223372036854775808", "9" * 5000, "true", "false", '""', '"none"', '"auto"'),
    *('"x"', '"mlp"', '"r2d2"', '"pqn"', '"data=1"', "'''\na\nb'''", "[]", "[1, 2]", "[[1]]"),
    *("{}", "{a = 1}", "x"),
    *("1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", '"\\u0000"', '"\\ud800"', '"' + "a" * 5000),
    *("", "=", "1 2", "{a = {b = {c = 1}}}", "[1,", '"é🙂"', "'\x01'", "none"),
)
keys = st.one_of(
    *[st.sampled_from(NAMES)] * 4,
    st.sampled_from([flag(name)[2:] for name in NAMES]),
    st.sampled_from(["preset", "algorithm", "num_env", "a.b", '""', '"a b"', "a.a.a"]),
    st.sampled_from(["'num_envs'", "1", "é", "-"]),
)
headers = st.sampled_from(["[train]", "[a.b]", "[[a]]", "[a", "[]", "[num_envs]", "[preset]"])
lines = st.one_of(
    *[st.builds("{} = {}".format, keys, st.sampled_from(LITERALS))] * 6,
    st.builds("{} = {}".format, keys, st.integers(-10, 10**6)),
    headers,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
written = st.lists(lines, max_size=5).map(lambda each: "\n".join(each).encode())
nested = st.builds(
    lambda start, opening, depth: f"{start}{opening * depth}".encode(),
    st.sampled_from(["a = ", "num_envs = ", ""]),
    st.sampled_from(["[", "{a = ", "a.", "[a.", "[["]),
    st.sampled_from([5, 500, 20_000]),
)
files = st.one_of(written, written, written, st.binary(max_size=40), nested)


def check(content: bytes) -> None:
    file = Path(room()).with_name("settings.toml")
    file.write_bytes(content)
    arguments = ["train", "--dry-run", "--config", str(file)]
    if b"preset" not in content:
        arguments += ["--preset", "debug"]
    flags = [flag(name) for name in (*NAMES, "preset", "algorithm")]
    try:
        assert_answered(arguments, run_here(arguments), f"--config {file}", *flags)
    except AssertionError as error:
        raise AssertionError(f"{content[:500]!r}: {error}") from error


FUZZER = Fuzzer(files, check, examples=100)
