"""Loops end where masks of their statements do."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from codegen.build import prepare
from codegen.host import host_target
from codegen.passes.skip import skip
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import select, unary
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.loopnest import Loop, LoopNest, LoopVar, Node, Store
from sketch.nest.walk import bodies, walk
from sketch.operators.matmul import matmul
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Rfactor
from tests.support.masked_rows import masked_attention

TARGET = replace(host_target(1), vector_bytes=16, registers=16, fma_accumulators=4)
ROWS, COLUMNS = 64, 64


def executions(nest: LoopNest) -> Counter[str]:
    """How often statements of each stage are executed; predicates of their own do not count."""
    counts: Counter[str] = Counter()
    values: dict[LoopVar, int] = {}

    def run(nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            if isinstance(node, Store):
                counts[node.stage_name] += 1
            elif isinstance(node, Loop):
                for value in range(0, int(node.extent) * int(node.stride), int(node.stride)):
                    values[node.var] = value
                    if all(p.low <= at(p.index) < p.high for p in node.clip):
                        run(node.body)
            else:
                run(tuple(itertools.chain.from_iterable(bodies(node))))

    def at(index: object) -> int:
        return index.const + sum(c * values[var] for var, c in index.terms)  # type: ignore[attr-defined]

    run(nest.roots)
    return counts


def one_kernel(dag: ComputeDAG) -> Sketch:
    """The first sketch that computes products for a block of rows."""
    return next(
        s for s in generate(dag, TARGET) if sum(p.attach is None for p in s.program.stages) == 1
    )


def test_half_of_a_square_is_left_out() -> None:
    sketch = one_kernel(masked_attention(ROWS, COLUMNS, depth=1, width=4))
    row = sample(sketch, 1, np.random.default_rng(3)).row(0)
    nest = lower(sketch, row)
    every, half = executions(nest), executions(skip(nest))
    for stage in ("products", "scores", "softmax.exp", "softmax"):
        assert 0.5 < half[stage] / every[stage] < 0.85, stage
    assert half["result"] == every["result"]


def test_what_sees_everything_stays_as_it_is() -> None:
    sketch = one_kernel(masked_attention(ROWS, COLUMNS, offset=-1, depth=1, width=4))
    nest = lower(sketch, sample(sketch, 1, np.random.default_rng(3)).row(0))
    assert executions(skip(nest))["products"] == executions(nest)["products"]
    open_rows = one_kernel(masked_attention(ROWS, COLUMNS, offset=COLUMNS, depth=1, width=4))
    nest = lower(open_rows, sample(open_rows, 1, np.random.default_rng(3)).row(0))
    assert executions(skip(nest)) == executions(nest)


@pytest.mark.parametrize("steps", [(1, 1), (1, 2), (1, 3)])
def test_prepared_code_leaves_columns_out(steps: tuple[int, int]) -> None:
    sketch = one_kernel(masked_attention(ROWS, COLUMNS, steps, depth=1, width=4))
    nest = lower(sketch, sample(sketch, 1, np.random.default_rng(3)).row(0))
    bare = replace(nest, roots=_without_needs(nest.roots))
    every, left = executions(prepare(bare, TARGET)), executions(prepare(nest, TARGET))
    assert left["softmax.exp"] < 0.9 * every["softmax.exp"]


def _without_needs(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(
        replace(node, needs=())
        if isinstance(node, Store)
        else replace(node, body=_without_needs(node.body))  # type: ignore[union-attr]
        for node in nodes
    )


def test_sums_of_both_axes_in_parts() -> None:
    """What adds parts of the rows names columns whose loop has been divided inside."""
    x, v = placeholder((75, 75), name="x"), placeholder((75, 1), name="v")
    i, j = reduce_axis(75, "i"), reduce_axis(75, "j")
    seen = compute((75, 75), lambda i, j: select(j < 2 * i, x[i, j], -math.inf), name="seen")
    powers = compute((75, 75), lambda i, j: unary("exp", seen[i, j]), name="powers")
    total = compute(1, lambda b: reducers.sum(powers[i, j], axis=(i, j)), name="total")
    dag, rng = ComputeDAG([total, matmul(powers, v, "result")]), np.random.default_rng(1)
    divided = [s for s in generate(dag, TARGET) if any(isinstance(x, Rfactor) for x in s.steps)]
    for sketch in divided:
        nest = prepare(lower(sketch, sample(sketch, 1, rng).row(0)), TARGET)
        left = [loop for loop in walk(nest.roots) if isinstance(loop, Loop) and loop.clip]
        assert any(".p" in loop.var.name for loop in left)
