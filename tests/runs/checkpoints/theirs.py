"""A file of weights as the original project writes it, with random numbers."""

import itertools

import numpy as np


def theirs(seed=0, *, inputs=1545, actions=28, width=16, depth=2):
    """The arrays of such a file."""
    draw = np.random.default_rng(seed)
    sizes = [inputs, *[width] * depth]
    shapes = [*itertools.pairwise(sizes), (width, actions), (width, 1)]
    arrays = {}
    for number, shape in enumerate(shapes):
        kernel = draw.normal(size=shape) / np.sqrt(shape[0])
        arrays[f"params.Dense_{number}.kernel"] = kernel.astype(np.float32)
        arrays[f"params.Dense_{number}.bias"] = draw.normal(size=shape[1]).astype(np.float32)
    return arrays
