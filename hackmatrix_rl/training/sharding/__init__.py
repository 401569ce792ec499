"""Meshes of devices: what each device holds, and how arrays get there."""

from hackmatrix_rl.training.sharding._blocks import Blocks
from hackmatrix_rl.training.sharding._collector import ShardedCollector
from hackmatrix_rl.training.sharding._divisors import divisors
from hackmatrix_rl.training.sharding._mesh import (
    AUTO,
    BY_ENVIRONMENT,
    BY_STEP_AND_ENVIRONMENT,
    FSDP,
    REPLICATED,
    check_axes,
    check_split,
    describe_mesh,
    mesh,
    most_devices,
    parse_mesh,
    single_device,
    specs_of,
)
from hackmatrix_rl.training.sharding._offload import HOST, check_offload, move, on_device, on_host
from hackmatrix_rl.training.sharding._on_each_device import on_each_device
from hackmatrix_rl.training.sharding._placement import (
    bytes_per_device,
    constrain,
    each_array,
    fsdp_shardings,
    gather,
    place,
    replicated_shardings,
)

__all__ = [
    "AUTO",
    "BY_ENVIRONMENT",
    "BY_STEP_AND_ENVIRONMENT",
    "FSDP",
    "HOST",
    "REPLICATED",
    "Blocks",
    "ShardedCollector",
    "bytes_per_device",
    "check_axes",
    "check_offload",
    "check_split",
    "constrain",
    "describe_mesh",
    "divisors",
    "each_array",
    "fsdp_shardings",
    "gather",
    "mesh",
    "most_devices",
    "move",
    "on_device",
    "on_each_device",
    "on_host",
    "parse_mesh",
    "place",
    "replicated_shardings",
    "single_device",
    "specs_of",
]
