"""Compilers of accelerators that the machine lacks, for `--target` alone: JAX starts without noise.

The extras `gpu-plan` and `tpu-plan` install the plugins of JAX without what they need to run. JAX
tries them at its start, with a traceback (no cuDNN) and lines of libtpu. On a machine with such an
accelerator everything is printed. Nothing heavy is imported here: `import hackmatrix_rl` does it.
"""

import logging
import os
from collections.abc import Mapping
from glob import glob
from importlib.util import find_spec

# Files that show the hardware, even if the installed JAX cannot use it. On a Jetson, and in WSL,
# a GPU has other names.
_SIGNS = {
    "gpu": ("/dev/nvidia[0-9]*", "/proc/driver/nvidia/version", "/dev/nvhost-gpu", "/dev/dxg"),
    "tpu": ("/dev/accel[0-9]*", "/dev/vfio/[0-9]*"),
}
TPU_OF_NOBODY: Mapping[str, str] = {
    "TPU_ACCELERATOR_TYPE": "v4-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
"""With these, libtpu looks for no TPU's host."""


def accelerator_present(kind: str) -> bool:
    """Whether the machine has a `gpu` or `tpu`, even if the installed JAX cannot use it."""
    return any(map(glob, _SIGNS[kind]))


def quiet_absent_accelerators() -> None:
    """Keeps JAX from printing that it has no GPU or TPU where the machine has none."""
    # JAX has no option for it. The name of its logger is private.
    logging.getLogger("jax._src.xla_bridge").addFilter(_about_what_is_here)
    if find_spec("libtpu") is not None and not accelerator_present("tpu"):
        for name, value in TPU_OF_NOBODY.items():
            os.environ.setdefault(name, value)


def _about_what_is_here(record: logging.LogRecord) -> bool:
    """False for the traceback of a CUDA plugin on a machine without a GPU."""
    return "jax_plugins.xla_cuda" not in record.getMessage() or accelerator_present("gpu")
