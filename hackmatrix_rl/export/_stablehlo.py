"""An agent as StableHLO, which `jax.export` writes and JAX alone runs."""

import jax
import jax.numpy as jnp
from jax import export
from jaxtyping import Array

from hackmatrix_rl.agent import IDENTITY_SCALE
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.evaluation import PolicyAgent
from hackmatrix_rl.export._contract import exported_network

PLATFORMS = ("cpu", "cuda", "tpu")
"""Where it runs."""


def as_stablehlo(agent: PolicyAgent, environment: HackMatrix) -> bytes:
    """The network as a program of a batch of any size.

    Its arguments are the arrays of the observation in the order of the contract, the mask, and for
    a network with a memory its carry. It returns the logits with the mask applied, the value, and
    the next carry.

    Raises:
        ConfigError: the network is not exported, or the package flatbuffers is missing.
    """
    _, network = exported_network(agent.policy)
    scale = IDENTITY_SCALE if agent.value_scale is None else agent.value_scale
    spec = environment.spec
    leaves, structure = jax.tree.flatten(spec.observation)
    carry, memory = jax.tree.flatten(network.initial_carry())

    def one(*arrays: Array) -> tuple[Array, ...]:
        seen = jax.tree.unflatten(structure, arrays[: len(leaves)])
        mask = arrays[len(leaves)]
        before = jax.tree.unflatten(memory, arrays[len(leaves) + 1 :])
        logits, value, after = network(seen, before)
        return jnp.where(mask, logits, -jnp.inf), scale.denormalize(value), *jax.tree.leaves(after)

    (batch,) = export.symbolic_shape("batch")
    kinds = [
        *((leaf.shape, leaf.dtype) for leaf in leaves),
        ((spec.num_actions,), jnp.dtype(bool)),
        *((leaf.shape, leaf.dtype) for leaf in carry),
    ]
    arguments = [jax.ShapeDtypeStruct((batch, *shape), dtype) for shape, dtype in kinds]
    program = export.export(jax.jit(jax.vmap(one)), platforms=PLATFORMS)(*arguments)
    try:
        return bytes(program.serialize())
    except ImportError as error:
        raise ConfigError(
            "--format stablehlo needs the package flatbuffers, which is not installed. Install the "
            "export extra: pip install '.[export]'"
        ) from error
