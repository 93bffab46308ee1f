"""Programs whose rows see a part of their columns: softmax of masked products, and its use."""

from __future__ import annotations

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Expr, select
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators.matmul import matmul
from sketch.operators.softmax import softmax


def seen_before(row: Expr, column: Expr, steps: tuple[int, int] = (1, 1), offset: int = 0) -> Expr:
    """Whether ``steps[1] * column <= steps[0] * row + offset``."""
    return steps[1] * column <= steps[0] * row + offset


def masked_attention(
    rows: int,
    columns: int,
    steps: tuple[int, int] = (1, 1),
    offset: int = 0,
    depth: int = 3,
    width: int = 16,
    hidden_first: bool = False,
    outside: float = float("-inf"),
) -> ComputeDAG:
    """``softmax(q @ k.T where seen) @ v``.

    Args:
        rows: of q.
        columns: rows of k and v.
        steps: with ``offset``: which of them a row sees, see ``seen_before``.
        offset: of these.
        depth: columns of q and k.
        width: columns of v.
        hidden_first: the condition is written the other way round.
        outside: the score of what is not seen.
    """
    q, k = placeholder((rows, depth), name="q"), placeholder((columns, depth), name="k")
    v, d = placeholder((columns, width), name="v"), reduce_axis(depth, "d")
    products = compute(
        (rows, columns), lambda i, j: reducers.sum(q[i, d] * k[j, d], axis=d), name="products"
    )

    def score(i: Expr, j: Expr) -> Expr:
        if hidden_first:
            return select(steps[1] * j > steps[0] * i + offset, outside, products[i, j] * 0.5)
        return select(seen_before(i, j, steps, offset), products[i, j] * 0.5, outside)

    weights = softmax(compute((rows, columns), score, name="scores"))
    return ComputeDAG([matmul(weights, v, "result")])
