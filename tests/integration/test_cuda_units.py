"""Products on the tensor units of GPUs equal the oracle: in the emulation that checks every access,
in both orders of threads, and in the PTX interpreter, which runs the instructions themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import build, emit
from codegen.cuda.kernel import CudaSource, Launch
from codegen.cuda.nvrtc import compile_source, missing_compiler
from codegen.cuda.prelude import prelude_of
from codegen.cuda.unit_types import RESULTS, unit_function
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import compiler
from sketch.dag.dag import ComputeDAG
from sketch.lang import functions, reducers
from sketch.lang.expr import cast
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.lower.packing import preparations
from sketch.operators.factors import factor
from sketch.rules.unit_fit import unit_of
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.target.units import TensorUnit, units_of
from sketch.variants.implicit_gemm import implicit_gemm
from sketch.variants.zero_padded import zero_padded
from tests.support.cuda_programs import feasible_rows
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.sass import count, disassembler, loop_of
from tests.support.units import (
    HALVES,
    SINGLES,
    int_arrays,
    int_product,
    int_window,
    on_units,
    oracle,
)

H200 = cuda_target("h200")
_ROWS = 3
_LEAST_SHARE = 0.4
# Products of a tile, and of the cycles that they take those in which a warp issues something.
_TILE_PRODUCTS = 4
_MOST_BUSY = 0.6
_ROUNDING_BUSY = 0.85

needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
needs_disassembler = pytest.mark.skipif(disassembler() is None, reason="needs nvdisasm")
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")


def rectified(m: int, n: int, k: int, types: tuple[str, str]) -> ComputeDAG:
    """Products of [m, k] and [n, k], with a bias, rectified, in the type of the operands."""
    lhs, rhs = placeholder((m, k), types[0], name="A"), placeholder((n, k), types[1], name="B")
    bias = placeholder((n,), "float32", name="bias")
    r = reduce_axis(k, "r")
    sums = compute(
        (m, n),
        lambda i, j: reducers.sum(cast(lhs[i, r], "float32") * cast(rhs[j, r], "float32"), r),
        name="sums",
    )
    return ComputeDAG(
        [compute((m, n), lambda i, j: functions.maximum(sums[i, j] + bias[j], 0.0), name="C")]
    )


def rectified_singles(m: int, n: int, k: int) -> ComputeDAG:
    """Products of float32 in tf32, both operands of which are data, with a bias, rectified."""
    lhs, rhs = (placeholder(s, "float32", name=x) for s, x in (((m, k), "A"), ((n, k), "B")))
    bias = placeholder((n,), "float32", name="bias")
    r = reduce_axis(k, "r")
    sums = compute(
        (m, n),
        lambda i, j: reducers.sum(factor(lhs[i, r], "tf32") * factor(rhs[j, r], "tf32"), r),
        name="sums",
    )
    # wide numbers: whole sums stay whole
    return ComputeDAG(
        [compute((m, n), lambda i, j: functions.maximum(sums[i, j] + bias[j], 0.0), name="C")]
    )


def requantised(m: int, n: int, k: int) -> ComputeDAG:
    """Products of bytes, scaled and stored as bytes."""
    lhs = placeholder((m, k), "uint8", name="A")
    rhs = placeholder((k, n), "int8", name="B", constant=True)
    r = reduce_axis(k, "r")
    sums = compute(
        (m, n),
        lambda i, j: reducers.sum(cast(lhs[i, r], "int32") * cast(rhs[r, j], "int32"), r),
        name="sums",
    )

    def narrow(i, j):
        scaled = functions.round(cast(sums[i, j], "float32") * 0.00390625)
        return cast(functions.minimum(functions.maximum(scaled, 0.0), 255.0), "uint8")

    return ComputeDAG([compute((m, n), narrow, name="C")])


def batched(b: int, m: int, n: int, k: int) -> ComputeDAG:
    """Products of each of some pairs of matrices."""
    lhs, rhs = (placeholder(s, "float16", name=x) for s, x in (((b, m, k), "A"), ((b, n, k), "B")))
    r = reduce_axis(k, "r")

    def body(x, i, j):
        return reducers.sum(cast(lhs[x, i, r], "float32") * cast(rhs[x, j, r], "float32"), r)

    return ComputeDAG([compute((b, m, n), body, name="C")])


def window(size: int, channels: int, outputs: int, taps: int, stride: int) -> ComputeDAG:
    """Sums over whole windows of a map [size, size, channels]."""
    data = placeholder((size, size, channels), "int8", name="A")
    weight = placeholder((taps, taps, channels, outputs), "int8", name="B", constant=True)
    p, q, c = reduce_axis(taps, "p"), reduce_axis(taps, "q"), reduce_axis(channels, "c")
    left = (size - taps) // stride + 1

    def body(h, w, o):
        pixel, factor = data[h * stride + p, w * stride + q, c], weight[p, q, c, o]
        return reducers.sum(cast(pixel, "int32") * cast(factor, "int32"), (p, q, c))

    return ComputeDAG([compute((left, left, outputs), body, name="C")])


def pixels(size: int, channels: int, outputs: int, types: tuple[str, str]) -> ComputeDAG:
    """Sums over padded windows of 3 x 3 taps as one product."""
    found = implicit_gemm(int_window(size, channels, outputs, 3, types))
    assert found is not None
    return found


def framed(size: int, channels: int, outputs: int, types: tuple[str, str]) -> ComputeDAG:
    """The same sums of an image with zeros around it."""
    found = zero_padded(int_window(size, channels, outputs, 3, types))
    assert found is not None
    return found


CASES: Mapping[str, Callable[[], ComputeDAG]] = {
    "bf16": lambda: int_product(64, 48, 64, HALVES),
    "bf16 tails": lambda: int_product(37, 29, 76, HALVES),
    "f16 short terms": lambda: int_product(33, 24, 7, ("float16", "float16")),
    "s8 tails": lambda: int_product(50, 43, 100, ("int8", "int8")),
    "u8 s8": lambda: int_product(32, 64, 70, ("uint8", "int8")),
    "few rows": lambda: int_product(7, 100, 40, ("int8", "uint8")),
    "long sums in parts": lambda: int_product(16, 16, 640, HALVES),
    "rectified": lambda: rectified(45, 38, 52, HALVES),
    "requantised": lambda: requantised(40, 36, 68),
    "batched": lambda: batched(3, 20, 24, 40),
    "window": lambda: window(9, 16, 24, 3, 1),
    "strided window": lambda: window(21, 20, 8, 2, 2),
    "pixels": lambda: pixels(9, 32, 24, HALVES),
    "framed": lambda: framed(8, 16, 24, HALVES),
    "framed bytes": lambda: framed(8, 32, 16, ("uint8", "int8")),
    "pixels of bytes": lambda: pixels(7, 20, 16, ("int8", "int8")),
    "tf32": lambda: int_product(64, 48, 64, SINGLES),
    "tf32 tails": lambda: int_product(37, 29, 78, SINGLES),
    "tf32 short terms": lambda: int_product(33, 24, 3, SINGLES),
    "tf32 few rows": lambda: int_product(6, 100, 40, SINGLES),
    "tf32 rectified": lambda: rectified_singles(45, 38, 52),
    "tf32 pixels": lambda: pixels(9, 12, 24, SINGLES),
    "tf32 framed": lambda: framed(8, 16, 24, SINGLES),
    "groups": lambda: int_product(130, 270, 150, HALVES),
    "groups of bytes": lambda: int_product(129, 64, 300, ("int8", "uint8")),
    "groups requantised": lambda: requantised(100, 136, 260),
    "groups rectified": lambda: rectified(190, 130, 72, HALVES),
    "groups batched": lambda: batched(2, 66, 40, 72),
    "groups of tf32": lambda: int_product(130, 72, 226, SINGLES),
    "groups of tf32 rectified": lambda: rectified_singles(100, 66, 40),
    "groups of tf32 pixels": lambda: pixels(9, 40, 64, SINGLES),
    "groups of a window": lambda: window(24, 32, 16, 3, 1),
    "groups framed": lambda: framed(20, 40, 24, HALVES),
    "groups in parts": lambda: int_product(64, 40, 768, HALVES),
    "groups in parts of tf32": lambda: rectified_singles(50, 40, 576),
    "groups of pixels": lambda: pixels(9, 64, 64, HALVES),
}
# Those whose tiles four warps can read together.
GROUPS = (
    "bf16", "bf16 tails", "s8 tails", "u8 s8", "rectified", "tf32", "tf32 tails",
    *(name for name in CASES if name.startswith("groups")),
)  # fmt: skip


# One of each kind of tails, types and operands.
FAST = (
    "bf16 tails",
    "tf32 tails",
    "requantised",
    "pixels of bytes",
    "groups batched",
)


def instruction_of(sketch: Sketch) -> str:
    """How the functions of the unit of a sketch start, whichever operand its rows are along."""
    shape, _, _ = unit_of(sketch, units_of(H200)).name.partition("k")
    return f"{shape}k".replace(".", "_")


def rows_of(sketch: Sketch, rng: np.random.Generator) -> list[Mapping]:
    population = feasible_rows(sketch, _ROWS, rng)
    return [population.row(n) for n in range(population.count)]


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "most"),
    [*((n, 1) for n in FAST), *(pytest.param(n, _ROWS, marks=pytest.mark.slow) for n in CASES)],
)
def test_random_rows_equal_the_oracle(name: str, most: int, tmp_path: Path) -> None:
    """Sums of some hundred products of bytes are exact in any order."""
    dag, rng = CASES[name](), np.random.default_rng(0)
    sketches = on_units(dag, H200)
    assert sketches
    arrays = int_arrays(dag, rng)
    expected = oracle(dag, arrays)
    chosen = [(sketch, row) for sketch in sketches for row in rows_of(sketch, rng)[:most]]
    sources = [emit(lower(sketch, dict(row)), H200) for sketch, row in chosen]
    called = [instruction_of(sketch) for sketch, _ in chosen]
    assert all(text in source.text for text, source in zip(called, sources, strict=True))
    assert any(text.startswith("wgmma") for text in called) or name not in GROUPS
    for program, (sketch, row) in zip(compile_checked(sources, tmp_path), chosen, strict=True):
        layouts = preparations(sketch, row)
        given = arrays | {name: layout.apply(arrays[name]) for name, layout in layouts.items()}
        (output,) = dag.output_names
        results = [program.run(given), program.run(given, reverse=True)]
        results.append(run_ptx(program.source, ptx_of(program.source.text), given))
        for result in results:
            found = result[output].reshape(expected.shape)
            np.testing.assert_array_equal(found, expected, program.source.text)


def best_row(sketch: Sketch) -> Mapping:
    from costmodel.extract import draft_seconds

    rows = feasible_rows(sketch, 512, np.random.default_rng(0))
    return rows.row(int(draft_seconds(rows).argmin()))


@needs_nvrtc
@pytest.mark.parametrize(
    "columns", [24, *(pytest.param(n, marks=pytest.mark.slow) for n in range(8, 257, 8) if n != 24)]
)
def test_units_of_all_widths_equal_the_oracle(columns: int) -> None:
    dag, rng = int_product(64, columns, 64, HALVES), np.random.default_rng(0)
    named = {unit_of(sketch, units_of(H200)).name: sketch for sketch in on_units(dag, H200)}
    name = f"wgmma.m64n{columns}k16.bf16"
    row = rows_of(named[name], rng)[0]
    source = emit(lower(named[name], dict(row)), H200)
    assert f"{name.replace('.', '_')}(" in source.text
    arrays = int_arrays(dag, rng)
    layouts = preparations(named[name], row)
    given = arrays | {name: layout.apply(arrays[name]) for name, layout in layouts.items()}
    (found,) = run_ptx(source, ptx_of(source.text), given).values()
    expected = oracle(dag, arrays)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@needs_nvrtc
@pytest.mark.slow
def test_the_compiler_knows_all_units() -> None:
    units = [unit for unit in units_of(H200) if unit.reads_shared]
    for first in range(0, len(units), 32):
        kernels = [alone(unit) for unit in units[first : first + 32]]
        text = "\n".join(kernels)
        launches = tuple(
            Launch(f"k_{unit.name.replace('.', '_')}", 1, 128, (), ())
            for unit in units[first:][:32]
        )
        source = CudaSource("units", prelude_of(text) + text, launches, (), ())
        _, resources = compile_source(source, "sm_90")
        assert not any(used.spills for _, used in resources)


def alone(unit: TensorUnit) -> str:
    """A kernel with one product of a unit."""
    kind, count = RESULTS[unit.acc][1], unit.fragments[2].registers
    name = unit_function(unit)
    return f"""
extern "C" __global__ void k_{name}({kind} *all, unsigned long long a, unsigned long long b) {{
  {kind} acc[{count}];
#pragma unroll
  for (int n = 0; n < {count}; ++n) acc[n] = all[n];
  begin_products<{count}>(acc);
  {name}(acc, a, b);
  commit_products();
  wait_products<0>();
  hold<{count}>(acc);
#pragma unroll
  for (int n = 0; n < {count}; ++n) all[n] = acc[n];
}}"""


@needs_nvrtc
@needs_disassembler
@pytest.mark.parametrize(
    ("arch", "types", "opcode"),
    [
        ("sm_80", HALVES, "HMMA"),
        pytest.param("sm_90", HALVES, "HMMA", marks=pytest.mark.slow),
        ("sm_80", SINGLES, "HMMA"),
        pytest.param("sm_90", SINGLES, "HMMA", marks=pytest.mark.slow),
        pytest.param("sm_80", ("int8", "int8"), "IMMA", marks=pytest.mark.slow),
        ("sm_90", ("int8", "int8"), "IMMA"),
    ],
)
def test_the_best_row_of_the_draft_is_products(
    arch: str, types: tuple[str, str], opcode: str, tmp_path: Path
) -> None:
    target = cuda_target(arch)
    offered = on_units(int_product(4096, 4096, 4096, types), target)
    sketch = next(s for s in offered if unit_of(s, units_of(target)).name.startswith("mma"))
    kernel = build(lower(sketch, dict(best_row(sketch))), sketch.target)
    assert not kernel.spills
    found = loop_of(kernel.cubin, tmp_path, opcode)
    # an element of an operand is rounded by two instructions
    share = _LEAST_SHARE / 2 if types == SINGLES else _LEAST_SHARE
    assert count(found, opcode) >= share * found.total(), found
    assert count(found, "BAR") == 1, found


@needs_nvrtc
@needs_disassembler
@pytest.mark.parametrize(
    ("types", "opcode"),
    [
        (HALVES, "HGMMA"),
        pytest.param(SINGLES, "HGMMA", marks=pytest.mark.slow),
        pytest.param(("uint8", "int8"), "IGMMA", marks=pytest.mark.slow),
    ],
)
def test_four_warps_hardly_issue_anything_beside_products(
    types: tuple[str, str], opcode: str, tmp_path: Path
) -> None:
    """A product of n columns takes a processor n / 2 cycles, four warps have one scheduler each; of
    tf32 they round the operands, too.
    """
    most = _ROUNDING_BUSY if types == SINGLES else _MOST_BUSY
    for sketch in on_units(int_product(8192, 8192, 8192, types), H200):
        unit = unit_of(sketch, units_of(H200))
        if unit is None or not unit.reads_shared:
            continue
        kernel = build(lower(sketch, dict(best_row(sketch))), H200)
        assert not kernel.spills
        found = loop_of(kernel.cubin, tmp_path, opcode)
        products = count(found, opcode)
        assert products >= _TILE_PRODUCTS, found
        assert found.total() <= most * products * unit.n / 2, found
        assert count(found, "BAR") == count(found, "WARPGROUP") - 1 == 1, found


@needs_nvrtc
@pytest.mark.parametrize(
    "arch",
    [
        "sm_75",
        *(pytest.param(f"sm_{n}", marks=pytest.mark.slow) for n in (80, 89, 90, 100, 120)),
    ],
)
def test_architectures_have_code(arch: str) -> None:
    target = cuda_target(arch)
    for types in (("float16", "float16"), HALVES, SINGLES, ("uint8", "int8")):
        for sketch in on_units(int_product(256, 256, 256, types), target):
            kernel = build(lower(sketch, dict(best_row(sketch))), target)
            assert not kernel.spills


def test_pixels_by_their_number_are_copied_in_pieces_of_channels() -> None:
    for sketch in on_units(pixels(14, 64, 64, HALVES), H200):
        text = emit(lower(sketch, dict(best_row(sketch))), H200).text
        assert set(re.findall(r"copy_\w+<(\d+)>\(&C_rows_cache", text)) == {"8"}
