"""Independent chains of products on tile registers: the most that a thread can do in a second."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

from autosched.runtime.probes.pinned_threads import best_seconds
from codegen.kernel import Kernel
from codegen.llvm.jit import Library, load
from codegen.llvm.machine import emit_object
from codegen.llvm.tile_layout import TileLayout
from codegen.llvm.unit_calls import TILE_CALLS
from sketch.lang.dtypes import size_of
from sketch.target.target import Target
from sketch.target.units import TensorUnit

# Two first operands times two second ones, as in the tiles that reuse operands most.
_RESULTS: Final = 4
_TRIPS: Final = 200_000
_REPEATS: Final = 15
_SYMBOL: Final = "tile_chains"


def tile_peak(unit: TensorUnit, target: Target) -> float:
    """Operations a second of a unit with tile registers, on all threads of this machine."""
    _library, run = load_tile_chains(unit, target)
    seconds = best_seconds(lambda _: run(_TRIPS), target.threads, _REPEATS)
    return tile_operations(unit) * _TRIPS * target.threads / seconds


def tile_operations(unit: TensorUnit) -> float:
    """Multiplications and additions of a trip of ``load_tile_chains``."""
    return 2.0 * unit.m * unit.n * unit.k * _RESULTS


def load_tile_chains(unit: TensorUnit, target: Target) -> tuple[Library, Callable[[int], object]]:
    """A function of trips, as ``load_chains`` makes them, for a unit with tile registers."""
    code = emit_object(tile_chains_text(unit), target)
    library = load([Kernel(_SYMBOL, _SYMBOL, code, (), 0, target, _RESULTS)])
    return library, ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.address(_SYMBOL))


def tile_chains_text(unit: TensorUnit) -> str:
    """LLVM IR of a function of trips (int64), on zeros."""
    depth = unit.k * size_of(unit.lhs)
    layout = TileLayout(_RESULTS, unit.m, depth, unit.k // unit.together)
    content = layout.configuration()
    text = "".join(f"\\{byte:02X}" for byte in content)
    product = TILE_CALLS[unit.lhs, unit.rhs]
    pairs = [(lhs, rhs) for lhs in layout.lhs for rhs in layout.rhs]
    return "\n".join([
        f'@configuration = internal constant [{len(content)} x i8] c"{text}", align 64',
        "declare void @llvm.x86.ldtilecfg(ptr)",
        "declare void @llvm.x86.tilerelease()",
        f"declare void @{product}(i8, i8, i8)",
        f"define void @{_SYMBOL}(i64 %trips) {{",
        "entry:",
        "  call void @llvm.x86.ldtilecfg(ptr @configuration)",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *(
            f"  call void @{product}(i8 {result}, i8 {lhs}, i8 {rhs})"
            for result, (lhs, rhs) in enumerate(pairs)
        ),
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %trips",
        "  br i1 %more, label %loop, label %done",
        "done:",
        "  call void @llvm.x86.tilerelease()",
        "  ret void",
        "}",
    ])  # fmt: skip
