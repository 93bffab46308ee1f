"""Programs on tensor units: whole numbers equal the oracle, whatever the schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.host import host_target
from sketch.population.population import mutate, sample
from sketch.target.units import units_of
from tests.support.compiled import run_compiled
from tests.support.units import int_arrays, int_product, int_window, on_units, oracle

# Units as wide as the vectors of this machine, and half as wide.
TARGETS = {
    "host": host_target(1),
    "half": replace(host_target(1), vector_bytes=host_target(1).vector_bytes // 2, registers=16),
}
RUNNABLE = [name for name, target in TARGETS.items() if units_of(target)]
CASES = sorted(
    {(name, unit.lhs, unit.rhs) for name in RUNNABLE for unit in units_of(TARGETS[name])}
)

if not RUNNABLE:
    pytest.skip("this CPU has no tensor units", allow_module_level=True)


def check(dag, target, choice: int, seed: int) -> None:
    """Compare a random row of a sketch on units, run between guard pages, with the oracle."""
    rng = np.random.default_rng(seed)
    sketches = on_units(dag, target)
    sketch = sketches[choice % len(sketches)]
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    inputs = int_arrays(dag, rng)
    outputs = run_compiled(sketch, row, inputs, target)
    expected = oracle(dag, inputs)
    np.testing.assert_array_equal(outputs["C"].reshape(expected.shape), expected)


@settings(max_examples=10)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(2, 70), st.integers(2, 150)),
    case=st.sampled_from(CASES),
    choice=st.integers(0, 15),
    seed=st.integers(0, 9),
)
def test_products(shape, case, choice, seed) -> None:
    target, *types = case
    check(int_product(*shape, tuple(types)), TARGETS[target], choice, seed)


@settings(max_examples=4)
@given(
    shape=st.tuples(st.integers(1, 18), st.integers(2, 70), st.integers(2, 40)),
    taps=st.sampled_from((1, 3)),
    case=st.sampled_from(CASES),
    choice=st.integers(0, 15),
    seed=st.integers(0, 9),
)
def test_padded_windows(shape, taps, case, choice, seed) -> None:
    target, *types = case
    check(int_window(*shape, taps, tuple(types)), TARGETS[target], choice, seed)
