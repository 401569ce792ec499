"""The function of an exported agent: from arrays of a batch to logits, value and memory."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from hackmatrix_rl.agent import IDENTITY_SCALE
from hackmatrix_rl.env import Environment
from hackmatrix_rl.evaluation import PolicyAgent

_RESERVED = ("mask", "carry", "next_carry", "logits", "value")


@dataclass(frozen=True)
class Program:
    """What StableHLO and ONNX hold.

    Attributes:
        function: takes the inputs and returns the outputs, in order, of one position.
        inputs: the arrays of the observation, `mask`, and the arrays of the carry, by name.
        outputs: names: `logits`, which are -inf where the mask is false, `value` in units of
            reward, and the next carry.
    """

    function: Callable[..., tuple[Array, ...]]
    inputs: dict[str, jax.ShapeDtypeStruct]
    outputs: tuple[str, ...]

    def batched(self) -> tuple[Callable[..., tuple[Array, ...]], list[jax.ShapeDtypeStruct]]:
        """The function of a batch of any size, and what it takes."""
        (batch,) = jax.export.symbolic_shape("batch")
        shapes = [
            jax.ShapeDtypeStruct((batch, *each.shape), each.dtype) for each in self.inputs.values()
        ]
        return jax.vmap(self.function), shapes


def program_of(agent: PolicyAgent, environment: Environment) -> Program:
    """The program of an agent."""
    spec = environment.spec
    scale = IDENTITY_SCALE if agent.value_scale is None else agent.value_scale
    observation, carry = spec.observation, jax.eval_shape(agent.policy.initial_carry)
    seen, memory = named_arrays(observation, "observation"), named_arrays(carry, "carry")

    def function(*arrays: Array) -> tuple[Array, ...]:
        shown, (mask, *before) = arrays[: len(seen)], arrays[len(seen) :]
        logits, value, after = agent.policy(_filled(observation, shown), _filled(carry, before))
        masked = jnp.where(mask, logits, -jnp.inf)
        return masked, scale.denormalize(value), *jax.tree.leaves(after)

    mask = jax.ShapeDtypeStruct((spec.num_actions,), jnp.dtype(bool))
    outputs = ("logits", "value", *(f"next_{name}" for name in memory))
    return Program(function, {**seen, "mask": mask, **memory}, outputs)


def named_arrays(tree: PyTree, what: str) -> dict[str, jax.ShapeDtypeStruct]:
    """The arrays of an observation or a carry by name, in the order of the arguments.

    The name is the array's path in the tree. Where that is empty or the program uses it for
    something else, and for each array of a carry, `what` comes first.
    """
    found = {}
    for path, leaf in jax.tree.leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if what == "carry" or not name or name.partition(".")[0] in _RESERVED:
            name = f"{what}.{name}".rstrip(".")
        found[name] = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    return found


def _filled(tree: PyTree, arrays: tuple[Array, ...] | list[Array]) -> PyTree[Array]:
    return jax.tree.unflatten(jax.tree.structure(tree), arrays)
