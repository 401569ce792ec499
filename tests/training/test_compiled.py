"""What is read from a compiled program: what devices send, kernels, a TPU's estimates."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import hackmatrix_rl as hm
from hackmatrix_rl.training.compiled import collectives, estimated_cycles, estimates, launches

pytestmark = pytest.mark.devices


def compiled(function, mesh, spec, shape):
    given = jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
    return collectives(jax.jit(function).lower(given).compile().as_text(), mesh.size)


def test_a_reduction_in_a_loop_counts_as_often_as_the_loop_goes_round():
    mesh = hm.mesh("data=8")

    def totals(part):
        def body(carry, _):
            return carry + jax.lax.psum(jnp.sin(part * carry.sum()), "data")[0], None

        return jax.lax.scan(body, jnp.ones(6, jnp.float32), None, length=5)[0]

    mapped = jax.shard_map(totals, mesh=mesh, in_specs=P("data"), out_specs=P(), check_vma=False)
    (found,) = compiled(mapped, mesh, P("data"), (8, 6))
    assert (found.kind, found.devices, found.times) == ("all-reduce", 8, 5)
    assert found.result_bytes == 6 * 4
    assert found.sent_bytes == pytest.approx(5 * 2 * 7 / 8 * 24)


def test_a_gather_over_one_axis_is_among_the_devices_along_it():
    mesh = hm.mesh("data=4,fsdp=2")

    def whole(x):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P()))

    (found,) = compiled(whole, mesh, P("fsdp"), (16, 4))
    assert (found.kind, found.devices, found.arrays) == ("all-gather", 2, (("f32", (16, 4)),))
    assert found.sent_bytes == 16 * 4 * 4 / 2


def test_devices_that_work_alone_send_nothing():
    mesh = hm.mesh("data=8")
    assert compiled(jnp.sin, mesh, P("data"), (16,)) == []


@pytest.mark.parametrize(
    ("groups", "devices"),
    [
        ("{{0,1},{2,3},{4,5},{6,7}}", 2),
        ("[2,4]<=[8]", 4),
        ("mesh['axis_0'=2,'axis_1'=4], device_ids=([2,4]T(1,0)) {'axis_1'}", 4),
        ("{}", 8),
    ],
)
def test_each_way_of_writing_groups_is_read(groups, devices):
    program = f"""HloModule x, entry_computation_layout={{()->()}}

ENTRY %main (a: f32[4]) -> f32[4] {{
  %a = f32[4]{{0}} parameter(0)
  ROOT %r = f32[4]{{0}} all-reduce(%a), channel_id=1, replica_groups={groups}, to_apply=%add
}}

%add (x: f32[], y: f32[]) -> f32[] {{
  ROOT %z = f32[] add(%x, %y)
}}
"""
    (found,) = collectives(program, 8)
    assert found.devices == devices


def test_what_is_started_and_waited_for_counts_once_and_by_what_comes_out():
    program = """ENTRY %main (a: bf16[4]) -> bf16[8] {
  %s = (bf16[4]{0}, bf16[8]{0}) all-gather-start(%a), replica_groups=[1,2]<=[2], dimensions={0}
  ROOT %d = bf16[8]{0} all-gather-done(%s)
}
"""
    (found,) = collectives(program, 2)
    assert found.arrays == (("bf16", (8,)),)
    assert found.sent_bytes == 8


BETWEEN_SLICES = """ENTRY %main (a: f32[8]) -> f32[8] {
  %part = f32[2]{0} reduce-scatter(%a), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
  %send.1 = (f32[2]{0:T(128)}, u32[], token[]) send(%part, %t), channel_id=4, \
is_host_transfer=true, frontend_attributes={_xla_megascale_target="{1,2}x{0:3}",\
_xla_megascale_transfer_type="ALL_REDUCE"}
  %recv.1 = (f32[2]{0:T(128)}, u32[], token[]) recv(%t), channel_id=3, is_host_transfer=true, \
frontend_attributes={_xla_megascale_transfer_type="ALL_REDUCE"}
  %sent = token[] send-done(%send.1), channel_id=4, is_host_transfer=true
  %whole = (f32[2]{0:T(128)}, token[]) recv-done(%recv.1), channel_id=3
  ROOT %b = f32[8]{0} all-gather(%w), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
}
"""
"""As the TPU's compiler writes a sum over two slices."""


def test_what_goes_across_slices_is_told_from_what_stays_in_one():
    found = collectives(BETWEEN_SLICES, 8, slices=2)
    kinds = [("reduce-scatter", False), ("all-reduce", True), ("all-gather", False)]
    assert [(each.kind, each.across) for each in found] == kinds
    (across,) = [each for each in found if each.across]
    assert (across.devices, across.arrays) == (2, (("f32", (2,)),))
    assert across.sent_bytes == 2 * 1 / 2 * 8


GPU = """HloModule jit_program, is_scheduled=true

%fused (p: f32[8]) -> f32[8] {
  %inside = f32[8]{0} copy(%p)
  ROOT %root = f32[8]{0} add(%inside, %inside)
}

%step (s: (s32[], f32[8])) -> (s32[], f32[8]) {
  %loop_add_fusion = f32[8]{0} fusion(%part), kind=kLoop, calls=%fused
  %gemm = (f32[8]{0}, s8[4]{0}) custom-call(%loop_add_fusion), custom_call_target="__cublas$gemm"
  %part = f32[8]{0} get-tuple-element(%s), index=1
}

%goes_on (s: (s32[], f32[8])) -> pred[] {
  ROOT %found = pred[] get-tuple-element(%s), index=0
}

%search (s: (s32[], f32[8])) -> (s32[], f32[8]) {
  %wrapped = f32[8]{0} fusion(%part), kind=kLoop, calls=%fused
}

ENTRY %main (given: f32[8]) -> f32[8] {
  %steps = (s32[], f32[8]) while(%a), condition=%goes_on, body=%step, \
backend_config={"known_trip_count":{"n":"16"}}
  %finds = (s32[], f32[8]) while(%b), condition=%goes_on, body=%search
  ROOT %out = f32[8]{0} copy(%x)
}
"""
"""As the GPU's compiler writes: each fusion is a kernel, and so is what calls a library."""


def test_a_gpus_kernels_count_as_often_as_loops_start_them():
    found = launches(GPU)
    assert found.kernels == 16 * 2 + 1 + 1
    assert found.asking_loops == 1


TPU = """HloModule jit_program, is_scheduled=true

FileNames
1 "/home/me/hackmatrix_rl/env/_encoding.py"
2 "/site-packages/equinox/_module.py"

FunctionNames
1 "encode"

FileLocations
1 {file_name_id=1 function_name_id=1 line=120 end_line=120 column=1 end_column=9}
2 {file_name_id=2 function_name_id=1 line=46 end_line=46 column=1 end_column=9}
3 {file_name_id=1 function_name_id=1 line=179 end_line=179 column=1 end_column=9}

StackFrames
1 {file_location_id=3 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=1 parent_frame_id=2}


%counts (param: (s32[], f32[8])) -> pred[] {
  %constant.1 = s32[]{:T(128)} constant(16)
  %param = (s32[], f32[8]{0:T(128)}) parameter(0)
  %counter = s32[]{:T(128)} get-tuple-element(%param), index=0
  ROOT %below = pred[]{:T(512)} compare(%counter, %constant.1), direction=LT
}

%goes_on (param.1: (s32[], f32[8])) -> pred[] {
  %constant.2 = s32[]{:T(128)} constant(0)
  %left = s32[]{:T(128)} get-tuple-element(%param.1), index=0
  ROOT %above = pred[]{:T(512)} compare(%left, %constant.2), direction=GT
}

%body (param.2: (s32[], f32[8])) -> (s32[], f32[8]) {
  %sum = f32[8]{0:T(128)} all-reduce(%part), replica_groups={{0,1,2,3}}, to_apply=%add
  %fusion.7 = f32[8,4]{0,1:T(8,128)} fusion(%sum), kind=kLoop, calls=%add, \
metadata={op_name="jit(f)/while/body/add" stack_frame_id=3}, \
backend_config={"window_config":{"estimated_cycles":"100"}}
}

%other (param.3: (s32[], f32[8])) -> (s32[], f32[8]) {
  %sum.1 = f32[8]{0:T(128)} all-reduce(%part), replica_groups={{0,1,2,3}}, to_apply=%add
  %fusion.8 = f32[8] fusion(%sum.1), kind=kLoop, backend_config={"estimated_cycles":"60"}
}

%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %plus = f32[] add(%a, %b)
}

ENTRY %main (given: f32[8]) -> f32[8] {
  %scan = (s32[], f32[8]) while(%first), condition=%counts, body=%body
  %loop = (s32[], f32[8]) while(%second), condition=%goes_on, body=%other
  %gather_fusion = f32[8]{0} fusion(%a), kind=kCustom, calls=%add
  ROOT %copy = f32[8] copy(%third), backend_config={"estimated_cycles":"7"}
}
"""
"""As the TPU's compiler writes: it tells no loop's number of rounds, and cycles of instructions."""


def test_a_tpus_scans_count_their_rounds_and_other_loops_once():
    scan, loop = collectives(TPU, 4)
    assert (scan.kind, scan.times, loop.times) == ("all-reduce", 16, 1)
    assert estimated_cycles(TPU) == 16 * 100 + 60 + 7


def test_the_most_expensive_instruction_is_first_with_its_loops_and_lines():
    first, second, third = estimates(TPU, within="hackmatrix_rl/")
    assert (first.name, first.result) == ("fusion.7", "f32[8,4]{0,1:T(8,128)}")
    assert (first.cycles, first.loops, first.total) == (100, (16,), 1600)
    assert first.source == ("_encoding.py:120", "_encoding.py:179")
    assert first.operation == "jit(f)/while/body/add"
    assert second.name == "fusion.8"
    assert (third.name, third.loops, third.source) == ("copy", (), ())


def test_a_program_without_estimates_has_none():
    without = TPU.replace("estimated_cycles", "other")
    assert estimates(without) == []
    assert estimated_cycles(without) is None
