"""Trips of an unrolled reduction are kept apart where operands are fetched ahead."""

from __future__ import annotations

import pytest

from codegen.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.operators.matmul import matmul
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from tests.support.targets import AVX512

BARRIER = 'call void asm sideeffect "", "~{memory}"()'


def packed_product() -> Sketch:
    """A sketch that packs its constant operand, and may fetch it ahead."""
    data = placeholder((64, 256), name="A")
    weight = placeholder((256, 512), name="B", constant=True)
    found = generate(ComputeDAG([matmul(data, weight, "C")]), AVX512)
    return next(s for s in found if any("prefetch" in label for label in s.labels.values()))


def emitted(unroll: int, ahead: int) -> list[str]:
    """The lines of a kernel with the smallest choices but these."""
    sketch = packed_product()
    chosen = {"unroll": unroll, "prefetch": ahead}
    values = {d: next((v for k, v in chosen.items() if k in label), 1)
              for d, label in sketch.labels.items()}  # fmt: skip
    return emit(lower(sketch, values), AVX512, "kernel").text.splitlines()


@pytest.mark.parametrize(("unroll", "ahead"), [(4, 0), (1, 0)])
def test_there_is_nothing_to_keep_apart(unroll: int, ahead: int) -> None:
    assert not any(BARRIER in line for line in emitted(unroll, ahead))


def test_what_a_trip_fetches_ahead_is_before_the_loads_of_the_next_one() -> None:
    lines = emitted(4, 2)
    fetches = [n for n, line in enumerate(lines) if "call void @llvm.prefetch" in line]
    barriers = [n for n, line in enumerate(lines) if BARRIER in line]
    assert fetches
    assert barriers
    assert all(any(f < b for f in fetches) for b in barriers)
