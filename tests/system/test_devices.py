import pytest

from hackmatrix_rl.errors import ConfigError
from hackmatrix_rl.system import select_device, unseen_accelerator, why_device


@pytest.mark.parametrize(
    ("sign", "extra"),
    [("/dev/nvidia0", "cuda"), ("/proc/driver/nvidia/version", "cuda"), ("/dev/accel0", "tpu")],
)
def test_hardware_that_jax_cannot_see_is_named_with_its_extra(sign, extra):
    advice = unseen_accelerator("cpu", exists=lambda path: path == sign)
    assert advice is not None
    assert f"pip install '.[{extra}]'" in advice


def test_the_device_of_a_cpu_is_the_cpu_another_is_refused_and_no_advice_is_needed():
    assert unseen_accelerator("cpu", exists=lambda path: False) is None
    assert unseen_accelerator("gpu", exists=lambda path: True) is None
    assert select_device("cpu") == select_device("auto") == "cpu"
    with pytest.raises(ConfigError, match=r"--device tpu .*JAX sees no TPU here, only cpu"):
        select_device("tpu")


@pytest.mark.parametrize(
    ("chosen", "best", "line"),
    [
        ("tpu", "tpu", "Computing on the TPU, the first choice"),
        ("gpu", "gpu", "Computing on the GPU: JAX sees no TPU here"),
        ("cpu", "cpu", "Computing on the CPU: JAX sees no TPU and no GPU here"),
        ("cpu", "gpu", "Computing on the CPU, as --device or --preset says; there is a GPU too"),
    ],
)
def test_it_is_said_what_is_computed_on_and_why(chosen, best, line):
    assert why_device(chosen, best) == line
