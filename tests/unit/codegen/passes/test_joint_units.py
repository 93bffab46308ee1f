"""Units whose vectors have several rows: code, run with the instruction written in plain ones."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from codegen.build import emit, prepare
from codegen.host import cpu_target
from codegen.llvm.machine import emit_assembly
from codegen.passes.legalize import legalize
from codegen.passes.tensorize import tensorize
from costmodel.extract import draft_seconds
from sketch.lang.dtypes import numpy_dtype
from sketch.lang.expr import Binary
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import BufferLoad, Loop, LoopKind
from sketch.nest.printer import print_nest
from sketch.nest.walk import stores, walk
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.rules.unit_fit import unit_of
from sketch.schedule.sketch import Sketch
from sketch.target.units import TensorUnit, units_of
from tests.support.arm_floats import sums_of_pairs
from tests.support.compiled import packed_inputs, run_compiled
from tests.support.software_units import JOINT, run_in_software
from tests.support.units import (
    HALVES,
    int_arrays,
    int_product,
    int_window,
    on_units,
    oracle,
    with_feature,
)

ARM = with_feature("cpu-neon", "dotprod", "i8mm", "bf16")
TESTED = ("usmmla.128", "bfmmla.128")
by_name = pytest.mark.parametrize("unit", JOINT, ids=lambda unit: unit.name)
# One of bytes and one of floats; the others differ in signs alone.
of_each_kind = pytest.mark.parametrize(
    "unit",
    [
        pytest.param(unit, marks=[pytest.mark.slow] * (unit.name not in TESTED))
        for unit in JOINT
    ],
    ids=lambda unit: unit.name,
)  # fmt: skip


def on_joint(dag) -> list[Sketch]:
    return [s for s in on_units(dag, ARM) if unit_of(s, JOINT) in JOINT]


def check(sketch: Sketch, dag, seed: int = 0) -> dict[str, int]:
    rng = np.random.default_rng(seed)
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    inputs = int_arrays(dag, rng)
    found = run_in_software(sketch, row, inputs, ARM)["C"]
    np.testing.assert_array_equal(found.reshape(-1), oracle(dag, inputs).reshape(-1))
    return row


@of_each_kind
def test_products_equal_the_oracle(unit: TensorUnit) -> None:
    """Whole blocks alone; ends of rows, columns and terms; a second operand that is no constant."""
    types = (unit.lhs, unit.rhs)
    for dag in (
        int_product(2, 4, unit.k, types),
        int_product(13, 19, 3 * unit.k + 3, types),
        int_product(7, 18, 35, types, constant=False),
    ):
        check(on_joint(dag)[-1], dag)


@of_each_kind
def test_windows_equal_the_oracle(unit: TensorUnit) -> None:
    """Of two pixels in a row padding leaves out one, or both; and there is an odd one."""
    dag = int_window(5, unit.k + 1, 9, 3, (unit.lhs, unit.rhs))
    check(on_joint(dag)[0], dag)


@pytest.mark.slow
@by_name
def test_all_sketches_equal_the_oracle(unit: TensorUnit) -> None:
    for seed in range(3):
        for dag in (
            int_product(9, 21, 4 * unit.k + 1, (unit.lhs, unit.rhs)),
            int_window(6, 2 * unit.k, 12, 3, (unit.lhs, unit.rhs)),
        ):
            for sketch in on_joint(dag):
                check(sketch, dag, seed)


def test_sums_of_several_visits_are_put_together_again(rng: np.random.Generator) -> None:
    """Results that wait in memory are in rows there: both ways parts of two vectors change."""
    dag = int_product(5, 16, 64, ("int8", "int8"))
    sketch = on_joint(dag)[2]
    row = {decision.id: 1 for decision in sketch.decisions}
    text = print_nest(tensorize(legalize(lower(sketch, row), ARM), ARM))
    for target, source in (("C.local.block", "C.local"), ("C.local", "C.local.block")):
        for half in ("low_half", "high_half"):
            part = rf"{half}\({re.escape(source)}\[[^()]*\]\)"
            assert re.search(rf" {re.escape(target)}\[.*\] = join\({part}, {part}\)", text)
    inputs = int_arrays(dag, rng)
    found = run_in_software(sketch, row, inputs, ARM)["C"]
    np.testing.assert_array_equal(found.reshape(5, 16), oracle(dag, inputs))


@by_name
def test_code_is_the_instruction_alone(unit: TensorUnit, rng: np.random.Generator) -> None:
    """And results are exchanged by shuffles: a word of them never goes through another register."""
    dag = int_product(16, 16, 8 * unit.k, (unit.lhs, unit.rhs))
    sketch = on_joint(dag)[0]
    text = emit(lower(sketch, sample(sketch, 1, rng).row(0)), ARM, "f").text
    assembly = emit_assembly(text, ARM)
    name = unit.name.partition(".")[0]
    assert re.search(rf"\b{name}\s+v\d+\.4s", assembly)
    assert re.search(r"\bzip2\s+v\d+\.2d", assembly)
    assert not re.search(r"\b(f?mul|f?mla|[su]?dot|bfdot|(fmov|umov|smov)\s.*)\b", assembly)


@by_name
def test_sums_are_in_registers_of_vectors(unit: TensorUnit, rng: np.random.Generator) -> None:
    """No loops of the unit are left, and operands are read by words."""
    dag = int_window(4, unit.k, 8, 3, (unit.lhs, unit.rhs))
    sketch = on_joint(dag)[0]
    nest = prepare(lower(sketch, sample(sketch, 1, rng).row(0)), ARM)
    loops = [node for node in walk(nest.roots) if isinstance(node, Loop)]
    assert not any(loop.kind is LoopKind.TENSOR for loop in loops)
    values = [v for s, _ in stores(nest.roots) for v in s.values]
    products = [v for v in values if isinstance(v, Binary) and v.op == unit.name]
    assert products
    assert not any(isinstance(v, BufferLoad) for p in products for v in (p.lhs, p.rhs))


def test_floats_are_rounded_to_odd_pair_by_pair(rng: np.random.Generator) -> None:
    """And lose at most a last digit for each addition."""
    m, n, k = 6, 12, 16
    dag = int_product(m, n, k, HALVES)
    inputs = {t.name: rng.standard_normal(t.shape) for t in dag.inputs}
    inputs = {name: a.astype(numpy_dtype("bfloat16")) for name, a in inputs.items()}
    sketch = on_joint(dag)[0]
    found = run_in_software(sketch, sample(sketch, 1, rng).row(0), inputs, ARM)["C"].reshape(m, n)
    lhs, rhs = (array.astype(np.float64) for array in inputs.values())
    np.testing.assert_array_equal(found, sums_of_pairs(lhs, rhs))
    assert (found != (lhs.astype(np.float32) @ rhs.astype(np.float32))).any()
    assert (abs(found - lhs @ rhs) <= k * 2.0**-23 * (abs(lhs) @ abs(rhs))).all()


def test_other_machines_run_what_was_made_for_rows(rng: np.random.Generator) -> None:
    """Records replay on a machine without the unit, and nests are its description."""
    dag = int_product(5, 20, 21, ("uint8", "int8"))
    inputs = int_arrays(dag, rng)
    sketch = on_joint(dag)[0]
    row = sample(sketch, 1, rng).row(0)
    expected = oracle(dag, inputs)
    outputs = run_compiled(sketch, row, inputs, cpu_target("cpu-sse2", 1))
    np.testing.assert_array_equal(outputs["C"].reshape(5, 20), expected)
    found = run_nest(lower(sketch, row), packed_inputs(sketch, row, inputs))["C"]
    np.testing.assert_array_equal(found.reshape(5, 20), expected)


def test_rows_make_a_unit_worth_it() -> None:
    """Units of several rows come first where there are several."""
    rng = np.random.default_rng(0)
    for types in (("int8", "int8"), ("uint8", "int8"), HALVES):
        for rows in (1, 64):
            best: dict[bool, float] = {}
            for sketch in generate(int_product(rows, 64, 128, types), ARM):
                unit = unit_of(sketch, units_of(ARM))
                joint = unit is not None and unit.joint
                seconds = float(draft_seconds(sample(sketch, 64, rng)).min())
                best[joint] = min(seconds, best.get(joint, np.inf))
            assert (True in best) == (rows > 1)
            assert rows == 1 or best[True] < 0.75 * best[False]


def test_vectors_of_another_width_have_no_such_unit() -> None:
    wide = replace(ARM, vector_bytes=32)
    assert not any(unit.joint for unit in units_of(wide))
