"""The names of precision policies, and the patterns of parts of a network."""

import re
from fnmatch import fnmatchcase

import jmp

# The output is named: jmp lets it follow the compute dtype otherwise. And jmp alone would read
# `bf16` as bfloat16 parameters, too.
POLICIES = {
    "f32": "params=float32,compute=float32,output=float32",
    "bf16": "params=float32,compute=bfloat16,output=float32",
    "f16": "params=float32,compute=float16,output=float32",
}

EXAMPLE = POLICIES["bf16"]

_KEYS = {"p": "params", "c": "compute", "o": "output"}
_DTYPES = {
    "float32": "float32",
    "f32": "float32",
    "full": "float32",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "f16": "float16",
}
# What jmp knows as well, or people write, and what of ours is meant.
_NEAR = {
    "full": "f32",
    "float32": "f32",
    "fp32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "fp16": "f16",
}


def parse_policy(name: str) -> jmp.Policy:
    """The policy of a name.

    Args:
        name: one of `POLICIES`, or a policy string of jmp with float32 parameters and output.

    Raises:
        ValueError: it is neither; the message says what would do.
    """
    text = name.strip()
    if text not in POLICIES and "=" not in text:
        raise ValueError(_unknown(text))
    return jmp.get_policy(POLICIES.get(text) or _checked(text))


def parse_parts(text: str) -> dict[str, str]:
    """Reads a table of parts: `.heads.value*=f32,.layers[0]*=bf16`.

    Args:
        text: pairs of a pattern and the name of a policy, separated by commas. The name may be
            a policy string of jmp, with commas of its own.

    Raises:
        ValueError: it is no such table, or there is no policy of that name.
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
    """Whether a pattern matches the whole of a path in a tree.

    `*` stands for any characters and `?` for one. Brackets stand for themselves, for they
    are part of paths: `.layers[0].weight`.
    """
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
    """A policy string of jmp in full, every dtype named.

    jmp lets what is not named follow something else, lets the last of two win, and starts a
    device to find out what `half` is.
    """
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
    # jmp lets the output follow the compute dtype.
    if named.setdefault("output", named["compute"]) != "float32":
        raise ValueError(
            f"{text!r}: logits and values must be float32; say output=float32, as in {EXAMPLE!r}"
        )
    return ",".join(f"{key}={named[key]}" for key in ("params", "compute", "output"))
