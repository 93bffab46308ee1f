"""Tensor units: which programs get sketches on them, and what those compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.testing.programs import convolution, product
from codegen.build import emit
from codegen.cuda.prelude import prelude_of
from codegen.cuda.unit_text import unit_function
from codegen.host import cpu_target, host_target
from codegen.llvm.unit_calls import TILE_CALLS, UNIT_CALLS
from codegen.passes.legalize import legalize
from codegen.passes.tensorize import tensorize
from sketch.analysis.contraction import contraction_of
from sketch.errors import ScheduleError
from sketch.lang.expr import Select
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import Scope
from sketch.nest.walk import stores
from sketch.population.population import sample
from sketch.rules.cache_write import AddCacheWrite
from sketch.rules.generate import generate
from sketch.rules.simple import ScheduleSimply
from sketch.rules.tensorize import TileOnUnits
from sketch.schedule.replay import replay
from sketch.schedule.sketch import sketch_from_steps
from sketch.schedule.steps import Annotate, Tensorize
from sketch.target.units import UNITS, TensorUnit, units_of
from sketch.verify import verify
from tests.support.compiled import packed_inputs, run_compiled
from tests.support.unit_loops import without_units
from tests.support.units import (
    BYTES,
    HALVES,
    NARROW,
    TILES,
    WIDE,
    int_arrays,
    int_product,
    int_window,
    on_units,
    oracle,
    turned_picture,
    with_feature,
)

NARROW_HALVES = with_feature("cpu-avx2", "avx512bf16", "avx512vl")
HERE = host_target(1)
# No processor has it: a block of 4 x 4 results, two products each.
INVENTED = TensorUnit("invented", 4, 4, 2, "float32", "float32", "float32")


def test_each_unit_describes_a_contraction_and_has_an_instruction() -> None:
    for unit in UNITS:
        (acc,) = unit.description().stages
        found = contraction_of(acc)
        assert found is not None
        assert (found.lhs.load.dtype, found.rhs.load.dtype) == (unit.lhs, unit.rhs)
        assert [axis.extent for axis in (*found.rows, *found.columns)] == [unit.m, unit.n]
        called = f"{unit_function(unit)}("
        own = unit.fragments is not None and called in prelude_of(called)
        assert own or unit.name in UNIT_CALLS or (unit.lhs, unit.rhs) in TILE_CALLS


def test_units_are_those_of_the_features_and_of_the_width_of_vectors() -> None:
    assert {unit.n for unit in units_of(WIDE)} == {16}
    assert {unit.n for unit in units_of(NARROW)} == {8}
    assert units_of(cpu_target("cpu-avx512", 1)) == ()


def test_axes_by_who_uses_them() -> None:
    found = contraction_of(int_window(5, 8, 16, 3).stages[0])
    assert found is not None
    names = [[axis.extent for axis in axes] for axes in (found.rows, found.columns, found.terms)]
    assert names == [[5, 5], [16], [3, 3, 8]]
    assert found.batch == ()


def test_beside_the_plain_sketches() -> None:
    dag = int_product(8, 32, 16)
    plain = {sketch.key for sketch in generate(dag, replace(WIDE, features=""))}
    every = {sketch.key for sketch in generate(dag, WIDE)}
    assert plain < every
    assert len(every) - len(plain) == len(on_units(dag, WIDE))


def test_programs_without_a_fit_get_no_sketch_on_units() -> None:
    for dag in (
        product(8, 32, 16),
        convolution(),
        int_product(8, 32, 16, ("int8", "int8")),
        int_product(8, 32, 16, ("uint8", "int16")),
        int_product(8, 32, 3, constant=False),  # no whole group of terms
        int_product(1, 32, 16, constant=False),  # nothing pays for a copy
    ):
        assert on_units(dag, WIDE) == []


@pytest.mark.parametrize(
    ("dag", "target"),
    [
        (int_product(3, 18, 7), WIDE),
        (int_window(2, 3, 9, 3), NARROW),
        (int_product(3, 18, 7, HALVES), WIDE),
        (int_window(2, 3, 9, 3, HALVES), WIDE),
        (int_product(3, 18, 8, constant=False), WIDE),
        (int_product(3, 18, 8, HALVES, constant=False), NARROW_HALVES),
    ],
    ids=["product", "window", "floats", "window of floats", "variable", "variable floats"],
)
def test_nests_equal_the_oracle_before_and_after_the_pass(
    dag, target, rng: np.random.Generator
) -> None:
    inputs = int_arrays(dag, rng)
    for sketch in on_units(dag, target)[::3]:
        row = sample(sketch, 1, rng).row(0)
        nest = lower(sketch, row)
        verify(nest)
        for form in (nest, without_units(tensorize(legalize(nest, target), target))):
            found = run_nest(form, packed_inputs(sketch, row, inputs))["C"]
            np.testing.assert_array_equal(found, oracle(dag, inputs).reshape(-1))


def test_a_whole_product_is_instructions_alone(rng: np.random.Generator) -> None:
    """Also where neither rows nor columns nor terms are whole units."""
    for name, types, target in (
        ("vpdpbusd", BYTES, WIDE), ("vpdpbusd", BYTES, NARROW), ("dpbf16ps", HALVES, WIDE)
    ):  # fmt: skip
        for sketch in on_units(int_product(13, 37, 21, types), target)[:2]:
            text = emit(lower(sketch, sample(sketch, 1, rng).row(0)), target, "f").text
            assert text.count(name) > 1
            assert "mul <" not in text and "fma" not in text and "fmul" not in text


@pytest.mark.parametrize("channels", [3, 4])
def test_units_read_a_turned_picture_where_it_lies(channels, rng: np.random.Generator) -> None:
    """Of four taps in a row a unit adds all; of four channels too, and then it stays as it is."""
    dag = turned_picture(channels)
    inputs = int_arrays(dag, rng)
    for sketch in on_units(dag, WIDE)[::2]:
        unit = next(step for step in sketch.steps if isinstance(step, Tensorize))
        (taps,) = {sketch.program.stage(unit.stage).loop_axis(loop).extent for loop in unit.loops}
        assert taps == 4
        row = sample(sketch, 1, rng).row(0)
        if channels < 4:
            assert "turned" not in [plan.op.name for plan in sketch.program.stages]
            found = run_nest(lower(sketch, row), packed_inputs(sketch, row, inputs))["C"]
            np.testing.assert_array_equal(found, oracle(dag, inputs).reshape(-1))
        else:
            assert sketch.program.stage(unit.stage).loop_axis(unit.loops[0]).name == "c"


@pytest.mark.parametrize("types", [BYTES, HALVES], ids=str)
def test_what_is_no_constant_is_packed_by_the_kernel(types, rng: np.random.Generator) -> None:
    """On units with tile registers, too; also by a machine that has none of them."""
    dag = int_product(20, 37, 64, types, constant=False)
    inputs, target = int_arrays(dag, rng), host_target(2)
    for sketch in on_units(dag, TILES)[::3]:
        row = sample(sketch, 1, rng).row(0)
        verify(lower(sketch, row))
        outputs = run_compiled(sketch, row, inputs, target)
        np.testing.assert_array_equal(outputs["C"].reshape(20, 37), oracle(dag, inputs))


@pytest.mark.parametrize(("types", "count"), [(BYTES, 67), (HALVES, 61)], ids=str)
def test_what_is_left_of_a_sum_is_packed_with_zeros(types, count, rng) -> None:
    """Else a kernel would read what was in its workspace before, and zero times NaN is NaN."""
    dag = int_product(5, 18, count, types, constant=False)
    inputs = int_arrays(dag, rng)
    for sketch in on_units(dag, TILES)[::3]:
        row = sample(sketch, 1, rng).row(0)
        nest = lower(sketch, row)
        verify(nest)
        found = run_nest(nest, packed_inputs(sketch, row, inputs))["C"]
        np.testing.assert_array_equal(found.reshape(5, 18), oracle(dag, inputs))
        copies = [s for s, _ in stores(nest.roots) if s.targets[0].scope is Scope.WORKSPACE]
        assert all(isinstance(copy.values[0], Select) for copy in copies) and copies
    for sketch in on_units(dag, HERE)[::3]:
        outputs = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, HERE)
        np.testing.assert_array_equal(outputs["C"].reshape(5, 18), oracle(dag, inputs))


@pytest.mark.parametrize("constant", [True, False])
def test_steps_alone_give_the_sketch(constant: bool) -> None:
    dag = int_product(8, 32, 16, constant=constant)
    for sketch in on_units(dag, WIDE):
        again = sketch_from_steps(dag, sketch.steps, sketch.variant, WIDE)
        assert (again.key, again.decisions) == (sketch.key, sketch.decisions)


def test_loops_that_are_no_unit_are_refused() -> None:
    dag = int_product(8, 32, 16)
    (*steps, last) = [s for s in on_units(dag, WIDE)[0].steps if not isinstance(s, Annotate)]
    unit = next(step for step in (*steps, last) if isinstance(step, Tensorize))
    before = tuple(step for step in (*steps, last) if step is not unit)
    with pytest.raises(ScheduleError, match="other loops inside"):
        replay(dag, (*before, unit))  # nothing is vectorised
    outer = replace(unit, loops=tuple(loop._replace(level=0) for loop in unit.loops))
    with pytest.raises(ScheduleError, match="none of a tensor unit"):
        replay(dag, (*before, outer))


def test_a_machine_without_the_unit_runs_a_record_of_one_with_it(rng: np.random.Generator) -> None:
    dag = int_product(5, 20, 11)
    inputs = int_arrays(dag, rng)
    sketch = on_units(dag, NARROW)[0]
    outputs = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, cpu_target("cpu-sse2", 1))
    np.testing.assert_array_equal(outputs["C"].reshape(5, 20), oracle(dag, inputs))


def test_an_invented_unit_is_tuned_with(tmp_path: Path, rng: np.random.Generator) -> None:
    """Nothing but its description is known: it is compiled from that."""
    dag, target, log = product(10, 9, 7), host_target(1), tmp_path / "log.jsonl"
    rules = (TileOnUnits((INVENTED,)), AddCacheWrite(), ScheduleSimply())
    task = asd.Task(dag, target, rules=rules)
    task.tune(trials=4, log=log, quiet=True)
    best = asd.Task(dag, target).candidate(log)
    assert any(isinstance(step, Tensorize) for step in best.sketch.steps)
    inputs = {t.name: rng.standard_normal(t.shape, dtype=np.float32) for t in dag.inputs}
    outputs = run_compiled(best.sketch, dict(best.values), inputs, target)
    expected = inputs["A"] @ inputs["B"]
    np.testing.assert_allclose(outputs["C"].reshape(10, 9), expected, rtol=1e-5, atol=1e-5)
