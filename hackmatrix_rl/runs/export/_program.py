"""The function of an exported agent: from observation, mask and carry to logits and value."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from hackmatrix_rl.agent import IDENTITY_SCALE
from hackmatrix_rl.env import Box, Environment
from hackmatrix_rl.evaluation import PolicyAgent

_RESERVED = ("mask", "action", "carry", "next_carry", "logits", "value")


@dataclass(frozen=True)
class Program:
    """The function that StableHLO and ONNX store.

    Attributes:
        function: maps the inputs of one position to its outputs, both in order.
        inputs: the arrays of the observation, `mask`, and the arrays of the carry, by name.
        outputs: the names of the outputs: `logits`, which are -inf where the mask is false, `value`
            in units of reward, and the next carry. A `Box` has no mask, and the likeliest `action`
            in place of logits.
    """

    function: Callable[..., tuple[Array, ...]]
    inputs: dict[str, jax.ShapeDtypeStruct]
    outputs: tuple[str, ...]

    def batched(self) -> tuple[Callable[..., tuple[Array, ...]], list[jax.ShapeDtypeStruct]]:
        """The function for batches of any size, and the shapes of its inputs."""
        (batch,) = jax.export.symbolic_shape("batch")
        shapes = [
            jax.ShapeDtypeStruct((batch, *each.shape), each.dtype) for each in self.inputs.values()
        ]
        return jax.vmap(self.function), shapes


def program_of(agent: PolicyAgent, environment: Environment) -> Program:
    spec = environment.spec
    scale = IDENTITY_SCALE if agent.value_scale is None else agent.value_scale
    observation, carry = spec.observation, jax.eval_shape(agent.policy.initial_carry)
    seen, memory = named_arrays(observation, "observation"), named_arrays(carry, "carry")

    def function(*arrays: Array) -> tuple[Array, ...]:
        shown, before = arrays[: len(seen)], list(arrays[len(seen) :])
        mask = before.pop(0) if masks else spec.actions.every()
        logits, value, after = agent.policy(_filled(observation, shown), _filled(carry, before))
        if isinstance(spec.actions, Box):
            pi = agent.policy.distribution(logits, mask)
            masked = pi.to_environment(pi.mode())
        else:
            masked = jnp.where(mask, logits, -jnp.inf)
        return masked, scale.denormalize(value), *jax.tree.leaves(after)

    masks = {}
    if spec.actions.mask_size:
        masks["mask"] = jax.ShapeDtypeStruct((spec.actions.mask_size,), jnp.dtype(bool))
    outputs = ("logits" if masks else "action", "value", *(f"next_{name}" for name in memory))
    return Program(function, {**seen, **masks, **memory}, outputs)


def named_arrays(tree: PyTree, what: str) -> dict[str, jax.ShapeDtypeStruct]:
    """The arrays of an observation or a carry by name, in the order of the arguments.

    The name is the array's path in the tree. It begins with `what` if the path is empty or
    reserved, and for each array of a carry.
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
