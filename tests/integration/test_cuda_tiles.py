"""Products that four warps begin and that read shared memory later: every fault in what orders
them, or says where their operands are, is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from codegen.cuda.build import emit
from codegen.cuda.compile import compiled
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.emulation.checked import CheckedProgram, compile_checked
from codegen.gpu.emulation.library import EmulationError, compiler
from sketch.errors import TargetError
from sketch.lower import lower
from sketch.lower.packing import preparations
from sketch.rules.unit_fit import unit_of
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.target.units import units_of
from tests.support.cuda_programs import feasible_rows
from tests.support.ptx.memory import MemoryFault
from tests.support.ptx.program import PtxError
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.units import HALVES, SINGLES, int_arrays, int_product, on_units, oracle

H200 = cuda_target("h200")
_ROWS = 32

needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

Arrays = dict[str, np.ndarray]


@cache
def program(tiles: int, types: tuple[str, str] = HALVES) -> tuple[CudaSource, Arrays, np.ndarray]:
    """A product with so many tiles in shared memory, its operands, its result."""
    dag = int_product(80, 72, 450 if types == HALVES else 226, types)
    rng = np.random.default_rng(0)
    sketch, row = chosen(on_units(dag, H200), tiles)
    arrays = int_arrays(dag, rng)
    expected = oracle(dag, arrays)
    arrays |= {n: layout.apply(arrays[n]) for n, layout in preparations(sketch, row).items()}
    return emit(lower(sketch, dict(row)), H200), arrays, expected


def chosen(sketches: list[Sketch], tiles: int) -> tuple[Sketch, Mapping[Any, int]]:
    for sketch in sketches:
        unit = unit_of(sketch, units_of(H200))
        if unit is not None and unit.reads_shared:
            rows = feasible_rows(sketch, _ROWS, np.random.default_rng(0))
            for number in range(rows.count):
                row = rows.row(number)
                if all(row[d] == tiles for d in row if getattr(d, "level", "") == "tiles"):
                    return sketch, row
    raise AssertionError("no such row")


def without(pattern: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, ";", text)


def instead(pattern: str, new: str) -> Callable[[str], str]:
    return lambda text: re.sub(pattern, new, text)


_FIELDS = r"0x4000004000010000ull"
# What both emulators run, and what only the instructions themselves show.
SEEN_BY_BOTH: Mapping[str, Callable[[str], str]] = {
    "no wait behind the loop": without(r"wait_products<0>\(\);"),
    "no group": without(r"commit_products\(\);"),
    "pieces of 4 rows change places": instead(r"swizzled<64, 8, 8>", "swizzled<64, 4, 8>"),
    "pieces stay": instead(r"swizzled<64, 8, 8>", ""),
    "copies are not waited for": without(r"wait_copies<\d>\(\);"),
    "no barrier": without(r"__syncthreads\(\);"),
}
SEEN_IN_PTX: Mapping[str, Callable[[str], str]] = {
    "no wait in the loop": without(r"wait_products<1>\(\);"),
    "one group less is waited for in the loop": instead("wait_products<1>", "wait_products<2>"),
    "no fence of registers": without(r'asm volatile\("wgmma.fence[^;]*;"[^;]*;'),
    "stores are not published": without(r"publish_stores\(\);"),
    "stores are published behind the barrier": instead(
        r"publish_stores\(\);\s*__syncthreads\(\);", "__syncthreads(); publish_stores();"
    ),
    "swizzle of 64 bytes": instead(_FIELDS, "0x8000004000010000ull"),
    "no swizzle": instead(_FIELDS, "0x0000004000010000ull"),
    "rows half as far apart": instead(_FIELDS, "0x4000002000010000ull"),
    "rows twice as far apart": instead(_FIELDS, "0x4000008000010000ull"),
    "a base offset": instead(_FIELDS, "0x4002004000010000ull"),
    "not as aligned as pieces change places": instead(
        r"dynamic_shared \+ 0\)", "dynamic_shared + 128)"
    ),
}
# Of tiles that threads round when they have arrived.
_ARRIVED = (
    r"(wait_copies<\d>\(\);\s*)(\{[^}]*slot = now;.*?)(publish_stores\(\);\s*__syncthreads\(\);)"
)
SEEN_WHERE_ROUNDED: Mapping[str, Callable[[str], str]] = {
    "tiles are not rounded": without(r"round_piece<\d>\(&.*;"),
    "rounded before they are there": lambda text: re.sub(
        _ARRIVED, r"\2\1\3", text, count=1, flags=re.DOTALL
    ),
    "rounded behind the barrier": lambda text: re.sub(
        _ARRIVED, r"\1\3\2", text, count=1, flags=re.DOTALL
    ),
}


def mutated(source: CudaSource, change: Callable[[str], str]) -> CudaSource:
    text = change(source.text)
    assert text != source.text
    return replace(source, text=text)


@needs_nvrtc
@pytest.mark.parametrize("tiles", [1, 2, 3, 4])
def test_a_tile_may_be_read_while_the_next_one_is(tiles: int) -> None:
    source, arrays, expected = program(tiles)
    assert source.text.count("wait_products<1>") == (tiles > 2)
    (found,) = run_ptx(source, ptx_of(source.text), arrays).values()
    np.testing.assert_array_equal(found, expected)


@needs_nvrtc
@pytest.mark.parametrize("fault", [*SEEN_IN_PTX, *SEEN_BY_BOTH])
def test_faults_are_noticed_in_ptx(fault: str) -> None:
    source, arrays, expected = program(4)
    mutant = mutated(source, {**SEEN_BY_BOTH, **SEEN_IN_PTX}[fault])
    assert is_noticed_in_ptx(mutant, arrays, expected)


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CheckedProgram]:
    """The program as it is, "", and with each fault; the compiler starts once for all."""
    source, _, _ = program(4)
    changed = {fault: mutated(source, change) for fault, change in SEEN_BY_BOTH.items()}
    sources = {"": source, **changed}
    programs = compile_checked([*sources.values()], tmp_path_factory.mktemp("emulated"), "-O1")
    return dict(zip(sources, programs, strict=True))


@needs_compiler
@pytest.mark.parametrize("fault", SEEN_BY_BOTH)
def test_faults_are_noticed_in_emulation(
    fault: str, emulated: Mapping[str, CheckedProgram]
) -> None:
    _, arrays, expected = program(4)
    assert is_noticed(emulated[fault], arrays, expected)


@needs_compiler
def test_nothing_is_noticed_in_emulation_without_a_fault(
    emulated: Mapping[str, CheckedProgram],
) -> None:
    _, arrays, expected = program(4)
    assert not is_noticed(emulated[""], arrays, expected)


def is_noticed_in_ptx(mutant: CudaSource, arrays: Arrays, expected: np.ndarray) -> bool:
    """Whether the interpreter reports a fault of a program, or gets another result."""
    ptx = ptx_of(mutant.text)
    try:
        (found,) = run_ptx(mutant, ptx, arrays).values()
    except (MemoryFault, PtxError):
        return True
    return not np.array_equal(found, expected)


def is_noticed(mutant: CheckedProgram, arrays: Arrays, expected: np.ndarray) -> bool:
    """Whether the emulation of a program reports a fault, or gives another result."""
    for reverse in (False, True):
        try:
            (found,) = mutant.run(arrays, reverse=reverse).values()
        except EmulationError:
            return True
        if not np.array_equal(found, expected):
            return True
    return False


@needs_compiler
@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("fault", SEEN_WHERE_ROUNDED)
def test_faults_in_rounding_are_noticed(fault: str, tmp_path: Path) -> None:
    source, arrays, expected = program(3, SINGLES)
    mutant = mutated(source, SEEN_WHERE_ROUNDED[fault])
    (emulated_here,) = compile_checked([mutant], tmp_path)
    assert is_noticed(emulated_here, arrays, expected)
    assert is_noticed_in_ptx(mutant, arrays, expected)


@needs_compiler
@pytest.mark.parametrize("types", [HALVES, pytest.param(SINGLES, marks=pytest.mark.slow)])
def test_modules_without_a_record_compute_on_them(types: tuple[str, str]) -> None:
    """The draft model prefers them for products that keep a card busy."""
    dag = int_product(512, 768, 256, types)
    task = asd.Task(dag, asd.Target("cuda:h200", device="emulated"))
    assert "wgmma_m64" in task.compile().source.text
    arrays = int_arrays(dag, np.random.default_rng(0))
    (found,) = task.module({"B": arrays["B"]}).run({"A": arrays["A"]}).values()
    np.testing.assert_array_equal(found, oracle(dag, arrays))


def test_other_architectures_refuse_such_programs() -> None:
    source, _, _ = program(4)
    with pytest.raises(TargetError, match="sm_100 does not have"):
        compiled(source, "sm_100")
