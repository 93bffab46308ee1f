"""Tile registers: nests and code of units that have them, on any machine; results where one is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.build import build, emit, prepare
from codegen.host import cpu_target, host_target
from codegen.llvm import permission
from codegen.llvm.permission import usable_features
from codegen.llvm.tile_layout import TileLayout
from sketch.lang.dtypes import numpy_dtype
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import Allocate, LoopKind, LoopNest, Scope
from sketch.nest.walk import stores, walk
from sketch.population.population import mutate, sample
from sketch.rules.cache_write import AddCacheWrite
from sketch.rules.generate import generate
from sketch.rules.simple import ScheduleSimply
from sketch.rules.tensorize import TileOnUnits
from sketch.rules.unit_fit import unit_of
from sketch.schedule.sketch import Sketch
from sketch.target.units import UNITS, TensorUnit, units_of
from tests.support.compiled import packed_inputs, run_compiled
from tests.support.units import TILES, WIDE, int_arrays, int_product, int_window, on_units, oracle

WITH_TILES = tuple(unit for unit in UNITS if unit.tiles)
HERE = host_target(1)
by_name = pytest.mark.parametrize("unit", WITH_TILES, ids=lambda unit: unit.name)
# One of bytes and one of floats; the others differ in signs alone.
of_each_kind = pytest.mark.parametrize(
    "unit",
    [
        pytest.param(unit, marks=[pytest.mark.slow] * (unit.name not in ("tdpbusd", "tdpbf16ps")))
        for unit in WITH_TILES
    ],
    ids=lambda unit: unit.name,
)


def on_tiles(dag, unit: TensorUnit, target=TILES) -> list[Sketch]:
    rules = (TileOnUnits((unit,)), AddCacheWrite(), ScheduleSimply())
    found = generate(dag, target, rules=rules)
    return [sketch for sketch in found if unit_of(sketch, (unit,)) is unit]


def programs(unit: TensorUnit):
    """Whole blocks; ends of rows, columns and terms; padding."""
    types = (unit.lhs, unit.rhs)
    yield int_product(4, 16, 2 * unit.together, types)
    yield int_product(17, 17, unit.k + 3, types)
    yield int_window(2, 5, 9, 3, types)


def tiles_of(nest: LoopNest) -> list[Allocate]:
    found = (node for node in walk(nest.roots) if isinstance(node, Allocate))
    return [node for node in found if node.buffer.scope is Scope.TILE]


@of_each_kind
def test_nests_on_tiles_equal_the_oracle(unit, rng: np.random.Generator) -> None:
    """Each block has the extents of a register, and whatever is missing of it is zeros."""
    for dag in programs(unit):
        inputs = int_arrays(dag, rng)
        for sketch in on_tiles(dag, unit)[:3:2]:
            row = sample(sketch, 1, rng).row(0)
            nest = prepare(lower(sketch, row), TILES)
            assert tiles_of(nest)
            for store, loops in stores(nest.roots):
                if store.targets[0].scope is Scope.TILE and store.reducer is not None:
                    block = [int(x.extent) for x in loops if x.kind is LoopKind.TENSOR]
                    assert all(a <= b for a, b in zip(block, (16, 16, unit.together), strict=True))
            found = run_nest(nest, packed_inputs(sketch, row, inputs))["C"]
            np.testing.assert_array_equal(found, oracle(dag, inputs).reshape(-1))


@by_name
def test_sums_stay_in_registers(unit, rng: np.random.Generator) -> None:
    """One load of results at most, and no products of vectors; the text compiles on any host."""
    dag = int_product(64, 64, 4 * unit.k, (unit.lhs, unit.rhs))
    sketch = on_tiles(dag, unit)[0]
    row = sample(sketch, 1, rng).row(0)
    text = emit(lower(sketch, row), TILES, "f").text
    assert f"@llvm.x86.{unit.name}(" in text and "@llvm.x86.tilezero(" in text
    assert text.count("call void @llvm.x86.ldtilecfg") == 1
    assert text.count("call void @llvm.x86.tilerelease") == 1
    assert "mul <" not in text and "@llvm.fma" not in text
    assert b"tiles_permitted" in build(lower(sketch, row), TILES).object_code


def test_tiles_behind_the_last_row_have_registers() -> None:
    """Of five rows of blocks two are left: to the others nothing is added."""
    sketch = on_units(int_product(65, 18, 8), TILES)[0]
    rows = mutate(sample(sketch, 40, np.random.default_rng(0)), np.random.default_rng(0))
    for number in range(len(rows.values)):
        assert "ldtilecfg" in emit(lower(sketch, rows.row(number)), TILES, "f").text


@by_name
def test_other_machines_run_what_was_made_for_tiles(unit, rng: np.random.Generator) -> None:
    dag = int_product(5, 20, unit.k + 5, (unit.lhs, unit.rhs))
    inputs = int_arrays(dag, rng)
    sketch = on_tiles(dag, unit)[0]
    row = sample(sketch, 1, rng).row(0)
    outputs = run_compiled(sketch, row, inputs, cpu_target("cpu-sse2", 1))
    np.testing.assert_array_equal(outputs["C"].reshape(5, 20), oracle(dag, inputs))


def test_units_on_vectors_compute_groups_where_there_are_no_tiles(rng) -> None:
    dag = int_product(5, 20, 64)
    sketch = on_tiles(dag, WITH_TILES[0])[0]
    text = emit(lower(sketch, sample(sketch, 1, rng).row(0)), WIDE, "f").text
    assert "vpdpbusd" in text and "tdpbusd" not in text


def test_rows_are_shared_out_evenly() -> None:
    """28 rows are twice 14, not 16 and 12."""
    unit = WITH_TILES[0]
    heights = {}
    for size in (16, 17, 28, 49):
        sketch = on_tiles(int_product(size, 16, 64), unit)[0]
        nest = lower(sketch, sample(sketch, 1, np.random.default_rng(0)).row(0))
        loops = next(loops for store, loops in stores(nest.roots) if len(_tensors(loops)) == 3)
        heights[size] = int(_tensors(loops)[0].extent)
    assert heights == {16: 16, 17: 9, 28: 14, 49: 13}


def test_blocks_inside_a_map_are_not_copied() -> None:
    """Of three blocks in a row the first misses an element for one tap, the last for another."""
    sketch = on_tiles(int_window(48, 64, 16, 3), WITH_TILES[0])[0]
    rows = sample(sketch, 256, np.random.default_rng(0))
    nests = (prepare(lower(sketch, rows.row(n)), TILES) for n in range(256))
    nest = next(nest for nest in nests if _blocks(nest) == [(3, 16)])
    assert _copies(nest.roots) == 2


def _blocks(nest: LoopNest) -> list[tuple[int, int]]:
    """Extents and strides of straight-line loops over blocks of results."""
    found = stores(nest.roots)
    first = next(x for store, x in found if store.targets[0].scope is Scope.TILE)
    straight = [x for x in first if x.kind is LoopKind.UNROLLED and x.extent > 1]
    return [(int(x.extent), int(x.stride)) for x in straight]


def _copies(nodes) -> int:
    """How often code fills a part of an operand."""
    total = 0
    for node in nodes:
        times = int(node.extent) if getattr(node, "kind", None) is LoopKind.UNROLLED else 1
        part = isinstance(node, Allocate) and node.buffer.name.endswith(".part")
        total += part + times * _copies(getattr(node, "body", ()))
    return total


def _tensors(loops):
    return [loop for loop in loops if loop.kind is LoopKind.TENSOR]


def test_configurations_have_the_layout_of_the_processor() -> None:
    """Palette, start row, 14 of nothing; two bytes of columns for 16 registers; rows of them."""
    content = TileLayout(4, 14, 52, 13).configuration()
    assert len(content) == 64 and content[:2] == b"\x01\x00" and not any(content[2:16])
    columns = np.frombuffer(content[16:48], "<u2")
    assert columns.tolist() == [64] * 4 + [52] * 2 + [64] * 2 + [0] * 8
    assert list(content[48:]) == [14] * 6 + [13] * 2 + [0] * 8


def test_features_that_the_kernel_refuses_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"amx-tile": True, "amx-int8": True, "avx2": True}
    monkeypatch.setattr(permission, "tiles_permitted", lambda: False)
    assert usable_features(dict(found)) == {"amx-tile": False, "amx-int8": False, "avx2": True}
    monkeypatch.setattr(permission, "tiles_permitted", lambda: True)
    assert usable_features(dict(found)) == found


def _sums(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """What tdpbf16ps adds to 0, for [m, k] and [k, n] of numbers that bfloat16 holds.

    Intel's description: products of even k and those of odd k are summed by fused multiply-adds,
    then both sums are added; denormal operands and results are 0.
    """
    sums = np.zeros((2, lhs.shape[0], rhs.shape[1]), np.float32)
    for k in range(lhs.shape[1]):
        exact = lhs[:, k, None].astype(np.longdouble) * rhs[None, k].astype(np.longdouble)
        sums[k % 2] = (sums[k % 2].astype(np.longdouble) + exact).astype(np.float32)
    return sums[0] + sums[1]


@pytest.mark.skipif("amx-bf16" not in HERE.has, reason="this CPU has no bfloat16 tiles")
def test_sums_of_floats_are_rounded_as_the_processor_does(rng: np.random.Generator) -> None:
    unit = next(unit for unit in units_of(HERE) if unit.name == "tdpbf16ps")
    dag = int_product(16, 16, unit.k, (unit.lhs, unit.rhs))
    sketch = on_tiles(dag, unit, HERE)[0]
    inputs = {t.name: rng.standard_normal(t.shape).astype(numpy_dtype(t.dtype)) for t in dag.inputs}
    outputs = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, HERE)
    expected = _sums(inputs["A"].astype(np.float32), inputs["B"].astype(np.float32))
    np.testing.assert_array_equal(outputs["C"].reshape(16, 16), expected)


@pytest.mark.skipif("amx-int8" not in HERE.has, reason="this CPU has no tiles of bytes")
def test_threads_of_a_team_configure_their_own_registers(rng: np.random.Generator) -> None:
    target = replace(HERE, threads=2)
    unit = next(unit for unit in units_of(HERE) if unit.name == "tdpbssd")
    dag = int_product(70, 65, 130, (unit.lhs, unit.rhs))
    inputs = int_arrays(dag, rng)
    for sketch in on_tiles(dag, unit, target):
        outputs = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, target)
        np.testing.assert_array_equal(outputs["C"].reshape(70, 65), oracle(dag, inputs))
