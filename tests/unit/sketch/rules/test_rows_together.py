"""Rows that are reduced: a few of them at a time, in one of the sketches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import exp
from sketch.lang.tensor import Tensor, placeholder
from sketch.lower.lower import lower
from sketch.nest.loopnest import LoopKind
from sketch.nest.walk import stores
from sketch.operators.activations import relu
from sketch.operators.elementwise import map_elements
from sketch.operators.matmul import matmul
from sketch.operators.normalization import normalize
from sketch.operators.softmax import log_softmax, softmax
from sketch.oracle.reference import reference
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.verify import verify
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs

ONE = host_target(threads=1)
_TOLERANCE = 1e-5

Operator = Callable[[Tensor], Tensor]


def rows_at_a_time(sketch: Sketch) -> int:
    """Of the last stage, in all its loops but those of its vectors."""
    row = sample(sketch, 1, np.random.default_rng(0)).row(0)
    *_, (store, loops) = stores(lower(sketch, row).roots)
    assert store.stage is not None
    rows = store.stage.axes[:-1]
    trips = [int(n.extent) for n in loops if n.kind is LoopKind.UNROLLED and n.var.axis in rows]
    return trips[-1] if trips else 1


def sketches_of(operator: Operator, shape: tuple[int, ...], l1_bytes: int = 1 << 15) -> list[int]:
    dag = ComputeDAG([operator(placeholder(shape, name="x"))])
    return [rows_at_a_time(sketch) for sketch in generate(dag, replace(ONE, l1_bytes=l1_bytes))]


@pytest.mark.parametrize("operator", [softmax, lambda x: normalize(x, [1], 1e-5)])
@pytest.mark.parametrize(("room", "together"), [(9, 4), (3, 2), (1, 1)])
def test_rows_that_fit_the_first_cache(operator: Operator, room: int, together: int) -> None:
    found = sketches_of(operator, (64, 48), room * 3 * 4 * 48)
    assert set(found) == {1, together}


def test_only_where_rows_are_reduced_and_there_are_many() -> None:
    assert set(sketches_of(lambda x: map_elements(x, relu, "y"), (64, 48))) == {1}
    assert set(sketches_of(lambda x: softmax(x, 0), (64, 48))) == {1}  # the sums are of columns
    assert set(sketches_of(softmax, (12, 48))) == {1}
    assert len(sketches_of(softmax, (64, 48))) <= 48


@pytest.mark.parametrize("shape", [(37, 19), (3, 11, 32), (64, 131)])
def test_results_of_any_number_of_rows(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    for operator in (softmax, log_softmax, lambda x: normalize(x, [len(shape) - 1], 1e-5)):
        dag = ComputeDAG([operator(placeholder(shape, name="x"))])
        inputs = random_inputs(dag, rng)
        expected = reference(dag, inputs, rng)
        for sketch in [s for s in generate(dag, ONE) if rows_at_a_time(s) > 1][:1]:
            row = sample(sketch, 1, rng).row(0)
            verify(lower(sketch, row))
            outputs = run_compiled(sketch, row, inputs, ONE)
            shaped = {name: array.reshape(shape) for name, array in outputs.items()}
            assert expected.check(shaped) <= _TOLERANCE


def test_what_is_computed_inside_tiles_of_products_is_scheduled_as_ever() -> None:
    """Tiles have as many rows as decided: nothing is written out for each of them."""
    x, w = placeholder((128, 96), name="x"), placeholder((96, 64), name="w", constant=True)
    powers = map_elements(x, exp, "powers")
    dag = ComputeDAG([matmul(powers, w, "product")])
    found = 0
    for sketch in generate(dag, ONE):
        for plan in sketch.program.stages:
            if plan.op.name == "powers" and plan.attach is not None:
                found += 1
                assert LoopKind.UNROLLED not in plan.kinds.values()
    assert found
