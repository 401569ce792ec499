"""Reads and writes the weights of the original project, its files `params_N.npz`.

Such a file has `params.Dense_i.kernel` `[inputs, outputs]` and `params.Dense_i.bias`: the hidden
layers over the classic observation, then the policy layer, then the value layer. The inputs are the
player, the programs and the cells of the board; `Features.ravel` has the cells first.
"""

import io
import itertools
import os
import re
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from hackmatrix_rl.agent import IDENTITY_SCALE, IdentityScale, RunningScale, ValueScale
from hackmatrix_rl.agent.networks import ActorCritic, Dense, MLPActorCritic, WithAuxiliaryHead
from hackmatrix_rl.env import HackMatrix
from hackmatrix_rl.games.hackmatrix import NUM_ACTIONS
from hackmatrix_rl.system import check_path, read_bounded, read_npz, typed_path, write_whole
from hackmatrix_rl.system.errors import ConfigError, DamagedFileError, refusing, shortened

_MOST = 2**28
"""Maximum number of bytes of a file, and of all its arrays: 64 million weights."""
_MOST_LAYERS = 64
_NAME = re.compile(r"params\.Dense_([0-9]{1,2})\.(kernel|bias)")
_LAST_INPUTS = 33
"""Number of inputs of the player and its programs: the first ones there, the last ones here."""

CONVERSION = (
    "import pickle, numpy, flax",
    'params = pickle.load(open("checkpoint_N.pkl", "rb"))["params"]',
    'numpy.savez("his.npz", **flax.traverse_util.flatten_dict(params, sep="."))',
)
"""Lines of Python that convert a trusted pickle to a file for `load_npz`."""


def is_npz(path: epath.PathLike) -> bool:
    """Whether a path names an existing local file of weights or a pickle, by its suffix."""
    name = typed_path(path)
    return name.endswith((".npz", ".pkl", ".pickle")) and os.path.isfile(name)


def load_npz(path: epath.PathLike) -> MLPActorCritic:
    """Reads the weights of the original project (`params_N.npz`) into an `MLPActorCritic`.

    The network is for `HackMatrix(observation="classic")`. Its value is in units of reward.
    Nothing in the file is executed: pickles are refused.

    Args:
        path: path of the file.

    Raises:
        ConfigError: the file cannot be read, is a pickle, or holds other arrays.
    """
    path = typed_path(path)
    check_path(path, "the file")
    with refusing(f"{path}: ", of=DamagedFileError):
        try:
            content = read_bounded(path, _MOST)
        except FileNotFoundError as error:
            raise DamagedFileError("there is no such file") from error
        layers = _layers(_arrays(content))
        *hidden, policy, value = layers
        kernel, bias = hidden[0]
        moved = np.concatenate([kernel[_LAST_INPUTS:], kernel[:_LAST_INPUTS]])
        network = _empty(width=len(bias), depth=len(hidden))
    return eqx.tree_at(
        lambda network: [
            array for layer in _dense_layers(network) for array in (layer.weight, layer.bias)
        ],
        network,
        [
            jnp.asarray(array)
            for layer in ((moved, bias), *hidden[1:], policy, value)
            for array in layer
        ],
    )


def save_npz(
    policy: ActorCritic, path: epath.PathLike, *, value_scale: ValueScale = IDENTITY_SCALE
) -> None:
    """Writes an `MLPActorCritic` as the original project does (`params_N.npz`).

    Args:
        policy: the policy; its network is for `HackMatrix(observation="classic")`.
        path: path of the file. An existing file is replaced only after all is written.
        value_scale: the scale of its value (`Loaded.value_scale`). The value in the file is in
            units of reward.

    Raises:
        ConfigError: the policy has another network or observation, or its value scale is
            compressed, which no linear layer can undo.
        OSError: the file cannot be written.
    """
    network = policy.headless if isinstance(policy, WithAuxiliaryHead) else policy
    if not isinstance(network, MLPActorCritic):
        raise ConfigError(
            f"an .npz holds the network mlp, not {type(network).__name__}. Train one with "
            "--network mlp --observation classic."
        )
    if network.encode != HackMatrix(observation="classic").spec.encode:
        raise ConfigError(
            "an .npz holds a network over the classic observation, and this one is for another. "
            "Train one with --network mlp --observation classic."
        )
    if not isinstance(network.heads.value, Dense):
        raise ConfigError("an .npz holds a scalar value. Train with --value-head scalar.")
    first, *middle, value = (
        (np.asarray(layer.weight, np.float32), np.asarray(layer.bias, np.float32))
        for layer in _dense_layers(network)
    )
    kernel, bias = first
    first = np.concatenate([kernel[-_LAST_INPUTS:], kernel[:-_LAST_INPUTS]]), bias
    shift, factor = affine(value_scale)
    value = value[0] * factor, value[1] * factor + shift
    arrays = {}
    for number, (kernel, bias) in enumerate((first, *middle, value)):
        arrays[f"params.Dense_{number}.kernel"] = kernel
        arrays[f"params.Dense_{number}.bias"] = bias
    written = io.BytesIO()
    np.savez(written, allow_pickle=False, **arrays)
    write_whole(typed_path(path), [written.getvalue()])


def affine(scale: ValueScale) -> tuple[np.float32, np.float32]:
    """Shift and factor from the network's value to units of reward."""
    if isinstance(scale, IdentityScale):
        return np.float32(0), np.float32(1)
    if not isinstance(scale, RunningScale) or scale.compress:
        raise ConfigError(
            "the value scale is compressed, which no linear layer can undo. Train with "
            "--value-scale standard or none."
        )
    zero, one = (np.float32(scale.denormalize(jnp.float32(each))) for each in (0, 1))
    return zero, one - zero


def _empty(width: int, depth: int) -> MLPActorCritic:
    spec = HackMatrix(observation="classic").spec
    return eqx.filter_eval_shape(
        lambda key: MLPActorCritic(spec, width=width, depth=depth, key=key), jax.random.key(0)
    )


def _dense_layers(network: Any) -> list[Dense]:
    return [*network.layers, network.heads.policy, network.heads.value]


def _arrays(content: bytes) -> dict[tuple[int, str], np.ndarray]:
    """The arrays of a file by layer and kind."""
    if content[:1] == b"\x80":
        raise _pickled("is a pickle")

    def check(name: str, dtype: str, shape: tuple[int, ...]) -> None:
        shown = shortened(name)
        if "O" in dtype:
            raise _pickled(f"its array {shown} holds a pickle")
        if _NAME.fullmatch(name) is None:
            raise DamagedFileError(
                f"has {shown}, not a layer of the original's network (params.Dense_0.kernel, "
                "params.Dense_0.bias, ...)"
            )
        if dtype[1:2] != "f":
            raise DamagedFileError(
                f"its array {shown} is of dtype {shortened(dtype)}, not of floats"
            )

    named = read_npz(content, most_arrays=2 * _MOST_LAYERS, most_bytes=_MOST, check=check)
    found = {}
    for name, stored in named.items():
        with np.errstate(over="ignore", invalid="ignore"):  # infinities are refused below
            array = stored.astype(np.float32)
        if not np.isfinite(array).all():
            raise DamagedFileError(f"its array {shortened(name)} holds NaN or infinity")
        layer = _NAME.fullmatch(name)
        assert layer is not None, "the check knows the name"
        found[int(layer[1]), layer[2]] = array
    if len(found) < len(named):
        raise DamagedFileError("names an array twice")
    return found


def _pickled(said: str) -> DamagedFileError:
    return DamagedFileError(
        f"{said}, and a pickle runs code when it is read. Where you trust it, make an .npz of it: "
        + "; ".join(CONVERSION)
    )


def _layers(arrays: Mapping[tuple[int, str], np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Kernel and bias of each layer, first to last, after a check of their shapes."""
    count = 1 + max((number for number, _ in arrays), default=-1)
    layers = []
    for number in range(count):
        pair = arrays.get((number, "kernel")), arrays.get((number, "bias"))
        if pair[0] is None or pair[1] is None:
            raise DamagedFileError(f"lacks the kernel or the bias of params.Dense_{number}")
        layers.append((pair[0], pair[1]))
    if count < 3:
        raise DamagedFileError(
            f"has {count} layers; there are at least a hidden one, the actor's and the critic's"
        )
    inputs = HackMatrix(observation="classic").spec.num_features
    width = layers[0][1].size
    sizes = [inputs, *[width] * (count - 2)]
    shapes = [*itertools.pairwise(sizes), (width, NUM_ACTIONS), (width, 1)]
    for number, ((kernel, bias), shape) in enumerate(zip(layers, shapes, strict=True)):
        if kernel.shape != shape or bias.shape != shape[1:] or width < 1:
            raise DamagedFileError(
                f"params.Dense_{number}: kernel {list(kernel.shape)} and bias {list(bias.shape)}, "
                f"but a network over the classic observation has {list(shape)} and "
                f"{list(shape[1:])}"
            )
    return layers
