"""The nest interpreter against NumPy, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from sketch.errors import LoweringError
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import Branch, BufferLoad, Case, LoopNest, LoopVar, Scope, Store
from sketch.nest.printer import print_affine, print_nest
from tests.support.nests import SERIAL, conv_arrays, dense, loop, matmul, pack_panels, plus


def test_matmul_equals_numpy(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((5, 3)), rng.standard_normal((3, 7))
    nest = matmul(5, 7, 3, rows=2, vectors=2, lanes=2)
    arrays = {"A": a.astype(np.float32), "B": pack_panels(b, 4).astype(np.float32)}
    np.testing.assert_allclose(
        run_nest(nest, arrays)["C"].reshape(5, 7), a @ b, rtol=1e-4, atol=1e-5
    )


def one_store(offset: int, *cases: tuple[int, int]) -> LoopNest:
    x, y = dense("x", (4,), Scope.INPUT), dense("y", (4,), Scope.OUTPUT)
    i = LoopVar("i")
    store = Store((y,), (plus(i),), (BufferLoad(x, (plus(i, const=offset),)),))
    copies = tuple(Case(low, high, (store,)) for low, high in cases)
    body = Branch(plus(i), copies) if copies else store
    return LoopNest("copy", (x, y), (), (loop(i, 4, SERIAL, body),))


def test_out_of_bounds_is_an_error() -> None:
    with pytest.raises(LoweringError, match="element 4 of 4"):
        run_nest(one_store(1), {"x": np.zeros(4, np.float32)})


def test_branches_must_be_a_partition() -> None:
    x = {"x": np.arange(4, dtype=np.float32)}
    np.testing.assert_array_equal(run_nest(one_store(0, (0, 1), (2, 3)), x)["y"], x["x"])
    with pytest.raises(LoweringError, match="2 cases for i = 1"):
        run_nest(one_store(0, (0, 1), (1, 3)), x)
    with pytest.raises(LoweringError, match="0 cases for i = 3"):
        run_nest(one_store(0, (0, 2)), x)


def test_missing_and_wrong_arguments() -> None:
    with pytest.raises(LoweringError, match="x is missing"):
        run_nest(one_store(0), {})
    with pytest.raises(LoweringError, match="3 elements, the nest needs 4"):
        run_nest(one_store(0), {"x": np.zeros(3, np.float32)})


def test_printer_is_stable(rng: np.random.Generator) -> None:
    nest = matmul(5, 7, 3, rows=2, vectors=2, lanes=2)
    assert print_nest(nest) == print_nest(matmul(5, 7, 3, rows=2, vectors=2, lanes=2))
    assert set(conv_arrays(nest, rng)) == {"A", "B"}


def test_affine_text() -> None:
    i, j = LoopVar("i"), LoopVar("j")
    assert print_affine(plus((i, -1), (j, 2), const=-3)) == "-i + 2*j - 3"
    assert print_affine(plus()) == "0"
