"""Fills of shared memory: how many elements a thread copies at a time."""

from __future__ import annotations

import re

import pytest

from codegen.cuda.build import device_functions, emit
from codegen.cuda.device import Fetch, walk_device
from tests.support.cuda_programs import GPU, MATMUL_ROW, matmul_nest, row_of


def counts(shape: tuple[int, int, int]) -> list[int]:
    """Elements of a piece of both operands of a matrix product ``(m, n, k)``."""
    (function,) = device_functions(matmul_nest(shape), GPU)
    return [node.count for node in walk_device(function.body) if isinstance(node, Fetch)]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((20, 24, 12), [4, 4]),
        ((20, 22, 10), [2, 2]),  # rows of 10 and 22 elements
        ((20, 24, 11), [1, 4]),
        ((21, 23, 12), [4, 1]),
    ],
)
def test_pieces_are_as_long_as_rows_are_aligned(
    shape: tuple[int, int, int], expected: list[int]
) -> None:
    assert counts(shape) == expected


def test_rounds_of_all_threads_are_known_and_the_rest_is_guarded() -> None:
    text = emit(matmul_nest((20, 24, 11)), GPU).text
    assert "point +=" not in text
    assert re.search(r"for \(index_t round = 0; round < 4; \+\+round\)", text)  # 64 elements of A
    rest = emit(matmul_nest((20, 24, 12), {**MATMUL_ROW, **row_of({"C.j@4": 3})}), GPU).text
    assert re.search(r"if \(thread < \d+\) \{\n +const index_t point = thread", rest)
