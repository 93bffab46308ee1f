"""Wide accesses: where elements follow each other in aligned pieces, and nowhere else."""

from __future__ import annotations

import re

import pytest

from codegen.cuda.build import emit
from codegen.passes.restride import loosen
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.rules.generate import generate
from tests.support.cuda_programs import GPU, MATMUL_ROW, matmul_nest, row_of


def text_of(
    rows: int,
    columns: int,
    elements: int,
    dtype: str = "float32",
    shift: int = 0,
    loose: frozenset[str] = frozenset(),
) -> str:
    """Doubled elements of a matrix, ``elements`` of a row in each of 8 threads."""
    data = placeholder((rows, columns + shift), dtype, name="A")
    out = compute((rows, columns), lambda i, j: data[i, j + shift] * 2, name="B")
    (sketch,) = generate(ComputeDAG([out]), GPU)
    row = dict.fromkeys((decision.id for decision in sketch.decisions), 1)
    name = out.op.axes[1].name
    row |= row_of({f"B.{name}@1": 8, f"B.{name}@2": elements}, sketch)
    return emit(loosen(lower(sketch, row), loose), GPU).text


def pieces(text: str) -> list[tuple[str, str, str]]:
    """(what, elements, alignment) of every wide access."""
    return re.findall(r"(load|store)_piece<(\d+), (\d+)>\(", text)


@pytest.mark.parametrize(
    ("elements", "dtype", "bytes_"),
    [(4, "float32", 16), (2, "float32", 8), (8, "float32", 16), (2, "float64", 16), (4, "int8", 4)],
)
def test_elements_that_follow_each_other_are_one_access(
    elements: int, dtype: str, bytes_: int
) -> None:
    found = pieces(text_of(3, 64, elements, dtype))
    assert found == [("load", str(elements), str(bytes_)), ("store", str(elements), str(bytes_))]


def test_rows_that_are_not_aligned_are_read_one_by_one() -> None:
    assert pieces(text_of(3, 62, 4)) == []
    assert pieces(text_of(3, 64, 3)) == []


def test_a_shifted_operand_is_read_one_by_one_and_the_result_stored_as_one() -> None:
    assert pieces(text_of(3, 64, 4, shift=1)) == [("store", "4", "16")]


def test_guards_that_hold_for_whole_pieces_stay_around_them() -> None:
    text = text_of(3, 68, 4)  # two whole pieces in the last block of threads
    assert len(pieces(text)) == 2
    assert re.search(r"if \(.* < 68\) load_piece", text)
    assert re.search(r"if \(.* < 68\) store_piece", text)


@pytest.mark.parametrize(
    ("loose", "left"), [({"A"}, ["store"]), ({"B"}, ["load"]), ({"A", "B"}, [])]
)
def test_what_may_start_at_any_element_moves_one_by_one(loose: set[str], left: list[str]) -> None:
    assert [kind for kind, _, _ in pieces(text_of(3, 64, 4, loose=frozenset(loose)))] == left


@pytest.mark.parametrize(("columns", "each"), [(24, [("store", "4", "16")]), (23, [])])
def test_results_of_a_tile_are_stored_in_pieces(columns: int, each: list[tuple[str, ...]]) -> None:
    row = {**MATMUL_ROW, **row_of({"C.j@4": 4})}
    found = pieces(emit(matmul_nest((20, columns, 12), row), GPU).text)
    assert [piece for piece in found if piece[0] == "store"] == each
