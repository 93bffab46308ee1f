"""Gathers at constant indices that are regular read where they are told to, without any indices.

    gather(x [n], [0, 0, 1, 1, 2, 2, ...])         ->  element i is x[i // 2]
    gather(x [n], [2, 1, 0, 1, 2, ..., n - 2])     ->  x[2 - i] for i < 3, and x[i - 2] further on

Resampling by whole factors, borders that mirror or wrap around, and rolled or reversed dimensions
are exported as gathers.  A processor that knows the indices reads whole vectors.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.movement import Pick
from sketch.lang.dtypes import INDEX_DTYPES
from sketch.operators.layout import Run

_MOST_RUNS: Final = 4  # each one is read for every element


def pick_regular(graph: Graph) -> Graph:
    """``graph`` with the rewrite above."""
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        op = _regular(graph, node)
        if op is None:
            builder.copy(node, node.inputs)
        else:
            builder.add(op, node.inputs[:1], node.output, node.name, node.origins)
    return builder.finish(graph.results)


def _regular(graph: Graph, node: Node) -> Pick | None:
    """What a gather is in place of; None: its indices are no constant, or not regular."""
    if not isinstance(node.op, Gather):
        return None
    given = graph.constants.get(node.inputs[1])
    if given is None or given.ndim != 1 or str(given.dtype) not in INDEX_DTYPES or not given.size:
        return None
    extent = graph.types[node.inputs[0]].shape[node.op.axis]
    wide = given.astype(np.int64)
    runs = regular_runs(np.clip(np.where(wide < 0, wide + extent, wide), 0, extent - 1))
    return None if runs is None else Pick(node.op.axis, runs)


def regular_runs(indices: NDArray[np.int64]) -> tuple[Run, ...] | None:
    """Indices as one run, or as a few in which none is repeated; None: there are too many.

    Several runs are read side by side, within their bounds: places that count repeated indices
    are not affine, and a vector of them may reach beyond.

    Args:
        indices: one dimension, not negative, not empty.
    """
    whole = _longest(indices, 0, _repeats(indices))
    if whole.stop == indices.size:
        return (whole,)
    runs: list[Run] = []
    start = 0
    while start < indices.size:
        if len(runs) == _MOST_RUNS:
            return None
        runs.append(_longest(indices, start, 1))
        start = runs[-1].stop
    return tuple(runs)


def _repeats(indices: NDArray[np.int64]) -> int:
    """How often the first index comes before another one."""
    changes = np.flatnonzero(indices != indices[0])
    return int(changes[0]) if changes.size else indices.size


def _longest(indices: NDArray[np.int64], start: int, repeat: int) -> Run:
    """The longest run from ``start`` on."""
    rest = indices[start:]
    step = int(rest[repeat] - rest[0]) if repeat < rest.size else 0
    wrong = np.flatnonzero(rest != rest[0] + np.arange(rest.size) // repeat * step)
    length = int(wrong[0]) if wrong.size else rest.size
    return Run(start + length, int(rest[0]), step, repeat)
