"""Which stages a mask makes superfluous, and where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sketch.analysis.masks import known_stages, masked_needs
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Expr, cast, select, unary
from sketch.lang.functions import all_of
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.matmul import matmul
from tests.support.masked_rows import masked_attention


def needs(dag: ComputeDAG) -> dict[str, str]:
    """By stage: the condition under which it is needed, ``!`` where it is one of its own terms."""
    known = dict(zip(dag.stages, known_stages(dag.stages), strict=True))
    outputs = {tensor.op for tensor in dag.outputs}
    found = masked_needs(dag.stages, outputs, known.get)  # type: ignore[arg-type]
    texts = {}
    for stage, (need,) in found.items():
        axes = {axis: f"x{n}" for n, axis in enumerate(stage.all_axes)}
        terms, const = need.masked.condition
        text = " ".join(sorted(f"{c:+d}{axes[axis]}" for axis, c in terms.items()))
        texts[stage.name] = f"{text} {const:+d}" + "!" * need.own
    return texts


@pytest.mark.parametrize("hidden_first", [False, True])
def test_rows_that_see_a_part_of_their_columns(hidden_first: bool) -> None:
    dag = masked_attention(8, 9, (2, 3), 4, hidden_first=hidden_first)
    terms, elements = "+3x2 -2x0 -5!", "+3x1 -2x0 -5"
    assert needs(dag) == {
        "products": elements,
        "scores": elements,
        "softmax.max": terms,
        "softmax.exp": elements,
        "softmax.sum": terms,
        "softmax": elements,
        "result": terms,
    }


def test_where_a_row_sees_nothing_only_its_maximum_is_known() -> None:
    """Its powers are NaN, which the result has to show."""
    assert set(needs(masked_attention(8, 9, offset=-1))) == {"softmax.max"}
    assert len(needs(masked_attention(8, 9, offset=0))) == 7


@pytest.mark.parametrize("outside", [0.0, -1e30, -100.0])
def test_numbers_are_no_masks(outside: float) -> None:
    """A product with a zero is NaN for an infinity, and -1e30 may be the largest score."""
    assert needs(masked_attention(8, 9, outside=outside)) == {}


def test_what_is_a_result_is_needed_everywhere() -> None:
    dag = masked_attention(8, 9)
    weights = Tensor(dag.stages[-2])
    found = needs(ComputeDAG([weights, *dag.outputs]))
    assert set(found) == {"softmax.max", "softmax.sum", "result"}


def _scores(rows: int, columns: int) -> Tensor:
    x = placeholder((rows, columns), name="x")
    made = compute((rows, columns), lambda i, j: x[i, j] * 2.0, name="made")
    body = lambda i, j: select(j <= i, made[i, j], float("-inf"))  # noqa: E731
    return compute((rows, columns), body, name="scores")


def test_readers_of_other_columns() -> None:
    """What one of them reads of a neighbour is needed, too."""
    scores, v = _scores(8, 8), placeholder((8, 4), name="v")
    powers = compute((8, 8), lambda i, j: unary("exp", scores[i, j]), name="powers")
    found = needs(ComputeDAG([matmul(powers, v, "result")]))
    assert set(found) == {"made", "scores", "powers", "result"}
    j = reduce_axis(7, "j")
    shifted = compute(8, lambda i: reducers.sum(powers[i, j + 1], axis=j), name="shifted")
    found = needs(ComputeDAG([shifted, matmul(powers, v, "result")]))
    assert found["shifted"] == "+1x1 -1x0 +0!"
    assert found["powers"] == "+1x1 -1x0 -1"
    around = compute((8, 7), lambda i, j: powers[i, j] + powers[i, j + 1], name="around")
    assert needs(ComputeDAG([matmul(around, placeholder((7, 4), name="w"), "result")])) == {}


def test_conditions_on_one_axis_are_no_masks() -> None:
    x = placeholder((8, 9), name="x")
    inside = lambda i, j: select(all_of(j >= 1, j < 8), x[i, j], float("-inf"))  # noqa: E731
    padded, j = compute((8, 9), inside, name="padded"), reduce_axis(9, "j")
    top = compute(8, lambda i: reducers.max(padded[i, j], axis=j), name="top")
    assert needs(ComputeDAG([top])) == {}


def test_a_mask_at_two_places_of_a_stage() -> None:
    """Where one of the factors is zero the other may be read, so it is computed there, too."""
    powers, j = _powers(), reduce_axis(8, "j")
    pairs = compute(
        8, lambda i: reducers.sum(powers[i, j] * powers[i, j + 1], axis=j), name="pairs"
    )
    assert needs(ComputeDAG([pairs])) == {"pairs": "+1x1 -1x0 -1!"}


@pytest.mark.parametrize(
    "divisor",
    [
        lambda p, x, i, j: p[i, 8 - j],  # zero where the mask of another place hides it
        lambda p, x, i, j: select(j + i < 9, x[i, j], 0.0),
        lambda p, x, i, j: cast(j - i, "float32"),
        lambda p, x, i, j: x[i, j] - x[i, j],
        lambda p, x, i, j: unary("floor", unary("sigmoid", x[i, j])),
    ],
)
def test_quotients_by_what_is_zero_for_all_data(divisor: Callable[..., Expr]) -> None:
    """A zero by a zero is NaN, which the result has to show."""
    powers, x = _powers(), placeholder((9, 9), name="y")
    body = lambda i, j: powers[i, j] / divisor(powers, x, i, j)  # noqa: E731
    quotients = compute((9, 9), body, name="quotients")
    assert needs(ComputeDAG([matmul(quotients, placeholder((9, 4), name="v"), "result")])) == {}


@pytest.mark.parametrize("offset", [0, -1])
def test_quotients_by_sums_of_what_rows_see(offset: int) -> None:
    """Without a maximum: the sum of a row that sees nothing is zero."""
    powers, j = _powers(offset), reduce_axis(9, "j")
    total = compute(9, lambda i: reducers.sum(powers[i, j], axis=j), name="total")
    shares = compute((9, 9), lambda i, j: powers[i, j] / total[i], name="shares")
    found = needs(ComputeDAG([matmul(shares, placeholder((9, 4), name="v"), "result")]))
    assert set(found) == (
        {"total"} if offset else {"scores", "powers", "total", "shares", "result"}
    )


def _powers(offset: int = 0) -> Tensor:
    x = placeholder((9, 9), name="x")
    body = lambda i, j: select(j <= i + offset, x[i, j], float("-inf"))  # noqa: E731
    scores = compute((9, 9), body, name="scores")
    powers: Tensor = compute((9, 9), lambda i, j: unary("exp", scores[i, j]), name="powers")
    return powers
