"""Copies of a statement that are emitted together are those that are emitted one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from codegen.build import emit
from codegen.llvm.unrolled_copies import UnrolledCopies
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.nest.loopnest import Loop
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target
from sketch.variants.derive import ALGORITHMS, variants_of
from tests.support.targets import AVX512, ODD
from tests.support.workloads import conv2d_relu, conv2d_residual, depthwise, matmul_dag

Texts = dict[tuple[int, int], str]
ROWS = 40
KEPT = 1
SKETCHES = 10  # about
PROGRAMS = (lambda: conv2d_residual(channels=32), conv2d_relu, depthwise, matmul_dag)


def sketches(dag: ComputeDAG, target: Target) -> list[Sketch]:
    """Of a program and of its variants."""
    forms = [dag, *variants_of(dag, ALGORITHMS).values()]
    found = [sketch for form in forms for sketch in generate(form, target)]
    return found[:: max(1, len(found) // SKETCHES)]


def texts(found: list[Sketch]) -> Texts:
    """LLVM IR of a few rows of each sketch."""
    result: Texts = {}
    for number, sketch in enumerate(found):
        rows = sample(sketch, ROWS, np.random.default_rng(number))
        fits = np.flatnonzero(feasible(sketch, rows.columns()))[:KEPT]
        for row in fits.tolist():
            nest = lower(sketch, rows.row(row))
            result[number, row] = emit(nest, sketch.target, "kernel").text
    return result


@pytest.mark.parametrize("target", [AVX512, ODD], ids=["avx512", "odd"])
@pytest.mark.parametrize("dag", PROGRAMS)
def test_together_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch, dag: Callable[[], ComputeDAG], target: Target
) -> None:
    found = sketches(dag(), target)
    taken: list[bool] = []
    original = UnrolledCopies.emit

    def counted(self: UnrolledCopies, loop: Loop) -> bool:
        taken.append(original(self, loop))
        return taken[-1]

    monkeypatch.setattr(UnrolledCopies, "emit", counted)
    together = texts(found)
    monkeypatch.setattr(UnrolledCopies, "emit", lambda self, loop: False)
    assert texts(found) == together
    assert together
    assert any(taken)
