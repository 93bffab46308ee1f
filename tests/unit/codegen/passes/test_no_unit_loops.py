"""Where no loop is for a tensor unit, the passes of units have nothing to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from codegen.passes.legalize import legalize
from codegen.passes.means import means
from codegen.passes.simplify import simplify
from codegen.passes.tensorize import tensorize
from codegen.passes.tile_blocks import has_unit_loops
from codegen.passes.tile_operands import tile_operands
from codegen.passes.tile_registers import tile_registers
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.units import TILES, int_product
from tests.support.workloads import conv2d_relu, conv2d_residual, depthwise, matmul_dag

PROGRAMS = (conv2d_relu, conv2d_residual, depthwise, matmul_dag, lambda: int_product(16, 32, 64))


@pytest.mark.parametrize("dag", PROGRAMS)
def test_passes_of_units_leave_other_nests_as_they_are(dag: Callable[[], ComputeDAG]) -> None:
    target = TILES  # which has units of both kinds
    looked_at = 0
    for sketch in generate(dag(), target):
        rows = sample(sketch, 20, np.random.default_rng(0))
        for row in np.flatnonzero(feasible(sketch, rows.columns()))[:1].tolist():
            nest = legalize(means(simplify(lower(sketch, rows.row(row)))), target)
            if not has_unit_loops(nest):
                looked_at += 1
                assert tile_registers(nest, target).roots is nest.roots
                assert tensorize(nest, target).roots is nest.roots
                assert tile_operands(nest, target).roots is nest.roots
    assert looked_at
