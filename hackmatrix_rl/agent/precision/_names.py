"""Names of precision policies, and patterns for parts of a network."""

import re
from fnmatch import fnmatchcase

import jmp

# Each string names the output, because jmp would use the compute dtype for it. The names stand
# here, because jmp reads `bf16` as a policy with bfloat16 parameters.
POLICIES = {
    "f32": "params=float32,compute=float32,output=float32",
    "bf16": "params=float32,compute=bfloat16,output=float32",
    "f16": "params=float32,compute=float16,output=float32",
}

EXAMPLE = POLICIES["bf16"]

_KEYS = {"p": "params", "c": "compute", "o": "output"}
_NAMES = {
    "float32": ("float32", "f32", "full"),
    "bfloat16": ("bfloat16", "bf16"),
    "float16": ("float16", "f16"),
}
_DTYPES = {name: dtype for dtype, names in _NAMES.items() for name in names}
# Other spellings, of jmp and of users, and the name to suggest for each.
_NEAR = dict(full="f32", float32="f32", fp32="f32", bfloat16="bf16", float16="f16", fp16="f16")


def parse_policy(name: str) -> jmp.Policy:
    """Reads the name of a precision policy: one of `POLICIES`, or a policy string of jmp.

    Raises:
        ValueError: the name is neither. The message says what to use.
    """
    text = name.strip()
    if text not in POLICIES and "=" not in text:
        raise ValueError(_unknown(text))
    return jmp.get_policy(POLICIES.get(text) or _checked(text))


def parse_parts(text: str) -> dict[str, str]:
    """Reads a table of parts, for instance `.heads.value*=f32,.layers[0]*=bf16`.

    Raises:
        ValueError: an entry is not a pair `pattern=policy`, a pattern stands there twice, or a
            policy is unknown.
    """
    keys = "|".join([*_KEYS, *_KEYS.values()])
    parts: dict[str, str] = {}
    for entry in re.split(rf",(?!\s*(?:{keys})\s*=)", text):
        pattern, equals, name = (part.strip() for part in entry.partition("="))
        if not (pattern and equals and name):
            raise ValueError(f"{entry.strip()!r} is no pattern=policy, as in '.heads.value*=f32'")
        if pattern in parts:
            raise ValueError(f"the pattern {pattern!r} stands there twice")
        parse_policy(name)
        parts[pattern] = name
    return parts


def path_matches(pattern: str, path: str) -> bool:
    """Whether a pattern with `*` and `?` matches a whole path; brackets match themselves."""
    return fnmatchcase(path, pattern.replace("[", "[[]"))


def _unknown(name: str) -> str:
    if name == "half":
        return (
            "'half' is float16 on a CPU or GPU and bfloat16 on a TPU in jmp; say which: use f16 "
            "or bf16"
        )
    near = f". Did you mean {_NEAR[name]}?" if name in _NEAR else ""
    return f"unknown; use {', '.join(POLICIES)}, or a policy of jmp as {EXAMPLE!r}{near}"


def _checked(text: str) -> str:
    """Checks a policy string of jmp and writes it with all three dtypes named."""
    # jmp itself guesses a dtype that is not named, takes the last of two entries, and starts a
    # device to find out what `half` means.
    named: dict[str, str] = {}
    for entry in text.split(","):
        key, _, value = (part.strip() for part in entry.partition("="))
        key = _KEYS.get(key, key)
        if key not in _KEYS.values():
            raise ValueError(f"{text!r}: {key!r} is none of params, compute and output")
        if key in named:
            raise ValueError(f"{text!r} names {key} twice")
        if value not in _DTYPES:
            raise ValueError(
                f"{text!r}: {value!r} cannot be used for {key}; use float32, bfloat16 or float16"
            )
        named[key] = _DTYPES[value]
    if named.setdefault("params", "float32") != "float32":
        raise ValueError(
            f"{text!r}: parameters must be float32, for small changes would be rounded away; "
            "say params=float32"
        )
    if "compute" not in named:
        raise ValueError(f"{text!r} does not name compute, as in {EXAMPLE!r}")
    # Without an entry, jmp uses the compute dtype for the output.
    if named.setdefault("output", named["compute"]) != "float32":
        raise ValueError(
            f"{text!r}: logits and values must be float32; say output=float32, as in {EXAMPLE!r}"
        )
    return ",".join(f"{key}={named[key]}" for key in ("params", "compute", "output"))
