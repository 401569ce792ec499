"""The parameters of a network: their names, and which of them are trained."""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jmp
from jaxtyping import PyTree

# Each string names the output, for which jmp would use the compute dtype. The short names differ
# from jmp's: it reads `bf16` as a policy with bfloat16 parameters.
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
    """Reads the name of a precision policy: one of `POLICIES`, or a policy string of jmp."""
    text = name.strip()
    if text not in POLICIES and "=" not in text:
        raise ValueError(_unknown(text))
    return jmp.get_policy(POLICIES.get(text) or _checked(text))


def parse_parts(text: str) -> dict[str, str]:
    """Reads a table of parts, for instance `.heads.value*=f32,.layers[0]*=bf16`."""
    keys = "|".join([*_KEYS, *_KEYS.values()])
    parts: dict[str, str] = {}
    for entry in re.split(rf",(?!\s*(?:{keys})\s*=)", text):
        pattern, equals, name = (part.strip() for part in entry.partition("="))
        if not (pattern and equals and name):
            raise ValueError(f"{entry.strip()!r} is not pattern=policy, as in '.heads.value*=f32'")
        if pattern in parts:
            raise ValueError(f"the pattern {pattern!r} is given twice")
        parse_policy(name)
        parts[pattern] = name
    return parts


def path_matches(pattern: str, path: str) -> bool:
    """Whether a pattern with `*` and `?` matches a whole path; brackets match themselves."""
    return fnmatchcase(path, pattern.replace("[", "[[]"))


def _unknown(name: str) -> str:
    if name == "half":
        return "'half' is float16 on a CPU or GPU and bfloat16 on a TPU in jmp; use f16 or bf16"
    near = f". Did you mean {_NEAR[name]}?" if name in _NEAR else ""
    return f"unknown; use {', '.join(POLICIES)}, or a policy of jmp such as {EXAMPLE!r}{near}"


def _checked(text: str) -> str:
    """Checks a policy string of jmp and completes it to all three dtypes."""
    # jmp itself guesses missing dtypes, uses the last of two equal keys, and starts a device to
    # resolve `half`.
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
            f"{text!r}: parameters must be float32, because 16 bits would round small updates "
            "away; use params=float32"
        )
    if "compute" not in named:
        raise ValueError(f"{text!r} does not set compute, as in {EXAMPLE!r}")
    # Without an entry, jmp uses the compute dtype for the output.
    if named.setdefault("output", named["compute"]) != "float32":
        raise ValueError(
            f"{text!r}: logits and values must be float32; use output=float32, as in {EXAMPLE!r}"
        )
    return ",".join(f"{key}={named[key]}" for key in ("params", "compute", "output"))


M = TypeVar("M")

WRAPPED = [jax.tree_util.GetAttrKey(name) for name in ("headless", "unnormalized")]


class NonTrainable(eqx.Module):
    """Arrays of a network that are not parameters: running statistics, constants.

    Wrap every such floating-point array in it, NumPy arrays included. The arrays get no gradient
    and no optimizer state, and no precision policy casts them. A checkpoint stores them like all
    other arrays. Integers, booleans and random keys need no wrapper.
    """

    value: PyTree  #: The arrays.


def split_trainable(module: M) -> tuple[M, M]:
    """Splits a module into its parameters and the rest. `eqx.combine` joins them again.

    Parameters are the floating-point (and complex) arrays outside of every `NonTrainable`.

    Returns:
        Two modules of the same structure. Each has `None` where the other has a leaf.
    """
    which = jax.tree.map(
        eqx.is_inexact_array,  # false for a whole `NonTrainable`
        module,
        is_leaf=lambda node: isinstance(node, NonTrainable),
    )
    parameters, rest = eqx.partition(module, which)
    return parameters, rest


def parameters_of(module: M) -> M:
    """The module with `None` in place of everything that is not a parameter."""
    return split_trainable(module)[0]


def parameter_paths(module: PyTree) -> dict[str, jax.Array]:
    """A module's parameters by name, for instance `.layers[0].weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(parameters_of(module))
    return {path_name(path): leaf for path, leaf in leaves}


def path_name(path: tuple[Any, ...]) -> str:
    """The name of an array from its path in a tree, for instance `.layers[0].weight`.

    Checkpoints and the patterns of precision policies use these names. They omit the fields
    `headless` and `unnormalized` of networks that wrap another, so its names stay the same.
    """
    return jax.tree_util.keystr(tuple(key for key in path if key not in WRAPPED))


def accumulate_in_float32(module: M) -> tuple[M, Callable[[M], M]]:
    """Casts the parameters of a module to float32 for a loop. Also returns the inverse cast.

    The gradient of a parameter that a loop uses is a sum over the loop's steps, in the dtype that
    enters the loop. A long sum of 16-bit numbers loses small terms. So 16-bit parameters enter
    the loop as float32, which is exact, and each step casts them back.
    """
    parameters, rest = split_trainable(module)
    dtypes = jax.tree.map(lambda leaf: leaf.dtype, parameters)

    def widened(leaf: jax.Array) -> jax.Array:
        narrow = jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype.itemsize < 4
        return leaf.astype(jnp.float32) if narrow else leaf

    def narrow(wide: Any) -> M:
        parameters, rest = split_trainable(wide)
        back = jax.tree.map(lambda leaf, dtype: leaf.astype(dtype), parameters, dtypes)
        return eqx.combine(back, rest)

    wide: M = eqx.combine(jax.tree.map(widened, parameters), rest)
    return wide, narrow
