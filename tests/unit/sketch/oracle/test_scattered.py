"""What is computed from its terms is what is computed from all pairs, and so are its bounds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, Const, Expr, cast, select
from sketch.lang.functions import equal, exp
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.scatter import received
from sketch.oracle import stage_errors
from sketch.oracle.interpret import compute_regions, full_region, interpret, load_inputs, loader
from sketch.oracle.known_errors import KnownErrors
from sketch.oracle.reference import reference
from sketch.oracle.stage_errors import box_errors

RNG = np.random.default_rng(0)
IDENTITIES = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


def test_places_that_some_axes_of_the_terms_do_not_move() -> None:
    places, x = placeholder((9,), "int32", name="places"), placeholder((9, 4), name="x")
    t, k = reduce_axis(9, "t"), reduce_axis(4, "k")
    rows = compute(
        (5,), lambda r: reducers.sum(select(equal(places[t], r), x[t, k], 0.0), [t, k]), name="rows"
    )
    one = compute(
        (5, 4),
        lambda r, d: reducers.sum(select(equal(places[0], r), x[t, d], 0.0), t),
        name="one",
    )
    dag = ComputeDAG([rows, one])
    inputs = {"places": RNG.integers(-1, 6, 9, np.int32), "x": RNG.random((9, 4), np.float32)}
    fast, slow = interpret(dag, inputs), interpret(dag, inputs, fast=False)
    for name in ("rows", "one"):
        np.testing.assert_allclose(fast[name], slow[name], rtol=1e-12)
    assert (
        reference(dag, inputs, RNG).check({n: a.astype("float32") for n, a in slow.items()}) < 1e-6
    )


def bins(values: Tensor, terms: Tensor | None, kind: str) -> Tensor:
    """Terms, or ones, by the bin of their value."""
    found = compute(values.shape, lambda e: cast(values[e] * 10.0 + values[e] * 0.3, "int32"))
    t = reduce_axis(values.shape[0], "t")
    term: Expr = Const(1, "int32") if terms is None else exp(terms[t]) * 0.9
    nothing = Const(IDENTITIES[kind] if terms is not None else 0, term.dtype)

    def element(r: Axis) -> Expr:
        own = select(equal(found[t], cast(r, "int32")), term, nothing)
        reduced: Expr = getattr(reducers, kind)(own, t)
        return reduced

    return compute((50,), element, name="out")


def at_the_edges_of_bins(count: int) -> Mapping[str, np.ndarray]:
    values = RNG.integers(0, 60, count) / np.float32(10.3)
    return {
        "values": values.astype(np.float32),
        "terms": (0.1 * RNG.standard_normal(count)).astype(np.float32),
    }


@pytest.mark.parametrize("kind", IDENTITIES)
def test_bounds_of_terms_are_those_of_pairs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = bins(placeholder((600,), name="values"), placeholder((600,), name="terms"), kind)
    dag, inputs = ComputeDAG([out]), at_the_edges_of_bins(600)
    found = []
    for fast in (True, False):
        if not fast:
            monkeypatch.setattr(stage_errors, "is_sent", lambda op: False)
        values, errors = load_inputs(dag, inputs), KnownErrors()
        compute_regions(dag, values, {id(out.op): full_region(out.op)})
        for op in dag.stages:
            errors.add(op, box_errors(op, loader(values), errors))
        found.append(errors.values[id(out.op)][0])
    assert np.array_equal(np.isinf(found[0]), np.isinf(found[1]))
    inner = slice(1, -1)  # what is beside the ends is counted as if it were at them
    known = np.isfinite(found[1][inner])
    np.testing.assert_array_less(0.9 * found[1][inner][known], found[0][inner][known])
    np.testing.assert_array_less(found[0][inner][known], 1.1 * found[1][inner][known] + 1e-9)


def test_a_term_at_the_edge_of_a_bin_may_be_in_the_next_one() -> None:
    out = bins(placeholder((600,), name="values"), None, "sum")
    dag, inputs = ComputeDAG([out]), {"values": at_the_edges_of_bins(600)["values"]}
    narrow = inputs["values"]
    places = (narrow * np.float32(10) + narrow * np.float32(0.3)).astype(np.int32)
    wanted = np.bincount(places, minlength=60)[:50].astype(np.int32)
    assert not np.array_equal(wanted, interpret(dag, inputs)["out"])
    assert reference(dag, inputs, RNG).check({"out": wanted}) < 1e-6
    assert reference(dag, inputs, RNG).check({"out": wanted + 600}) > 0


def test_products_of_many_terms_are_not_looked_for_in_pairs() -> None:
    """There are 10**10 of them."""
    count = 100_000
    places, updates = placeholder((count,), "int32", name="p"), placeholder((count,), name="u")
    dag = ComputeDAG([received(places, updates, 0, count, "prod", "out")])
    given = RNG.random(count, np.float32) + np.float32(0.5)
    inputs = {"p": RNG.integers(0, count, count, np.int32), "u": given}
    wanted = np.ones(count, np.float32)
    np.multiply.at(wanted, inputs["p"], given)
    assert reference(dag, inputs, RNG).check({"out": wanted}) < 1e-6
