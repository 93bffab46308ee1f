"""Operators of random graphs that reduce, normalise or look for the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from campaign.graphs.graph import Graph, Tensor

_REDUCE: Final = (
    "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip


def _reduce(operator: str, graph: Graph) -> Tensor:
    integers = ("int32", "int64") if operator in ("ReduceMax", "ReduceMin", "ReduceSum") else ()
    data = graph.pick(("float32", "float32", "float64", *integers), some=True)
    rng, rank = graph.rng, len(data.shape)
    axes: list[Tensor] = []
    if rank and rng.random() < 0.85:
        chosen = rng.sample(range(rank), rng.randrange(1, rank + 1))
        chosen = [axis - rank if rng.random() < 0.3 else axis for axis in chosen]
        axes = [graph.constant("int64", np.array(chosen))]
    exact = operator in ("ReduceMax", "ReduceMin")
    return graph.add(operator, [data, *axes], exact=exact, keepdims=rng.randrange(2))


def _log_sum(graph: Graph) -> Tensor:
    data = graph.add("Abs", [graph.pick(("float32",), (1, 2, 3), some=True)], exact=True)
    shifted = graph.add("Add", [data, graph.constant("float32", 1.0)])
    return graph.add("ReduceLogSum", [shifted], keepdims=graph.rng.randrange(2))


def _position(operator: str, graph: Graph) -> Tensor:
    data = graph.pick(("float32", "int32"), (1, 2, 3, 4), exact=True, some=True)
    attributes: dict[str, Any] = {
        "keepdims": graph.rng.randrange(2),
        "select_last_index": graph.rng.randrange(2),
    }
    axis = graph.rng.randrange(-len(data.shape), len(data.shape))
    return graph.add(operator, [data], axis=axis, **attributes)


def _cumulative(graph: Graph) -> Tensor:
    data = graph.pick(("float32", "float64", "int32"), (1, 2, 3), some=True)
    axis = graph.constant("int32", graph.rng.randrange(-len(data.shape), len(data.shape)))
    flags: dict[str, Any] = {"exclusive": graph.rng.randrange(2), "reverse": graph.rng.randrange(2)}
    return graph.add("CumSum", [data, axis], **flags)


def _normalise(operator: str, graph: Graph) -> Tensor:
    data = graph.pick(("float32", "float32", "float64"), (1, 2, 3, 4), operator == "Hardmax", True)
    return graph.add(operator, [data], axis=graph.rng.randrange(-len(data.shape), len(data.shape)))


def _lp(graph: Graph) -> Tensor:
    data = graph.pick(("float32",), (1, 2, 3, 4), some=True)
    axis = graph.rng.randrange(-len(data.shape), len(data.shape))
    return graph.add("LpNormalization", [data], axis=axis, p=graph.rng.choice((1, 2)))


def _mean_variance(graph: Graph) -> Tensor:
    data = graph.new_input("float32", [graph.rng.choice((1, 2, 3, 5, 7)) for _ in range(4)])
    return graph.add(
        "MeanVarianceNormalization", [data], axes=graph.rng.choice(([0, 2, 3], [1, 2]))
    )


_Adder = Callable[[Graph], Any]
REDUCTIONS: Final[Mapping[str, _Adder]] = {
    **{name: partial(_reduce, name) for name in _REDUCE},
    "ReduceLogSum": _log_sum,
    "ArgMax": partial(_position, "ArgMax"),
    "ArgMin": partial(_position, "ArgMin"),
    "CumSum": _cumulative,
    **{name: partial(_normalise, name) for name in ("Softmax", "LogSoftmax", "Hardmax")},
    "LpNormalization": _lp,
    "MeanVarianceNormalization": _mean_variance,
}
