"""Reading what a TPU's compiler estimates, from a program as it writes it."""

from hackmatrix_rl.training.compiled import estimates

PROGRAM = """HloModule jit_f, is_scheduled=true

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


%c (x: f32[8]) -> f32[8,4] {
  ROOT %add.1 = f32[8,4]{0,1:T(8,128)} add(%x, %x)
}

%g (x: f32[8]) -> f32[8] {
  ROOT %gather.1 = f32[8]{0} gather(%x, %x)
}

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %fusion.7 = f32[8,4]{0,1:T(8,128)} fusion(%p), kind=kLoop, calls=%c, METADATA, CONFIG
  ROOT %tuple.1 = (s32[], f32[8]) tuple(%p)
}

%condition (p: (s32[], f32[8])) -> pred[] {
  %constant.3 = s32[] constant(32)
  ROOT %compare.1 = pred[] compare(%i, %constant.3), direction=LT
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %while.1 = (s32[], f32[8]) while(%t), condition=%condition, body=%body
  %copy.1 = f32[8]{0} copy(%a), backend_config={"window_config":{"estimated_cycles":"700"}}
  ROOT %gather_fusion = f32[8]{0} fusion(%a), kind=kCustom, calls=%g
}
""".replace("CONFIG", 'backend_config={"window_config":{"estimated_cycles":"50"}}').replace(
    "METADATA", 'metadata={op_name="jit(f)/while/body/add" stack_frame_id=3}'
)


def test_the_most_expensive_instruction_is_first_with_its_loops_and_lines():
    first, second = estimates(PROGRAM, within="hackmatrix_rl/")
    assert (first.name, first.result) == ("fusion.7", "f32[8,4]{0,1:T(8,128)}")
    assert (first.cycles, first.loops, first.total) == (50, (32,), 1600)
    assert first.source == ("_encoding.py:120", "_encoding.py:179")
    assert first.operation == "jit(f)/while/body/add"
    assert (second.name, second.loops, second.source) == ("copy.1", (), ())


def test_a_program_without_estimates_has_none():
    assert estimates(PROGRAM.replace("estimated_cycles", "other")) == []
