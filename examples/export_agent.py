"""An agent without this package: its JSON evaluated with NumPy, its StableHLO with JAX alone.

`hackmatrix-rl export AGENT --format json --output agent.json` writes the same files.

python export_agent.py [AGENT]
"""

import json
import subprocess
import sys

import jax
import numpy as np

import hackmatrix_rl as hm
from hackmatrix_rl.runs.export import export_agent

BATCH = 16


# The reader, in plain NumPy.
def dense(layer, x):
    return x @ np.array(layer["weight"], np.float32) + np.array(layer["bias"], np.float32)


def convolution(layer, x):
    rows, cols, _ = x.shape
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    near = [padded[r : r + rows, c : c + cols] for r in range(3) for c in range(3)]
    weight = np.concatenate([np.array(each) for row in layer["weight"] for each in row])
    return dense({**layer, "weight": weight}, np.concatenate(near, axis=-1))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def trunk(agent, grid, flat, carry):
    """The last hidden layer of one position, and the next carry."""
    layers = agent["layers"]
    if "cell" in layers:
        grid = np.maximum(dense(layers["cell"], grid), 0)
        for layer in layers["convolutions"]:
            grid = grid + np.maximum(convolution(layer, grid), 0)
    hidden = flat if grid is None else np.concatenate([np.ravel(grid), flat])
    if "dense" in layers:
        for layer in layers["dense"]:
            hidden = np.maximum(dense(layer, hidden), 0)
        return hidden, ()
    inwards = dense(layers["inwards"], np.maximum(dense(layers["embed"], hidden), 0))
    before = dense(layers["recurrent"], carry[0])
    if agent["network"]["name"] == "lstm":
        write, keep, candidate, show = np.split(inwards + before, 4)
        kept = sigmoid(keep) * carry[1] + sigmoid(write) * np.tanh(candidate)
        shown = sigmoid(show) * np.tanh(kept)
        return shown, (shown, kept)
    inwards, before = np.split(inwards, 3), np.split(before, 3)
    reset, update = (sigmoid(inwards[gate] + before[gate]) for gate in (0, 1))
    candidate = np.tanh(inwards[2] + reset * before[2])
    memory = (1 - update) * candidate + update * carry[0]
    return memory, (memory,)


def play(agent, grid, flat, mask, carry=()):
    """Logits, value and carry from the features of one position and its legal actions."""
    hidden, carry = trunk(agent, grid, flat, carry)
    logits = np.where(mask, dense(agent["layers"]["policy"], hidden), -np.inf)
    return logits, dense(agent["layers"]["value"], hidden)[0], carry


# The end of the reader.


JAX_ALONE = """
import sys
import jax, numpy as np
from jax import export

agent = export.deserialize(open("agent.bin", "rb").read())
logits, value, *carry = jax.jit(agent.call)(*np.load("arrays.npz").values())
assert "hackmatrix_rl" not in sys.modules and "equinox" not in sys.modules
print("JAX alone:   ", np.argmax(logits, axis=1).tolist())
np.savez("answers.npz", logits=logits, value=value)
"""


def main(name: str) -> None:
    loaded = hm.load(name)
    agent, environment = loaded.agent(), loaded.environment
    export_agent(agent, environment, "agent.json", format="json")
    export_agent(agent, environment, "agent.bin", format="stablehlo")
    _, timestep = environment.reset(jax.random.split(jax.random.key(0), BATCH))

    with open("agent.json", encoding="utf-8") as file:
        read = json.load(file)
    features = jax.vmap(environment.spec.encode)(timestep.observation)
    by_numpy = [
        play(read, *map(np.asarray, position))[:2]
        for position in zip(features.grid, features.flat, timestep.mask, strict=True)
    ]
    print("NumPy alone: ", [read["actions"]["names"][logits.argmax()] for logits, _ in by_numpy])

    np.savez("arrays.npz", *jax.tree.leaves(timestep.observation), timestep.mask)
    subprocess.run([sys.executable, "-c", JAX_ALONE], check=True)
    with np.load("answers.npz") as answers:
        for place, (logits, value) in enumerate(by_numpy):
            np.testing.assert_allclose(answers["logits"][place], logits, atol=1e-4)
            np.testing.assert_allclose(answers["value"][place], value, rtol=1e-4)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pretrained")
