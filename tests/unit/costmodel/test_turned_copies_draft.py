"""What copies that turn an array cost, by how far they walk along what they read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.extract import draft_seconds
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.operators.gather import take
from sketch.population.population import from_rows
from sketch.rules.generate import generate
from sketch.target.target import Target

ROWS, EXTENT, COLUMNS = 16, 48, 64


def data() -> Tensor:
    return placeholder((COLUMNS, ROWS, EXTENT), name="x")


def turned() -> Tensor:
    x = data()
    return compute((ROWS, EXTENT, COLUMNS), lambda h, w, c: x[c, h, w], name="y")


def seconds(result: Tensor, target: Target, trips: int) -> float:
    """On one thread, with ``trips`` of the loop next around the lanes."""
    sketch = generate(ComputeDAG([result]), replace(target, threads=1))[0]
    row = {decision.id: 1 for decision in sketch.decisions}
    row[sketch.decision("y.w@1")] = trips
    return float(draft_seconds(from_rows(sketch, [row]))[0])


@pytest.mark.parametrize("trips", [4, 8, 16])
def test_squares_are_faster_than_gathers(target: Target, trips: int) -> None:
    assert seconds(turned(), target, trips) < 0.85 * seconds(turned(), target, 3)


def test_what_is_computed_of_elements_reads_a_copy(target: Target) -> None:
    x = data()
    roots = compute((ROWS, EXTENT, COLUMNS), lambda h, w, c: x[c, h, w] * x[c, h, w], name="y")
    found, gathers = (seconds(roots, target, trips) for trips in (16, 3))
    assert seconds(turned(), target, 16) < found < 0.9 * gathers


def test_rows_that_data_choose_are_no_copy(target: Target) -> None:
    """A place of theirs is read as well."""
    chosen = take(data(), placeholder((COLUMNS,), "int32", "rows"), 0, name="y")
    sketch = generate(ComputeDAG([chosen]), target)[0]
    row = {decision.id: 1 for decision in sketch.decisions}
    assert draft_seconds(from_rows(sketch, [row]))[0] > 0
