"""Machine code of a matrix product: nearly all multiply-adds, copies of 16 bytes, one barrier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from autosched.search.finish import neighbours
from autosched.search.sampling import keep_feasible
from autosched.tasks.candidate import Candidate
from codegen.cuda.build import build
from codegen.cuda.nvrtc import missing_compiler
from costmodel.extract import draft_seconds
from sketch.lower import lower
from sketch.rules.generate import generate
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import feasible_rows, row_of
from tests.support.sass import count, disassembler, loop_of
from tests.support.workloads import matmul_dag

TARGET = cuda_target("h200")
_LEAST_SHARE = 0.88
_LEAST_OF_TAILS = 0.83
_ROWS = 2048
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


def check(sketch: Sketch, row: Mapping[DecisionId, int], folder: Path) -> Counter[str]:
    kernel = build(lower(sketch, dict(row)), sketch.target)
    assert not kernel.spills
    found = loop_of(kernel.cubin, folder)
    assert count(found, "FFMA") >= _LEAST_SHARE * found.total(), found
    assert count(found, "BAR") == 1 and count(found, "BRA") == 1, found
    copies = {name for name in found if name.split(".")[0] in ("LDGSTS", "LDG", "STS")}
    assert copies and all(name.startswith("LDGSTS") and ".128" in name for name in copies), found
    return found


@pytest.mark.parametrize(
    ("size", "depth"),
    [
        *((1024, 3), (4096, 2), (4096, 4)),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((1024, 2), (1024, 4), (4096, 3))
        ),
    ],
)
def test_the_loop_over_tiles_is_multiply_adds(size: int, depth: int, tmp_path: Path) -> None:
    (sketch, *_) = generate(matmul_dag(size, size, size), TARGET)
    found = check(sketch, {**TILES, **row_of({"C.local.k@tiles": depth})}, tmp_path)
    assert count(found, "LDS") == found["LDS.128"], found


def best_of_the_draft(sketch: Sketch) -> dict[DecisionId, int]:
    """The best of random rows, and of those around it until none is better."""
    rows = feasible_rows(sketch, _ROWS, np.random.default_rng(0))
    best, row = float("inf"), rows.row(0)
    while True:
        seconds = draft_seconds(rows)
        if seconds.min() >= best:
            return row
        best, row = float(seconds.min()), rows.row(int(seconds.argmin()))
        rows = keep_feasible(neighbours(Candidate(sketch, row)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "size"),
    [("sm_80", 2048), ("sm_80", 4096), ("sm_90", 1024), ("sm_90", 2048), ("sm_90", 4096)],
)
def test_so_is_that_of_the_best_row_of_the_draft(arch: str, size: int, tmp_path: Path) -> None:
    (sketch, *_) = generate(matmul_dag(size, size, size), cuda_target(arch))
    check(sketch, best_of_the_draft(sketch), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1024, 1024, 1024), (197, 3072, 768), (1000, 1000, 1000)])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_tails_and_few_results_cost_no_branch(
    arch: str, shape: tuple[int, int, int], tmp_path: Path
) -> None:
    """Fewer results fill the card with smaller tiles, of which more is copied."""
    (sketch, *_) = generate(matmul_dag(*shape), cuda_target(arch))
    kernel = build(lower(sketch, best_of_the_draft(sketch)), sketch.target)
    found = loop_of(kernel.cubin, tmp_path)
    assert not kernel.spills and count(found, "BAR") == 1 and count(found, "BRA") == 1, found
    assert count(found, "LDGSTS") == found["LDGSTS.E.BYPASS.128"] > 0, found
    assert count(found, "FFMA") >= _LEAST_OF_TAILS * found.total(), found
