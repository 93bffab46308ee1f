"""Convolutions of narrow numbers whose operands fill registers row by row."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.host import host_target
from codegen.passes.legalize import legalize
from codegen.passes.tile_operands import tile_operands
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Expr, cast
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.loopnest import Allocate
from sketch.nest.walk import walk
from sketch.operators.conv import conv2d
from sketch.population.population import sample
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Tensorize
from sketch.variants.narrow_rows import narrow_implicit_gemm, narrow_zero_padded
from sketch.verify import verify
from tests.support.compiled import run_compiled
from tests.support.units import BYTES, HALVES, TILES, int_arrays, int_window, on_units, oracle

FORMS = (narrow_zero_padded, narrow_implicit_gemm)


@pytest.mark.parametrize("types", [BYTES, HALVES], ids=str)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_units_read_a_copy_and_compute_the_same(form, types, rng: np.random.Generator) -> None:
    """Of 7 x 7 pixels, also on a machine without such units."""
    dag = int_window(7, 8, 18, 3, types)
    other = form(dag)
    assert other is not None
    inputs = int_arrays(dag, rng)
    expected = oracle(dag, inputs)
    np.testing.assert_array_equal(oracle(other, inputs).reshape(expected.shape), expected)
    sketches = [s for s in on_units(other, TILES) if _unit_loops(s) == 3]
    assert sketches
    for sketch in sketches[::7]:
        assert any(plan.op.name in ("C.framed", "C.rows") for plan in sketch.program.stages)
        row = sample(sketch, 1, rng).row(0)
        verify(lower(sketch, row))
        found = run_compiled(sketch, row, inputs, host_target(1))
        np.testing.assert_array_equal(found["C"].reshape(expected.shape), expected)


@pytest.mark.parametrize("taps", [1, 3])
def test_the_copy_is_never_computed_inside_a_unit(taps: int) -> None:
    """Whose rows would be no rows of memory any more."""
    other = narrow_implicit_gemm(int_window(7, 8, 18, taps))
    assert other is not None
    sketches = on_units(other, TILES)
    assert sketches
    for sketch in sketches:
        assert any(plan.op.name == "C.rows" for plan in sketch.program.stages)


def test_zeros_around_an_image_are_not_copied_for_each_tap(rng: np.random.Generator) -> None:
    dag = int_window(16, 64, 16, 3)
    padded = narrow_zero_padded(dag)
    assert padded is not None
    for program, copied in ((dag, True), (padded, False)):
        sketch = next(s for s in on_units(program, TILES) if _unit_loops(s) == 3)
        row = {decision.id: 1 for decision in sketch.decisions}
        nest = tile_operands(legalize(lower(sketch, row), TILES), TILES)
        buffers = {node.buffer.name for node in walk(nest.roots) if isinstance(node, Allocate)}
        assert any(name.endswith(".part") for name in buffers) == copied


def test_what_has_another_form() -> None:
    """Long lines fill registers by themselves; wider numbers have no unit with several rows."""
    wide, narrow = int_window(14, 8, 16, 3), int_window(7, 8, 16, 1)
    assert narrow_zero_padded(wide) is not None and narrow_implicit_gemm(wide) is None
    assert narrow_zero_padded(narrow) is None and narrow_implicit_gemm(narrow) is not None
    for images in (1, 2):
        assert narrow_implicit_gemm(_products(images, added=False)) is not None
        assert narrow_implicit_gemm(_products(images, added=True)) is None
    data = placeholder((1, 7, 7, 8), name="x")
    weight = placeholder((3, 3, 8, 16), name="w", constant=True)
    floats = ComputeDAG([conv2d(data, weight, 1, 1)])
    assert [form(floats) for form in FORMS] == [None, None]


def _products(images: int, added: bool) -> ComputeDAG:
    """Of pixels [images, 5, 6] by themselves, added to a map or not."""
    data = placeholder((images, 5, 6, 8), "uint8", name="A")
    weight, c = placeholder((8, 16), "int8", name="B", constant=True), reduce_axis(8, "c")

    def body(n: Expr, h: Expr, w: Expr, o: Expr) -> Expr:
        return reducers.sum(cast(data[n, h, w, c], "int32") * cast(weight[c, o], "int32"), c)

    sums = compute((images, 5, 6, 16), body, name="C")
    other = placeholder(sums.shape, "int32", name="other")
    total = compute(sums.shape, lambda *point: sums[point] + other[point], "added")
    return ComputeDAG([total if added else sums])


def _unit_loops(sketch: Sketch) -> int:
    """Loops of the unit: three where it has rows."""
    return max(len(step.loops) for step in sketch.steps if isinstance(step, Tensorize))
