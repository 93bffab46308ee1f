"""Tensor units of Arm on an emulated processor: it computes what their descriptions say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.build import build
from codegen.host import cpu_target
from sketch.lang.dtypes import is_float, numpy_dtype
from sketch.lower import lower
from sketch.population.population import mutate, sample
from sketch.rules.unit_fit import unit_of
from sketch.target.units import TensorUnit, units_of
from tests.support.arm_floats import sums_of_pairs
from tests.support.compiled import packed_inputs
from tests.support.qemu import missing_qemu, run_in_qemu
from tests.support.units import HALVES, int_arrays, int_product, int_window, on_units, oracle

ARM = cpu_target("cpu-neoverse-v1", 1)
UNITS = units_of(ARM)
FLOATS = tuple(unit for unit in UNITS if is_float(unit.acc))
_MISSING = missing_qemu()
pytestmark = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))


def on_unit(dag, unit: TensorUnit):
    return [sketch for sketch in on_units(dag, ARM) if unit_of(sketch, UNITS) is unit]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_an_emulated_processor_computes_the_oracle(unit: TensorUnit, tmp_path: Path) -> None:
    """Ends of rows, columns and terms; padding; tiles that are visited several times."""
    rng, types = np.random.default_rng(0), (unit.lhs, unit.rhs)
    for dag in (int_product(7, 18, 2 * unit.k + 3, types), int_window(5, 9, 9, 3, types)):
        inputs = int_arrays(dag, rng)
        for sketch in on_unit(dag, unit)[::2]:
            row = mutate(sample(sketch, 1, rng), rng).row(0)
            kernel = build(lower(sketch, row), ARM)
            found = run_in_qemu(kernel, packed_inputs(sketch, row, inputs), tmp_path)["C"]
            np.testing.assert_array_equal(found, oracle(dag, inputs).reshape(-1))


@pytest.mark.parametrize("unit", FLOATS, ids=lambda unit: unit.name)
def test_floats_are_rounded_to_odd(unit: TensorUnit, tmp_path: Path) -> None:
    rng, dag = np.random.default_rng(0), int_product(6, 12, 16, HALVES)
    inputs = {t.name: rng.standard_normal(t.shape) for t in dag.inputs}
    inputs = {name: a.astype(numpy_dtype("bfloat16")) for name, a in inputs.items()}
    sketch = on_unit(dag, unit)[0]
    row = sample(sketch, 1, rng).row(0)
    kernel = build(lower(sketch, row), ARM)
    found = run_in_qemu(kernel, packed_inputs(sketch, row, inputs), tmp_path)["C"]
    np.testing.assert_array_equal(found.reshape(6, 12), sums_of_pairs(*inputs.values()))
