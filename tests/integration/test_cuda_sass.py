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
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.population.population import concat, deduplicate
from sketch.rules.generate import generate
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.cuda_programs import feasible_rows, row_of
from tests.support.sass import count, disassembler, loop_of
from tests.support.workloads import matmul_dag

TARGET = cuda_target("h200")
_LEAST_SHARE = 0.88
_LEAST_OF_SMALL_TILES = 0.85
_ROWS, _BEST_FEW = 2048, 8
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


def check(
    sketch: Sketch, row: Mapping[DecisionId, int], folder: Path, least: float = _LEAST_SHARE
) -> Counter[str]:
    kernel = build(lower(sketch, dict(row)), sketch.target)
    assert not kernel.spills
    found = loop_of(kernel.cubin, folder)
    assert count(found, "FFMA") >= least * found.total(), found
    assert count(found, "BAR") == 1 and count(found, "BRA") == 1, found
    copies = {name for name in found if name.split(".")[0] in ("LDGSTS", "LDG", "STS")}
    assert copies and all(name.startswith("LDGSTS") and ".128" in name for name in copies), found
    return found


@pytest.mark.parametrize(
    ("size", "depth"),
    [
        (4096, 4),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((1024, 2), (1024, 3), (1024, 4), (4096, 2), (4096, 3))
        ),
    ],
)
def test_the_loop_over_tiles_is_multiply_adds(size: int, depth: int, tmp_path: Path) -> None:
    (sketch, *_) = generate(matmul_dag(size, size, size), TARGET)
    order = {"C.i@together": 4} if "C.i@together" in sketch.labels.values() else {}
    row = {**TILES, **row_of({"C.local.k@tiles": depth, **order}, sketch)}
    found = check(sketch, row, tmp_path)
    assert count(found, "LDS") == found["LDS.128"], found


def best_of_the_draft(dag: ComputeDAG, target: Target) -> tuple[Sketch, dict[DecisionId, int]]:
    """The best of random rows of all sketches, and of those around the best few until none is
    better.
    """
    found = [_best_row(sketch) for sketch in generate(dag, target)]
    _, sketch, row = min(found, key=lambda each: each[0])
    return sketch, row


def _best_row(sketch: Sketch) -> tuple[float, Sketch, dict[DecisionId, int]]:
    rows = feasible_rows(sketch, _ROWS, np.random.default_rng(0))
    best, row = float("inf"), rows.row(0)
    while True:
        seconds = draft_seconds(rows)
        order = np.argsort(seconds, kind="stable")[:_BEST_FEW]
        if seconds[order[0]] >= best:
            return best, sketch, row
        best, row = float(seconds[order[0]]), rows.row(int(order[0]))
        few = rows.take(order)
        near = [neighbours(Candidate(sketch, few.row(n))) for n in range(few.count)]
        rows = keep_feasible(deduplicate(concat([few, *near])))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "shape",
    [
        (2048, 2048, 2048),
        (4096, 4096, 4096),
        (1000, 1000, 1000),
        (1024, 4096, 1024),
        (3000, 1200, 700),
    ],
)
def test_so_is_that_of_the_best_row_of_the_draft(
    arch: str, shape: tuple[int, int, int], tmp_path: Path
) -> None:
    """Also where neither results nor sums are whole tiles."""
    check(*best_of_the_draft(matmul_dag(*shape), cuda_target(arch)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "shape", "least"),
    [
        ("sm_80", (1024, 1024, 1024), _LEAST_SHARE),
        ("sm_90", (1024, 1024, 1024), _LEAST_SHARE),
        ("sm_80", (1500, 1500, 1500), _LEAST_SHARE),
        ("sm_90", (1500, 1500, 1500), _LEAST_SHARE),
        ("sm_80", (1777, 2048, 512), _LEAST_SHARE),
        ("sm_90", (1777, 2048, 512), _LEAST_SHARE),
        ("sm_80", (197, 3072, 768), _LEAST_OF_SMALL_TILES),
        ("sm_90", (197, 3072, 768), 0.879),
        ("sm_80", (197, 768, 3072), _LEAST_SHARE),
        ("sm_90", (197, 768, 3072), _LEAST_SHARE),
    ],
)
def test_tails_and_few_results_cost_no_branch(
    arch: str, shape: tuple[int, int, int], least: float, tmp_path: Path
) -> None:
    """Fewer results fill the card with smaller tiles, of which more is read and copied."""
    check(*best_of_the_draft(matmul_dag(*shape), cuda_target(arch)), tmp_path, least)
