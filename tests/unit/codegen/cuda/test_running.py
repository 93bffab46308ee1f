"""Places that copies of tiles read from move by a fixed step, where one loop walks the tiles."""

from __future__ import annotations

import re

import numpy as np

from codegen.cuda.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.rules.generate import generate
from tests.support.cuda_programs import GPU, MATMUL_ROW, feasible_rows, matmul_nest, row_of
from tests.support.workloads import conv2d_relu, matmul_dag

PIPELINE = {**MATMUL_ROW, **row_of({"C.local.k@tiles": 3})}


def pipelines_of(dag: ComputeDAG) -> list[str]:
    """Texts of rows with several tiles in shared memory."""
    (sketch, *_) = generate(dag, GPU)
    rows = feasible_rows(sketch, 8, np.random.default_rng(0))
    texts = (emit(lower(sketch, rows.row(n)), GPU).text for n in range(rows.count))
    return [text for text in texts if "commit_copies();\n" in text]


def test_a_step_is_added_after_the_copies_of_each_tile() -> None:
    text = emit(matmul_nest((32, 32, 64), PIPELINE), GPU).text
    assert "&A[A_next]" in text and "&B[B_next]" in text
    # once where the first tiles are begun, once in the loop
    assert text.count("A_next += 4;") == text.count("B_next += 128;") == 2


def test_rounds_are_at_fixed_distances_from_there() -> None:
    texts = pipelines_of(matmul_dag(256, 256, 256))
    assert any("+ 4096 * round" in text for text in texts)
    for text in texts:
        sources = re.findall(r"copy_ahead<\d>\(&.*?, (&[^,)]*?\])[, )+]", text)
        assert set(sources) == {"&A[A_next]", "&B[B_next]"}


def test_tiles_of_several_loops_are_found_by_their_number() -> None:
    texts = pipelines_of(conv2d_relu(14, 64, 64, 3, 1, 1))
    assert texts and not any("_next += " in text for text in texts)
