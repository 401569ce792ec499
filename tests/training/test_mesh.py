"""What a mesh is called, and what cannot be cut over one."""

import re

import jax
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import hackmatrix_rl as hm
from hackmatrix_rl.algorithms.ppo import PPOConfig
from hackmatrix_rl.system.errors import ArgumentError, ConfigError
from hackmatrix_rl.training.sharding import check_axes, check_split, describe_mesh, mesh, parse_mesh
from hackmatrix_rl.training.sharding._placement import fsdp_spec


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("auto", None),
        ("data=8", {"data": 8, "fsdp": 1}),
        ("data=4,fsdp=2", {"data": 4, "fsdp": 2}),
        (" fsdp = 2 , data = 4 ", {"data": 4, "fsdp": 2}),
        ("fsdp=3", {"data": 1, "fsdp": 3}),
    ],
)
def test_a_text_names_the_axes(text, lengths):
    assert parse_mesh(text) == lengths
    if lengths:
        assert parse_mesh(describe_mesh(lengths)) == lengths


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not understood"),
        ("8", "not understood"),
        ("data", "not understood"),
        ("data=0", "not understood"),
        ("data=-1", "not understood"),
        ("data=two", "not understood"),
        ("data=2,", "not understood"),
        ("date=2", "no axis 'date'. Use data, fsdp and population. Did you mean data?"),
        ("data=2,data=2", "data is given twice"),
    ],
)
def test_a_text_that_is_no_mesh_is_an_error(text, says):
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        parse_mesh(text)
    with pytest.raises(ConfigError, match="--mesh"):
        PPOConfig(mesh=text)


def test_auto_is_all_devices_along_data():
    assert dict(hm.mesh().shape) == {"data": jax.device_count(), "fsdp": 1}
    assert dict(mesh("auto", jax.devices()[:3]).shape) == {"data": 3, "fsdp": 1}


def test_more_devices_than_there_are_and_other_axes_are_errors():
    says = (
        "mesh data=4,fsdp=4: needs 16 devices, but there are 8 cpu devices. Use data=8, or "
        "auto. .*xla_force_host_platform_device_count=16"
    )
    with pytest.raises(ValueError, match=says):
        mesh("data=4,fsdp=4")
    other = jax.make_mesh((2,), ("batch",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    with pytest.raises(ValueError, match="its axes are batch, not data and fsdp"):
        check_axes(other)


# Environments, minibatches, and a mesh that these cannot be cut over.
UNCUT = {
    (100, 1, "data=8"): "--num-envs 100 does not divide over 8 devices (--mesh data=8). "
    "Use 96 or 104, or --mesh data=4.",
    # Numbers that would do for the devices alone would not for the minibatches.
    (100, 8, "data=8"): "--num-envs 100 does not divide over 8 devices (--mesh data=8). "
    "Use 64 or 128.",
    (4, 2, "data=4,fsdp=2"): "--num-envs 4 is less than one environment for each of 8 devices "
    "(--mesh data=4,fsdp=2). Use 16, or --mesh data=2.",
    (64, 16, "data=8"): "--num-envs 64 in 16 minibatches are 4 at a time, which do not divide over "
    "8 devices (--mesh data=8). Use fewer minibatches, or --num-envs 128, or --mesh data=4.",
}


@pytest.mark.parametrize("sizes", UNCUT, ids=str)
def test_what_cannot_be_cut_is_an_error_that_says_what_can(sizes):
    says, (num_envs, parts, text) = UNCUT[sizes], sizes
    with pytest.raises(ArgumentError) as error:
        check_split(parse_mesh(text), num_envs=num_envs, num_minibatches=parts)
    assert error.value.as_flags() == says
    in_python = re.sub("--[a-z-]+", lambda found: found[0][2:].replace("-", "_"), says)
    assert str(error.value) == in_python


def test_parts_of_minibatches_are_cut_over_the_mesh_too():
    lengths = {"data": 8, "fsdp": 1}
    check_split(lengths, num_envs=64, num_minibatches=2, grad_accum=4)
    says = "64 in 2 minibatches and grad_accum 8 are 4 at a time, .* or parts, or num_envs 128"
    with pytest.raises(ValueError, match=says):
        check_split(lengths, num_envs=64, num_minibatches=2, grad_accum=8)


@pytest.mark.parametrize("devices", [2, 3, 8, 15])
def test_what_an_error_advises_works(devices):
    lengths = {"data": devices, "fsdp": 1}
    for num_envs in range(1, 70):
        for parts in (1, 2, 8):
            try:
                check_split(lengths, num_envs=num_envs, num_minibatches=parts)
            except ValueError as error:
                advice = str(error).split("Use ")[1].rstrip(".")
            else:
                continue
            name, tried = "num_envs", {"num_envs": num_envs, "num_minibatches": parts}
            for word in advice.replace(",", "").split(" or "):
                if word == "fewer minibatches":
                    check_split(lengths, num_envs=num_envs, num_minibatches=1)
                    continue
                *names, value = word.split()
                name = names[0] if names else name
                if name == "mesh":
                    check_split(parse_mesh(value), num_envs=num_envs, num_minibatches=parts)
                else:
                    check_split(lengths, **{**tried, name: int(value)})


@pytest.mark.parametrize(
    ("shape", "parts", "spec"),
    [
        ((64, 128), 2, P(None, "fsdp")),
        ((128, 64), 2, P("fsdp")),
        ((64, 64), 2, P("fsdp")),
        ((64, 129), 2, P("fsdp")),
        ((65, 129), 2, P()),
        ((3, 3, 64, 64), 4, P(None, None, "fsdp")),
        ((128, 64), 1, P()),
        ((64,), 2, P()),
        ((), 2, P()),
    ],
)
def test_a_large_array_is_cut_along_its_longest_axis_that_divides(shape, parts, spec):
    assert fsdp_spec(shape, parts) == spec
