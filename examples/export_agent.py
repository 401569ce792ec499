"""An agent without this package: `jax.export` writes it, and JAX alone reads and runs it.

The file fits the platform (cpu, gpu, tpu) and the batch size that it was made for.

python export_agent.py [AGENT]
"""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import export

import hackmatrix_rl as hm

BATCH = 16
READER = f"""
import sys
import jax, numpy as np
from jax import export

# Neither Equinox nor hackmatrix_rl: only JAX.
assert "hackmatrix_rl" not in sys.modules
agent = export.deserialize(open("agent.bin", "rb").read())
kinds = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in agent.in_avals]
arrays = [np.load(f"array{{place}}.npy") for place in range(len(kinds))]
actions = jax.jit(agent.call)(*arrays)
print("JAX alone:", np.asarray(actions).tolist())
assert actions.shape == ({BATCH},)
"""


def main(name: str) -> None:
    loaded = hm.load(name)
    policy, environment = loaded.policy, loaded.environment
    keys = jax.random.split(jax.random.key(0), BATCH)
    _, timestep = environment.reset(keys)
    leaves, structure = jax.tree.flatten(timestep.observation)

    def act(*arrays):
        """The likeliest legal actions; the last array is the mask."""
        observation = jax.tree.unflatten(structure, arrays[:-1])
        logits, _, _ = jax.vmap(lambda seen: policy(seen, policy.initial_carry()))(observation)
        return jnp.argmax(jnp.where(arrays[-1], logits, -jnp.inf), axis=1)

    arrays = [*leaves, timestep.mask]
    kinds = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    Path("agent.bin").write_bytes(export.export(jax.jit(act))(*kinds).serialize())
    for place, array in enumerate(arrays):
        jnp.save(f"array{place}.npy", array)
    print("this package:", act(*arrays).tolist())
    subprocess.run([sys.executable, "-c", READER], check=True)
    print(f"agent.bin has {Path('agent.bin').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pretrained")
