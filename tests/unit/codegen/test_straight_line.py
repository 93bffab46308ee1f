"""Schedules that would keep LLVM busy for minutes are refused with one error."""

from __future__ import annotations

from dataclasses import replace

import pytest

import autosched as asd
from codegen.build import prepare
from codegen.errors import CodegenError
from codegen.straight_line import check_straight_line
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.nest.loopnest import LoopNest
from sketch.schedule.loop import LoopId
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Annotate
from sketch.target.code_limits import CodeLimits
from sketch.target.target import Target

TARGET = Target("cpu", "invented", vector_bytes=16)


def scaled(rows: int, columns: int, *kinds: tuple[int, str]) -> LoopNest:
    a = asd.placeholder((rows, columns), name="A")
    dag = ComputeDAG([asd.compute((rows, columns), lambda i, j: a[i, j] * 2.0 + 1.0, name="C")])
    steps = tuple(Annotate(StageId(0), LoopId(axis, 0), kind) for axis, kind in kinds)
    return lower(Sketch(dag, steps, TARGET), {})


def test_many_copies_are_refused_and_a_few_are_not() -> None:
    prepare(scaled(4, 1000, (1, "unrolled")), TARGET)
    large = scaled(1000, 1000, (0, "unrolled"), (1, "unrolled"))
    with pytest.raises(CodegenError, match=r"3000000 instructions, at most 65536 .*stage C of"):
        prepare(large, TARGET)
    few = replace(TARGET, code=CodeLimits(straight_instructions=100))
    with pytest.raises(CodegenError, match="at most 100 become code"):
        check_straight_line(scaled(4, 1000, (1, "unrolled")), few)
    check_straight_line(scaled(4, 1000), replace(TARGET, code=CodeLimits(straight_instructions=1)))


def test_wide_vectors_are_refused_unless_they_are_cut() -> None:
    prepare(scaled(4, 1001, (1, "vectorized")), TARGET)
    prepare(scaled(4, 20000, (1, "vectorized")), TARGET)  # 5000 instructions of 4 lanes
    with pytest.raises(CodegenError, match=r"20001 lanes takes 80004 bytes, at most 16384"):
        prepare(scaled(4, 20001, (1, "vectorized")), TARGET)
