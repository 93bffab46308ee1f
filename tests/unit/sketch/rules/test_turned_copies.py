"""Copies that turn an array walk along what is read, next around the lanes."""

from __future__ import annotations

import pytest

import autosched as asd
from codegen.host import cpu_target
from sketch.dag.dag import ComputeDAG
from sketch.nest.loopnest import LoopKind
from sketch.rules.generate import generate


def turned(*ones: int) -> ComputeDAG:
    """``[32, 3, 64, *ones] -> [64, 3, *ones, 32]``."""
    data = asd.placeholder((32, 3, 64, *ones), name="data")
    result = asd.compute(
        (64, 3, *ones, 32), lambda i, j, *k: data[k[-1], j, i, *k[:-1]], name="result"
    )
    return ComputeDAG([result])


@pytest.mark.parametrize("ones", [(), (1,), (1, 1)])
def test_dimensions_of_one_element_have_no_neighbours(ones: tuple[int, ...]) -> None:
    for sketch in generate(turned(*ones), cpu_target("cpu-avx2")):
        (stage,) = sketch.program.stages
        kinds = [stage.kinds.get(loop) for loop in stage.order]
        around = stage.order[kinds.index(LoopKind.UNROLLED) - 1]
        assert (around.axis, around.level) == (0, 1)
