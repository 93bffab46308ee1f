"""The oracle's error bounds: float32 stays within them, wrong elements do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.measure.inputs import random_inputs
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Expr, binary, cast, select, unary
from sketch.lang.functions import all_of, exp, maximum
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators import normalization, softmax
from sketch.oracle.expected import Reference, Samples
from sketch.oracle.reference import reference
from sketch.oracle.sampled import sample_reference
from tests.support.compiled import random_run
from tests.support.cpu_targets import runnable
from tests.support.examples import examples

A, B = placeholder((64, 200), name="A"), placeholder((64, 200), name="B")
TARGETS = [target.with_threads(n) for target in runnable() for n in (1, 2)]


def elementwise(body: Callable[[Expr, Expr], Expr]) -> ComputeDAG:
    return ComputeDAG([compute((64, 200), lambda i, j: body(A[i, j], B[i, j]), name="C")])


def product() -> ComputeDAG:
    k = reduce_axis(300, "k")
    x, y = placeholder((40, 300), name="X"), placeholder((300, 50), name="Y")
    return ComputeDAG(
        [compute((40, 50), lambda i, j: reducers.sum(x[i, k] * y[k, j], k), name="C")]
    )


def padded() -> ComputeDAG:
    k = reduce_axis(9, "k")
    x, w = placeholder((500,), name="X"), placeholder((9,), name="W")

    def body(i: Expr) -> Expr:
        at = i + k - 4
        inside = all_of(at >= 0, at < 500)
        return reducers.sum(select(inside, x[at] * w[k], 0.0), k)

    return ComputeDAG([compute((500,), body, name="C")])


PROGRAMS: dict[str, Callable[[], ComputeDAG]] = {
    "powers": lambda: elementwise(lambda a, b: a * a * a * a * a),
    "exponentials": lambda: elementwise(lambda a, b: exp(a * 30.0)),
    "quotients": lambda: elementwise(lambda a, b: a / (exp(b * 10.0) + 0.5)),
    "products": lambda: elementwise(lambda a, b: a * b * 1e-3),
    "matrix product": product,
    "padded": padded,
    "softmax": lambda: ComputeDAG([softmax.softmax(placeholder((30, 90), name="X"), name="C")]),
    "normalised": lambda: ComputeDAG(
        [normalization.normalize(placeholder((30, 90), name="X"), (1,), 1e-5, name="C")]
    ),
}


def expected(dag: ComputeDAG, seed: int = 0) -> tuple[Reference, Samples]:
    found = reference(dag, random_inputs(dag, seed), np.random.default_rng(seed))
    return found, found.outputs["C"]


@pytest.mark.parametrize("fraction", [0.01, 0.001])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_zeroed_elements_are_found(name: str, fraction: float) -> None:
    """Those next above the least ones: the max-norm alone does not see them."""
    found, samples = expected(PROGRAMS[name]())
    flat = samples.values.reshape(-1)
    order = np.argsort(np.abs(flat))
    assert samples.bounds is not None
    seen = order[np.abs(flat[order]) > 2 * samples.bounds.reshape(-1)[order]]
    assert len(seen) > 0.9 * flat.size
    wrong = flat.copy()
    wrong[seen[: max(1, int(fraction * flat.size))]] = 0.0
    assert found.check({"C": wrong.reshape(samples.shape)}) == pytest.approx(1.0)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_kernels_stay_within_the_bounds(name: str) -> None:
    dag = PROGRAMS[name]()
    for seed, target in enumerate(TARGETS[:4]):
        inputs = random_inputs(dag, seed)
        found = reference(dag, inputs, np.random.default_rng(seed))
        assert found.check(random_run(dag, inputs, target, seed, seed)) < 1e-5


def test_samples_have_the_bounds_of_the_whole() -> None:
    for name, make in PROGRAMS.items():
        dag = make()
        inputs = random_inputs(dag, 1)
        whole = reference(dag, inputs, np.random.default_rng(1)).outputs["C"]
        part = sample_reference(dag, inputs, np.random.default_rng(1)).outputs["C"]
        assert whole.bounds is not None and part.bounds is not None, name
        np.testing.assert_allclose(part.bounds, whole.bounds.reshape(-1)[part.positions], 0.1)


def test_exact_results_have_no_bounds() -> None:
    x = placeholder((9,), "int32", name="X")
    dag = ComputeDAG([compute((9,), lambda i: x[i] * 3, name="C")])
    found, samples = expected(dag)
    assert samples.bounds is not None and not samples.bounds.any()
    assert found.check({"C": samples.values}) == 0.0
    assert found.check({"C": samples.values + 1}) == np.inf


def quantised(scale: float, zero: float, dtype: str) -> ComputeDAG:
    def body(a: Expr, _: Expr) -> Expr:
        return cast(unary("round", a * scale) + zero, dtype)

    return ComputeDAG([compute((64, 200), lambda i, j: body(A[i, j], A[i, j]), name="C")])


def test_a_number_in_the_middle_of_two_integers_may_become_either() -> None:
    """0.1 is a little more in float32, so 5 x 0.1 is rounded up; in float32 the product is 0.5,
    which is rounded down.
    """
    dag = quantised(0.1, 3.0, "uint8")
    inputs = {"A": np.arange(64 * 200, dtype="f4").reshape(64, 200) % 50}
    found = reference(dag, inputs, np.random.default_rng(0))
    samples = found.outputs["C"]
    got = random_run(dag, inputs, TARGETS[0], 0, 0)["C"]
    assert samples.bounds is not None
    doubtful = samples.bounds > 0
    assert (inputs["A"][doubtful] % 10 == 5).all() and doubtful.any()
    assert not np.array_equal(got, samples.values) and found.check({"C": got}) == 0.0
    for place, move in ((np.argwhere(doubtful)[0], 2), (np.argwhere(~doubtful)[0], 1)):
        wrong = samples.values.copy()
        wrong[tuple(place)] += move
        assert found.check({"C": wrong}) == np.inf


def test_integers_stay_exact_in_floats() -> None:
    """A zero point is added without rounding, and what is beyond a limit is at the limit."""
    inputs = {"A": np.arange(64 * 200, dtype="f4").reshape(64, 200) - 6000}
    for scale, dtype in ((1.0, "int32"), (1.37, "uint8")):
        samples = reference(quantised(scale, 128.0, dtype), inputs, np.random.default_rng(0))
        bounds = samples.outputs["C"].bounds
        assert bounds is not None
        beyond = np.abs(inputs["A"] * scale) > 200
        assert not bounds[beyond | (dtype == "int32")].any()


def test_an_integer_in_doubt_at_the_limit_of_its_type_may_wrap() -> None:
    def body(a: Expr) -> Expr:
        return cast(cast(unary("round", a * 0.1), "int32"), "int8")

    dag = ComputeDAG([compute((64, 200), lambda i, j: body(A[i, j]), name="C")])
    inputs = {"A": np.full((64, 200), 1275.0, "f4")}  # 127.5, so 127 or -128
    samples = reference(dag, inputs, np.random.default_rng(0)).outputs["C"]
    assert samples.bounds is not None and np.isinf(samples.bounds).all()


UNARIES = ("exp", "log1p", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "sin", "atan", "floor")
BINARIES = ("add", "sub", "mul", "div", "min", "max")


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> Callable[[Expr, Expr], Expr]:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        which = draw(st.booleans())
        return lambda a, b: a if which else b
    left = draw(expressions(depth - 1))
    kind = draw(st.sampled_from(["unary", "binary", "select", "cast"]))
    if kind == "unary":
        name = draw(st.sampled_from(UNARIES))
        domain = name in ("log1p", "sqrt", "rsqrt")
        return lambda a, b: unary(name, unary("abs", left(a, b)) + 0.25 if domain else left(a, b))
    if kind == "cast":
        dtype = draw(st.sampled_from(["float16", "int32", "float64"]))
        return lambda a, b: cast(cast(left(a, b), dtype), "float32")
    right = draw(expressions(depth - 1))
    if kind == "select":
        return lambda a, b: select(left(a, b) < right(a, b), left(a, b), right(a, b) + 1.0)
    op = draw(st.sampled_from(BINARIES))
    return lambda a, b: binary(op, left(a, b), right(a, b))


@examples(40)
@given(
    body=expressions(),
    form=st.sampled_from(["elements", "sums", "bytes"]),
    target=st.integers(0, 99),
    seed=st.integers(0, 9999),
)
def test_any_expression_stays_within_its_bounds(
    body: Callable[[Expr, Expr], Expr], form: str, target: int, seed: int
) -> None:
    """Where the bounds say nothing (a quotient by what may be 0), nothing is said."""
    if form == "sums":
        k = reduce_axis(200, "k")
        dag = ComputeDAG(
            [compute((64,), lambda i: reducers.sum(body(A[i, k], B[i, k]), k), name="C")]
        )
    elif form == "bytes":
        dag = elementwise(lambda a, b: cast(unary("round", body(a, b) * 9.1) + 100.0, "uint8"))
    else:
        dag = elementwise(body)
    inputs = random_inputs(dag, seed)
    samples = reference(dag, inputs, np.random.default_rng(0)).outputs["C"]
    got = random_run(dag, inputs, TARGETS[target % len(TARGETS)], seed, seed)["C"]
    assert samples.bounds is not None
    finite = np.isfinite(samples.values) & np.isfinite(got)
    off = np.abs(got.astype("f8") - samples.values.astype("f8"))[finite]
    assert (off <= samples.bounds[finite]).all(), float(np.max(off - samples.bounds[finite]))


def test_a_choice_that_rounding_may_change_is_free() -> None:
    """``sqrt(a) * sqrt(a) >= a`` may be true or false."""

    def body(a: Expr, b: Expr) -> Expr:
        root = unary("sqrt", unary("abs", a))
        return select(root * root >= unary("abs", a), 1.0, 2.0)

    _, samples = expected(elementwise(body))
    assert samples.bounds is not None
    assert (samples.bounds >= 1.0).all()


def test_a_reduction_to_a_pair_has_bounds() -> None:
    k = reduce_axis(200, "k")
    index, value = compute(
        (64,), lambda i: reducers.argmax(k, maximum(A[i, k], 0.0) * B[i, k], k), name="C"
    )
    dag = ComputeDAG([index, value])
    inputs = random_inputs(dag, 0)
    for samples in reference(dag, inputs, np.random.default_rng(0)).outputs.values():
        if samples.values.dtype.kind == "f":
            assert samples.bounds is not None
            assert (samples.bounds < 1e-4).all()


def test_inputs_do_not_all_cancel() -> None:
    for make in PROGRAMS.values():
        dag = make()
        signs = [np.sign(a).reshape(-1) for a in random_inputs(dag, 0).values()]
        assert all((s < 0).any() or (s >= 0).all() for s in signs)
        assert any((s >= 0).mean() > 0.6 for s in signs)


@pytest.mark.parametrize("operator", ["mod", "trunc_mod"])
def test_a_remainder_beside_a_jump_may_be_any(operator: str) -> None:
    """The quotient is off by its own rounding, which decides whether the remainder is 0."""
    x = placeholder((4,), name="x")
    dag = ComputeDAG(
        [compute((4,), lambda i: binary(operator, x[i] / np.float32(3.0), 0.25), name="y")]
    )
    inputs = {"x": np.array([0.1, 0.75, 2.25e8, 0.3], np.float32)}
    found = reference(dag, inputs, np.random.default_rng(0)).outputs["y"]
    assert found.bounds is not None
    assert np.isinf(found.bounds).tolist() == [False, True, True, False]
    right = found.values.astype(np.float32)
    jumped = Reference({"y": found}).check({"y": right + np.array([0, 0.25, 0.1, 0], np.float32)})
    assert jumped < 1e-6
    wrong = right + np.array([0, 0, 0, 0.01], np.float32)
    assert Reference({"y": found}).check({"y": wrong}) > 0.01


def test_a_hue_is_no_wrong_result() -> None:
    """Quotients by a difference next to 0, and their remainders: as colours are converted."""
    shape = (64, 64)
    r, g, b = (placeholder(shape, name=name) for name in "rgb")
    sixth, one = (placeholder((), name=name, constant=True) for name in ("sixth", "one"))

    def hue(i: Expr, j: Expr) -> Expr:
        most = maximum(maximum(r[i, j], g[i, j]), b[i, j])
        return binary("mod", (most - b[i, j]) / (most - g[i, j] + 1e-4) / sixth[()], one[()])

    dag = ComputeDAG([compute(shape, hue, name="h")])
    inputs = random_inputs(dag, 0)
    outputs = random_run(dag, inputs, TARGETS[0], 0, 3)
    assert reference(dag, inputs, np.random.default_rng(0)).check(outputs) < 1e-4
