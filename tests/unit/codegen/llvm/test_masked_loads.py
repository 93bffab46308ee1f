"""Masked loads stay masked, whatever LLVM makes of the instructions that use them."""

import numpy as np
import pytest

import autosched as asd
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Axis, Expr, select
from sketch.lang.functions import all_of, maximum
from sketch.target.target import Target
from tests.support.compiled import check_run
from tests.support.cpu_targets import in_turns, runnable
from tests.support.examples import half

N, TAPS = 500, 9


def _inside(index: Expr) -> Expr:
    return all_of(index >= 0, index < N)


def _filtered(reduce: str) -> ComputeDAG:
    """A reduction over shifted elements, as padded convolutions and pools have it."""
    x, w, k = asd.placeholder((N,), name="x"), asd.placeholder((TAPS,), name="w"), _taps()

    def element(i: Axis) -> Expr:
        index = i + k - TAPS // 2
        if reduce == "sum":
            return asd.sum(select(_inside(index), x[index] * w[k], 0.0), axis=k)
        return asd.max(select(_inside(index), x[index] - w[k], -1e30), axis=k)

    return ComputeDAG([asd.compute((N,), element, name="y")])


def _taps() -> Axis:
    return asd.reduce_axis(TAPS, "k")


def _shifted(kind: str) -> ComputeDAG:
    """Shifted elements with constants in the lanes that are outside."""
    x = asd.placeholder((N,), name="x")

    def element(i: Axis) -> Expr:
        before, after = x[i - 3], x[i + 5]
        values = {
            "add": (before + 1.0, 5.0),
            "difference": (2.0 - before, 2.0),
            "product": (before * after + 1.0, 1.0),
            "largest": (maximum(before, 0.25), 0.25),
        }
        return select(all_of(i >= 3, i < N - 5), *values[kind])

    return ComputeDAG([asd.compute((N,), element, name="y")])


PROGRAMS = {
    "sum": lambda: _filtered("sum"),
    "max": lambda: _filtered("max"),
    **{
        kind: lambda kind=kind: _shifted(kind)
        for kind in ("add", "difference", "product", "largest")
    },
}


@pytest.mark.parametrize("first", half([0, 4]))
@pytest.mark.parametrize(("name", "target"), in_turns(sorted(PROGRAMS), runnable()))
def test_masked_off_lanes_touch_no_memory(name: str, target: Target, first: int) -> None:
    dag = PROGRAMS[name]()
    rng = np.random.default_rng(0)
    inputs = {
        tensor.name: rng.standard_normal(tensor.shape, dtype=np.float32) for tensor in dag.inputs
    }
    for seed in range(first, first + 4):
        check_run(dag, inputs, target.with_threads(1), choice=seed, seed=seed)
