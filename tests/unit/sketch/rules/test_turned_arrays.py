"""Stages that turn an array: what a vector's lines hold next is taken next."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.nest.loopnest import LoopKind
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from tests.support.compiled import random_run
from tests.support.workloads import random_inputs

IMAGE = placeholder((2, 9, 7, 20), name="x")
MATRIX = placeholder((33, 18), name="x")
NUMBER = placeholder((), name="scale")

# By name: the stage, and the axis along which its source lies.
TURNED: dict[str, tuple[Tensor, int]] = {
    "channels first": (compute((2, 20, 9, 7), lambda n, c, h, w: IMAGE[n, h, w, c], name="y"), 1),
    "channels last": (compute((2, 7, 20, 9), lambda n, w, c, h: IMAGE[n, h, w, c], name="y"), 2),
    "matrix": (compute((18, 33), lambda i, j: MATRIX[j, i] * 2.0, name="y"), 0),
}
PLAIN: dict[str, Tensor] = {
    "rows swapped": compute((9, 2, 7, 20), lambda h, n, w, c: IMAGE[n, h, w, c], name="y"),
    "every second": compute((2, 9, 7, 10), lambda n, h, w, c: IMAGE[n, h, w, 2 * c], name="y"),
    "a row for all": compute((33, 18), lambda i, j: MATRIX[0, j], name="y"),
    "a number for all": compute((33, 18), lambda i, j: MATRIX[i, j] * NUMBER[()], name="y"),
}


@pytest.mark.parametrize("name", sorted(TURNED))
def test_neighbours_in_the_source_are_taken_one_after_the_other(name: str) -> None:
    result, axis = TURNED[name]
    dag, target = ComputeDAG([result]), host_target(2)
    for sketch in generate(dag, target):
        (plan,) = sketch.program.stages
        loops = plan.loops()
        kinds = [plan.kinds.get(loop) for loop in loops]
        inside = loops.index(plan.loop(plan.axis_at(axis), 1))
        vector = plan.loop(result.op.axes[-1])
        assert loops.index(vector) == inside - 1
        assert kinds[inside + 1 :] == [LoopKind.UNROLLED, LoopKind.VECTORIZED]
    inputs = random_inputs(dag, np.random.default_rng(0))
    (expected,) = interpret(dag, inputs).values()
    for seed in range(6):
        found = random_run(dag, inputs, target, 0, seed=seed)["y"]
        np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_others_walk_their_own_order(name: str) -> None:
    dag = ComputeDAG([PLAIN[name]])
    for sketch in generate(dag, host_target(2)):
        (plan,) = sketch.program.stages
        outer = plan.op.axes[:-1]
        last = max((a for a in outer if a.extent > 1), key=outer.index)
        assert set(plan.splits) <= {plan.axis(last), plan.axis(plan.op.axes[-1])}
