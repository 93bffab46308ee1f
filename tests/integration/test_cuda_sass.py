"""Machine code of a matrix product: nearly all multiply-adds, copies of 16 bytes, one barrier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from codegen.cuda.build import build
from codegen.cuda.nvrtc import missing_compiler
from sketch.lower import lower
from sketch.rules.generate import generate
from sketch.schedule.decision import DecisionId
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import row_of
from tests.support.sass import count, disassembler, loop_of
from tests.support.workloads import matmul_dag

TARGET = cuda_target("h200")
_LEAST_SHARE = 0.88
TILES = row_of({
    "C.i@1": 1, "C.i@2": 4, "C.i@3": 4, "C.i@4": 8,
    "C.j@1": 1, "C.j@2": 2, "C.j@3": 8, "C.j@4": 8,
    "C.local.k@1": 1, "C.local.k@2": 8,
    "A.cache.d1@layout": 1, "B.cache.d1@layout": 0,
})  # fmt: skip

pytestmark = [
    pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler())),
    pytest.mark.skipif(disassembler() is None, reason="needs nvdisasm: nvidia-cuda-nvdisasm"),
]


def check(size: int, row: Mapping[DecisionId, int], folder: Path) -> None:
    (sketch, *_) = generate(matmul_dag(size, size, size), TARGET)
    kernel = build(lower(sketch, dict(row)), TARGET)
    assert not kernel.spills
    found = loop_of(kernel.cubin, folder)
    assert count(found, "FFMA") >= _LEAST_SHARE * found.total(), found
    assert count(found, "BAR") == 1 and count(found, "BRA") == 1, found
    copies = {name for name in found if name.split(".")[0] in ("LDGSTS", "LDG", "STS")}
    assert copies and all(name.startswith("LDGSTS") and ".128" in name for name in copies), found
    assert count(found, "LDS") == found["LDS.128"], found


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("size", [1024, 4096])
def test_the_loop_over_tiles_is_multiply_adds(size: int, depth: int, tmp_path: Path) -> None:
    check(size, {**TILES, **row_of({"C.local.k@tiles": depth})}, tmp_path)
