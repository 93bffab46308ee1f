"""Masks that are triangles are known as such."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.elementwise import BinaryOp, Where
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Triangle
from autosched.graph.ops.softmax import Softmax
from autosched.graph.passes.triangles import name_triangles

SHAPE = (2, 3, 5, 7)
SOFTMAX = Softmax()


def hidden(condition: np.ndarray, fill: float = -np.inf, turned: bool = False) -> Graph:
    net = GraphBuilder("net")
    data = net.input(Value("x", SHAPE))
    seen = net.constant("seen", condition)
    other = net.constant("fill", np.asarray(fill, np.float32))
    choices = [other, data] if turned else [data, other]
    return net.finish({"y": net.add(Where(), [seen, *choices])})


@pytest.mark.parametrize("diagonal", [0, 2])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rank", [2, 4])
def test_lower_triangles(diagonal: int, turned: bool, rank: int) -> None:
    seen = np.tri(5, 7, diagonal, dtype=np.bool_).reshape((1,) * (rank - 2) + (5, 7))
    graph = hidden(~seen if turned else seen, turned=turned)
    found = name_triangles(graph)
    assert [node.op for node in found.nodes] == [Triangle(False, diagonal, hidden=True)]
    inputs = {"x": np.random.default_rng(3).standard_normal(SHAPE, dtype=np.float32)}
    np.testing.assert_array_equal(evaluate(found, inputs)["y"], evaluate(graph, inputs)["y"])


def _with_a_hole() -> np.ndarray:
    seen = np.tri(5, 7, dtype=np.bool_)
    seen[4, 2] = False
    return seen


@pytest.mark.parametrize(
    "graph",
    [
        hidden(np.tri(5, 7, dtype=np.bool_), fill=-1e30),
        hidden(np.tri(5, 7, -1, dtype=np.bool_)),
        hidden(_with_a_hole()),
        hidden(np.tri(5, 7, dtype=np.bool_)[:1]),
        hidden(np.ones((5, 7), np.bool_)),
        hidden(np.broadcast_to(np.tri(5, 7, dtype=np.bool_), (3, 5, 7)).copy()),
    ],
    ids=["a number", "an empty row", "a hole", "one row", "nothing hidden", "of each head"],
)
def test_other_masks_stay(graph: Graph) -> None:
    assert name_triangles(graph).nodes == graph.nodes


def added(
    mask: np.ndarray,
    reader: Softmax | None = SOFTMAX,
    turned: bool = False,
    padded: bool = False,
    chosen: np.ndarray | None = None,
    fill: float | None = None,
    reciprocal: bool = False,
) -> Graph:
    """A mask added to scaled products.

    Args:
        mask: what is added.
        reader: of the sum.
        turned: the mask is the first operand.
        padded: another one, known at run time only, was added before.
        chosen: where products have not been replaced before.
        fill: what they have been replaced by; None: what is known at run time only.
        reciprocal: of the products.
    """
    net = GraphBuilder("net")
    x, keys = net.input(Value("x", (*SHAPE[:-1], 4))), net.input(Value("keys", (*SHAPE[:2], 4, 7)))
    scale = net.constant("scale", np.asarray(0.5, np.float32))
    factors = [net.add(MatMul(), [x, keys]), scale]
    data = net.add(
        BinaryOp("div" if reciprocal else "mul"), factors[::-1] if reciprocal else factors
    )
    if padded:
        data = net.add(BinaryOp("add"), [data, net.input(Value("padding", (2, 1, 1, 7)))])
    if chosen is not None:
        other = (
            net.input(Value("other", SHAPE))
            if fill is None
            else net.constant("fill", np.asarray(fill, np.float32))
        )
        data = net.add(Where(), [net.constant("chosen", chosen), data, other])
    other = net.constant("mask", mask.astype(np.float32))
    scores = net.add(BinaryOp("add"), [other, data] if turned else [data, other])
    return net.finish({"y": scores if reader is None else net.add(reader, [scores])})


def _scores(diagonal: int = 0, far: float = -np.inf) -> np.ndarray:
    return np.where(np.tri(5, 7, diagonal, dtype=np.bool_), 0, far)


@pytest.mark.parametrize("far", [-np.inf, float(np.finfo(np.float32).min), -1e30])
@pytest.mark.parametrize("turned", [False, True])
def test_numbers_added_to_scores(far: float, turned: bool) -> None:
    graph = added(_scores(2, far)[None, None], turned=turned)
    found = name_triangles(graph)
    assert [node.op for node in found.nodes][2:] == [Triangle(False, 2, hidden=True), Softmax()]
    np.testing.assert_array_equal(
        evaluate(found, _inputs(graph))["y"], evaluate(graph, _inputs(graph))["y"]
    )


def test_masks_of_float16_hold_no_finite_number_that_is_far() -> None:
    net = GraphBuilder("net")
    x, keys = (net.input(Value(name, (1, 7, 7), "float16")) for name in ("x", "keys"))
    mask = net.constant("mask", np.where(np.tri(7, dtype=np.bool_), 0, -np.inf).astype(np.float16))
    scores = net.add(BinaryOp("add"), [net.add(MatMul(), [x, keys]), mask])
    graph = net.finish({"y": net.add(Softmax(), [scores])})
    with warnings.catch_warnings(action="error"):  # NumPy's, of numbers that are infinite then
        found = name_triangles(graph)
    assert Triangle(False, hidden=True) in [node.op for node in found.nodes]


def _inputs(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in graph.inputs}


@pytest.mark.parametrize(("hidden_before", "named"), [(0, True), (2, True), (-1, False)])
def test_masks_that_hide_what_is_hidden_already(hidden_before: int, named: bool) -> None:
    """Models choose by a triangle, and add the mask of all tokens after that."""
    lowest = float(np.finfo(np.float32).min)
    chosen = np.tri(5, 7, hidden_before, dtype=np.bool_)[None, None]
    graph = added(_scores(far=lowest), chosen=chosen, fill=lowest)
    found = name_triangles(graph)
    assert any(isinstance(node.op, Triangle) for node in found.nodes) == named
    with np.errstate(over="ignore"):  # two of the lowest numbers make minus infinity
        ours, theirs = (evaluate(each, _inputs(graph))["y"] for each in (found, graph))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "graph",
    [
        added(_scores(far=-1e30), chosen=np.tri(5, 7, dtype=np.bool_), fill=3e38),
        added(_scores(far=-1e30), chosen=np.tri(5, 7, dtype=np.bool_)),
        added(_scores(far=-1e30), reciprocal=True),
    ],
    ids=["a large number", "an input", "a reciprocal"],
)
def test_finite_masks_on_what_may_be_large_stay(graph: Graph) -> None:
    assert name_triangles(graph).nodes == graph.nodes


@pytest.mark.parametrize("far", [-np.inf, float(np.finfo(np.float32).min)])
def test_rows_in_which_another_mask_hides_everything(far: float) -> None:
    """Their scores are all as far: a second mask that is finite hides none before the others."""
    graph = added(_scores(far=far), padded=True)
    found = name_triangles(graph)
    assert any(isinstance(node.op, Triangle) for node in found.nodes) == np.isinf(far)
    inputs = _inputs(graph)
    inputs["padding"] = np.where(np.arange(7) < 2, np.finfo(np.float32).min, 0).astype(np.float32)
    inputs["padding"] = np.tile(inputs["padding"], (2, 1, 1, 1))
    ours, theirs = (evaluate(each, inputs)["y"] for each in (found, graph))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "graph",
    [
        added(_scores(far=-1e4)),
        added(_scores(), reader=None),
        added(_scores(), reader=Softmax(axis=2)),
        added(_scores(), reader=Softmax(log=True)),
        added(_scores(-1)),
        added(_scores() + 1),
        added(_scores()[:1]),
    ],
    ids=["near", "a result", "other axis", "a logarithm", "an empty row", "other numbers", "a row"],
)
def test_other_sums_stay(graph: Graph) -> None:
    assert name_triangles(graph).nodes == graph.nodes
