"""What several passes over a row keep lies where the last of them writes."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.passes.in_place import in_place
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Axis, Expr, select
from sketch.lang.functions import all_of, exp
from sketch.lang.reducers import sum
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import Allocate, LoopNest
from sketch.nest.walk import walk
from sketch.operators.matmul import matmul
from sketch.operators.normalization import normalize
from sketch.operators.softmax import softmax
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.compiled import check_run
from tests.support.cpu_targets import instruction_sets
from tests.support.workloads import random_inputs

TARGET = instruction_sets()[0]


def nests(result: Tensor, target: Target = TARGET) -> list[LoopNest]:
    dag, rng = ComputeDAG([result]), np.random.default_rng(0)
    found = []
    for sketch in generate(dag, target):
        rows = sample(sketch, 3, rng)
        found += [lower(sketch, rows.row(n)) for n in range(len(rows.values))]
    return found


def kept(nest: LoopNest) -> set[str]:
    return {node.buffer.name for node in walk(nest.roots) if isinstance(node, Allocate)}


@pytest.mark.parametrize("shape", [(6, 32), (9, 37), (1, 80), (2, 5, 48)])
def test_powers_of_softmax_lie_in_the_output(shape: tuple[int, ...]) -> None:
    x = placeholder(shape, name="x")
    moved = 0
    data = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    for nest in nests(softmax(x)):
        after = in_place(nest)
        moved += "softmax.exp" in kept(nest) and "softmax.exp" not in kept(after)
        assert kept(nest) - kept(after) <= {"softmax.exp"}
        expected, found = (run_nest(n, {"x": data})["softmax"] for n in (nest, after))
        assert (expected == found).all()
    assert moved


@pytest.mark.parametrize("axis", [0, 1])
def test_what_two_blocks_keep_stays_their_own(axis: int) -> None:
    """Powers of a block and of its neighbours are other blocks' results."""
    shape = (12, 32)
    x = placeholder(shape, name="x")
    power = compute(shape, lambda i, j: exp(x[i, j]), name="power")
    step = reduce_axis(3, "step")

    def window(i: Axis, j: Axis) -> Expr:
        place = (i, j)[axis] + step - 1
        inside = all_of(place >= 0, place < shape[axis])
        near = power[place, j] if axis == 0 else power[i, place]
        return sum(select(inside, near, 0.0), axis=step)

    near = compute(shape, window, name="near")
    y = compute(shape, lambda i, j: power[i, j] / (near[i, j] + 1.0), name="y")
    data = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    for nest in nests(y):
        expected, found = (run_nest(n, {"x": data})["y"] for n in (nest, in_place(nest)))
        assert (expected == found).all()


def doubled(x: Tensor) -> Tensor:
    """Each power is read once by another stage, and never again."""
    power = compute(x.shape, lambda i, j: exp(x[i, j]), name="power")
    return compute(x.shape, lambda i, j: power[i, j] * 2.0, name="y")


def test_nothing_else_moves() -> None:
    x, w = placeholder((24, 40), name="x"), placeholder((40, 48), name="w", constant=True)
    for result in (doubled(x), matmul(x, w), normalize(x, [1], 1e-5)):
        assert all(
            in_place(nest) is nest or kept(in_place(nest)) == kept(nest) for nest in nests(result)
        )


def turned(x: Tensor) -> Tensor:
    """The last pass reads rows and writes columns."""
    y = softmax(x)
    return compute(x.shape[::-1], lambda i, j: y[j, i] * 2.0, name="z")


@pytest.mark.parametrize("target", instruction_sets())
@pytest.mark.parametrize("make", [softmax, turned])
def test_kernels_are_right(make: object, target: Target) -> None:
    x = placeholder((13, 70), name="x")
    dag = ComputeDAG([make(x)])  # type: ignore[operator]
    for choice in range(4):
        check_run(dag, random_inputs(dag, np.random.default_rng(choice)), target, choice, choice)
