"""Steps and their replay."""

from __future__ import annotations

import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang.tensor import compute, placeholder
from sketch.rules.generate import generate
from sketch.schedule.loop import LoopId, LoopRole
from sketch.schedule.program import initial_program
from sketch.schedule.replay import replay
from sketch.schedule.sketch import Sketch, sketch_from_steps
from sketch.schedule.stage import InputId, Role, StageId
from sketch.schedule.step_json import steps_to_json
from sketch.schedule.step_reading import check_step, steps_from_json
from sketch.schedule.steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    Inline,
    Pack,
    Reorder,
    Rfactor,
    Split,
    SplitReduce,
)
from sketch.target.gpu_targets import cuda_target
from tests.support.targets import AVX512
from tests.support.workloads import conv2d_relu, matmul_dag, row_sum

# The first stage of a program, and the second.
C, S = StageId(0), StageId(1)
C_SUM = StageId(C, Role.ACCUMULATE)


def test_steps_survive_json_and_rebuild_the_same_sketch() -> None:
    dag = conv2d_relu()
    for sketch in generate(dag, AVX512):
        names = [decision.id for decision in sketch.decisions]
        steps, decisions = steps_from_json(dag, *steps_to_json(sketch.program, sketch.steps, names))
        assert (steps, list(decisions)) == (sketch.steps, names)
        again = sketch_from_steps(dag, steps, sketch.variant, AVX512)
        assert again.key == sketch.key
        assert str(again) == str(sketch)
        assert again.decisions == sketch.decisions


def test_json_of_another_version_is_rejected_by_name() -> None:
    data = {"kind": "inline", "version": 99, "stage": "0"}
    with pytest.raises(ScheduleError, match="'inline' has version 99"):
        check_step(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "teleport", "version": 1}, "unknown step kind 'teleport'"),
        ({"kind": "inline", "version": 1, "block": "x"}, "wrong fields"),
        ({"kind": "inline", "version": 1}, "wrong fields"),
        ({"kind": "reorder", "version": 1, "stage": "0", "order": "0.0"}, "give a list of names"),
    ],
)
def test_malformed_json_is_rejected(data: dict[str, object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check_step(data)


def test_cache_write_splits_a_stage() -> None:
    program = replay(matmul_dag(), (CacheWrite(C),))
    assert [p.op.name for p in program.stages] == ["C.local", "C"]
    assert program.named("C").op.reduce is None
    assert program.named("C.local").op.reduce is not None


def test_cache_read_redirects_one_consumer() -> None:
    program = replay(matmul_dag(), (CacheRead(InputId(1), C),))
    assert [p.op.name for p in program.stages] == ["B.cache", "C"]
    assert [p.op.name for p in program.consumers(program.named("B.cache").op)] == ["C"]
    assert [p.op.name for p in program.consumers(program.dag.inputs[1].op)] == ["B.cache"]


def test_rfactor_adds_the_partial_results() -> None:
    stage = row_sum().stages[0]
    program = replay(row_sum(), (Rfactor(C, len(stage.axes), 7, interleave=True),))
    partial = program.named(f"{stage.name}.rf").op
    assert partial.shape == (5, 7)
    assert partial.reduce_axes[0].extent == -(-300 // 7)


def test_parts_for_blocks_are_the_outermost_axis() -> None:
    stage = row_sum().stages[0]
    program = replay(row_sum(), (SplitReduce(C, len(stage.axes), 7),))
    assert program.named(f"{stage.name}.rf").op.shape == (7, 5)
    assert program.stage(C).op.reduce_axes[0].extent == 7


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Inline(C),), "is a reduction or an output"),
        ((Inline(StageId(7)),), "no stage 7"),
        ((Split(C, 3, (4,)),), "has no axis 3"),
        ((Split(C, 0, (4,)), Split(C, 0, (2,))), "split twice"),
        ((Reorder(C, (LoopId(0, 0),)),), r"must list its loops i\.0, j\.0, k\.0"),
        ((Annotate(C, LoopId(0, 7), "parallel"),), r"has no loop 0\.7"),
        ((Annotate(C, LoopId(0, 0), "fast"),), r"cannot be 'fast'.*loop i\.0 of stage C"),
        ((CacheRead(InputId(7), C),), "does not read 'in7'"),
        ((Rfactor(C, 0, 2, interleave=False),), "is no reduce axis"),
        (
            (Pack(InputId(1), 1, C, (LoopId(1, 0),)), Pack(InputId(1), 1, C, (LoopId(1, 0),))),
            "packed twice",
        ),
        ((Split(C, 0, (2**40,)),), "far longer than axis i of C"),
        ((Split(C, 0, ("a", 2**20, 2**20)),), "far longer than axis i of C"),
    ],
)
def test_a_step_that_does_not_fit_says_why(steps: tuple[object, ...], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        replay(matmul_dag(), steps)  # type: ignore[arg-type]


def test_what_defines_panels_stays_a_stage() -> None:
    a = placeholder((24, 20), name="A", constant=True)
    first = compute((24, 20), lambda i, j: a[i, j] + 1.0, name="F")
    dag = ComputeDAG([compute((24, 20), lambda i, j: first[i, j] * 2.0, name="S")])
    steps = Split(C, 0, (4,)), Pack(InputId(0), 0, C, (LoopId(0, 1),)), Inline(C)
    with pytest.raises(ScheduleError, match=r"F cannot be inlined: its loops are the panels"):
        replay(dag, steps)
    assert replay(
        dag, (Inline(C), Split(S, 0, (4,)), Pack(InputId(0), 0, S, (LoopId(0, 1),)))
    ).packs


def test_what_is_laid_out_in_panels_stays_a_stage() -> None:
    a = placeholder((24, 20), name="A")
    first = compute((24, 20), lambda i, j: a[i, j] + 1.0, name="F")
    dag = ComputeDAG([compute((24, 20), lambda i, j: first[i, j] * 2.0, name="S")])
    with pytest.raises(ScheduleError, match="F cannot be inlined: its result is laid out"):
        replay(dag, (Split(S, 0, (4,)), Pack(C, 0, S, (LoopId(0, 1),)), Inline(C)))


def test_stages_that_steps_add_have_ids_of_their_own() -> None:
    """A stage keeps its id; what is added for it again gets the next number."""
    program = replay(matmul_dag(), (CacheWrite(C), CacheWrite(C), CacheRead(InputId(0), C_SUM)))
    assert [plan.id for plan in program.stages] == [
        StageId(C_SUM, Role.CACHE),
        C_SUM,
        StageId(C, Role.ACCUMULATE, 1),
        C,
    ]
    assert [plan.op.name for plan in program.stages] == ["A.cache", "C.local", "C.local#2", "C"]
    assert [program.find(plan.id) for plan in program.stages] == list(program.stages)


def test_persons_find_stages_axes_and_decisions_by_name() -> None:
    sketch = generate(matmul_dag(), AVX512)[0]
    plan = sketch.program.named("C.local")
    assert plan.id == C_SUM and plan.axis("k") == 2 and plan.loop("k", 1) == LoopId(2, 1)
    assert sketch.decision("C.i@1") == sketch.program.stage(C).decision("i", 1)
    for find in (sketch.program.named, sketch.decision, plan.axis):
        with pytest.raises(ScheduleError, match="nothing"):
            find("nothing")


def roles(sketch: Sketch, stage: str) -> dict[str, LoopRole]:
    plan = sketch.program.named(stage)
    return {plan.labels([loop]): plan.role(loop) for loop in plan.loops()}


def test_loops_have_roles() -> None:
    tiled = generate(matmul_dag(), AVX512)[0]
    assert roles(tiled, "C") == {
        **{f"{axis}.0": LoopRole.PARALLEL for axis in "ij"},
        **{f"{axis}.1": LoopRole.L2_TILE for axis in "ij"},
        **{f"{axis}.2": LoopRole.SERIAL for axis in "ij"},
        **{f"{axis}.3": LoopRole.REGISTER_TILE for axis in "ij"},
        "j.4": LoopRole.VECTOR,
    }
    assert roles(tiled, "C.local")["k.1"] is LoopRole.TERMS
    on_gpu = roles(generate(matmul_dag(64, 64, 64), cuda_target("sm_90"))[0], "C")
    assert [on_gpu[f"j.{level}"] for level in range(5)] == [
        LoopRole.BLOCK,
        LoopRole.VTHREAD,
        LoopRole.THREAD,
        LoopRole.LANE,
        LoopRole.REGISTER_TILE,
    ]


def test_an_output_keeps_its_layout() -> None:
    a = placeholder((24, 20), name="A")
    first = compute((24, 20), lambda i, j: a[i, j] + 1.0, name="F")
    second = compute((24, 20), lambda i, j: first[i, j] * 2.0, name="S")
    steps = Split(S, 0, (4,)), Pack(C, 0, S, (LoopId(0, 1),))
    assert replay(ComputeDAG([second]), steps).packs
    with pytest.raises(ScheduleError, match=r"F is an output.*cache_read for S"):
        replay(ComputeDAG([first, second]), steps)


def test_the_initial_program_is_the_dag() -> None:
    dag = conv2d_relu()
    assert [p.op for p in initial_program(dag).stages] == list(dag.stages)
