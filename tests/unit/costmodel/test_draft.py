"""The draft model: directions that must hold on any machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.extract import draft_seconds
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.matmul import matmul
from sketch.population.population import from_rows
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.target.rates import Rates
from sketch.target.target import Target


@pytest.fixture(scope="module")
def sketch(target: Target) -> Sketch:
    a = placeholder((512, 512), name="a")
    b = placeholder((512, 512), name="b", constant=True)
    return generate(ComputeDAG([matmul(a, b)]), target)[0]


def values(sketch: Sketch, target: Target, rows: int, vectors: int) -> dict[str, int]:
    """Everything 1, but the register tile and two parallel tasks."""
    row = {decision.name: 1 for decision in sketch.decisions}
    row["matmul.i@3"], row["matmul.j@3"] = rows, vectors
    row["matmul.i@2"] = 256 // rows
    return row


def estimate(sketch: Sketch, target: Target, rows: int, vectors: int) -> float:
    row = values(sketch, target, rows, vectors)
    return float(draft_seconds(from_rows(replace(sketch, target=target), [row]))[0])


def test_accumulators_that_hide_the_latency_win(sketch: Sketch, target: Target) -> None:
    good = estimate(sketch, target, 4, 2)
    assert good < 0.6 * estimate(sketch, target, 1, 1)
    assert good < estimate(sketch, target, 2, 1)


def test_spills_are_punished(sketch: Sketch, target: Target) -> None:
    more = replace(target, registers=32)
    assert estimate(sketch, target, 8, 2) > 1.2 * estimate(sketch, more, 8, 2)
    assert estimate(sketch, target, 4, 2) == estimate(sketch, more, 4, 2)


def test_threads_help_where_there_are_tasks(sketch: Sketch, target: Target) -> None:
    one, two = target.with_threads(1), target.with_threads(2)
    assert estimate(sketch, two, 4, 2) < 0.8 * estimate(sketch, one, 4, 2)


def test_wider_vectors_are_faster(sketch: Sketch, target: Target) -> None:
    scalar = Target("cpu", "scalar", threads=2, vector_bytes=4, registers=16)
    assert estimate(sketch, target, 4, 2) < 0.5 * estimate(sketch, scalar, 4, 2)


def test_rates_are_those_of_the_target(sketch: Sketch, target: Target) -> None:
    usual = estimate(sketch, target, 4, 2)
    half = replace(target, rates=Rates(hertz=2e9))
    assert estimate(sketch, half, 4, 2) == pytest.approx(2 * usual, rel=1e-12)
    slow = replace(target, rates=Rates(l2=0.01, l3=0.01, memory=0.001))
    assert estimate(sketch, slow, 4, 2) > usual


def test_smaller_caches_are_not_faster(sketch: Sketch, target: Target) -> None:
    tiny = Target(
        "cpu", "tiny", threads=2, vector_bytes=32, registers=16, l1_bytes=1024, l2_bytes=8192,
        l3_bytes=65536,
    )  # fmt: skip
    assert estimate(sketch, tiny, 4, 2) > estimate(sketch, target, 4, 2)
