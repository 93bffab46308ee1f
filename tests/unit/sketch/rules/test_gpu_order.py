"""The order of blocks is a decision where L2 does not hold what a product reads and writes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sketch.errors import ScheduleError
from sketch.lower import lower
from sketch.nest.printer import print_nest
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.decision import LoopDecision
from sketch.schedule.loop import LoopId
from sketch.schedule.replay import replay
from sketch.schedule.sketch import Sketch, sketch_from_steps
from sketch.schedule.step_json import steps_to_json
from sketch.schedule.step_reading import steps_from_json
from sketch.schedule.steps import BLOCK_ROWS, BlockOrder
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.targets import AVX512
from tests.support.workloads import batch_matmul_dag, conv2d_relu, matmul_dag

GPU = cuda_target("h200")
NO_L2 = replace(GPU, l2_bytes=0)


def orders(sketch: Sketch) -> list[BlockOrder]:
    return [step for step in sketch.steps if isinstance(step, BlockOrder)]


def of_product(size: int, target: Target = GPU) -> Sketch:
    return generate(matmul_dag(size, size, size), target)[0]


def test_products_that_l2_holds_have_none() -> None:
    assert orders(of_product(1024)) == orders(of_product(2048)) == []
    (order,) = orders(of_product(4096))
    assert order.rows == LoopDecision(order.stage, 0, "together")
    assert orders(of_product(1024, cuda_target("t4")))
    assert not orders(generate(matmul_dag(4096, 1, 4096), NO_L2)[0])
    assert not any(map(orders, generate(matmul_dag(64, 64, 64), AVX512)))


def test_it_changes_no_other_step_or_decision() -> None:
    with_order, without = of_product(256, NO_L2), of_product(256)
    assert tuple(s for s in with_order.steps if not isinstance(s, BlockOrder)) == without.steps
    choices = {d.id: d.choices for d in with_order.decisions}
    (order,) = orders(with_order)
    assert choices.pop(order.rows) == BLOCK_ROWS
    assert choices == {d.id: d.choices for d in without.decisions}


@pytest.mark.parametrize(
    ("dag", "axis"),
    [(batch_matmul_dag(3, 64, 48, 64), "i"), (conv2d_relu(28, 16, 32, 3, 1, 1), "i2")],
)
def test_rows_are_along_the_longest_axis_but_the_fastest(dag, axis: str) -> None:  # type: ignore[no-untyped-def]
    sketch = generate(dag, NO_L2)[0]
    (order,) = orders(sketch)
    plan = sketch.program.stage(order.stage)
    assert plan.op.all_axes[order.loop.axis].name == axis


def test_the_outermost_loop_of_its_axis_says_so_in_every_row() -> None:
    sketch = of_product(256, NO_L2)
    (order,) = orders(sketch)
    population = sample(sketch, 32, np.random.default_rng(0))
    for row in map(population.row, range(4)):
        text = print_nest(lower(sketch, row))
        together = row[order.rows]
        assert text.count(f" {together} together") == (together > 1)


def test_it_is_recorded_by_position() -> None:
    sketch = of_product(256, NO_L2)
    names = tuple(decision.id for decision in sketch.decisions)
    data, texts = steps_to_json(sketch.program, sketch.steps, names)
    steps, decisions = steps_from_json(matmul_dag(256, 256, 256), data, texts)
    again = sketch_from_steps(sketch.dag, steps, "direct", NO_L2)
    assert again.key == sketch.key != of_product(256).key and decisions == names


def test_loops_of_threads_and_odd_rows_are_refused() -> None:
    sketch = of_product(256, NO_L2)
    (order,) = orders(sketch)
    plan = sketch.program.stage(order.stage)
    threads = LoopId(order.loop.axis, 2)
    for wrong, message in (
        (replace(order, loop=threads), f"loop {plan.labels([threads])} .* none of blocks"),
        (replace(order, rows=3), "cannot have 3 rows of blocks"),
        (replace(order, rows=0), "cannot have 0 rows of blocks"),
    ):
        with pytest.raises(ScheduleError, match=message):
            replay(sketch.dag, (*sketch.steps, wrong))
