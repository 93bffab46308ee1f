"""Which tasks are the same work: equal but for what follows their last reductions."""

from __future__ import annotations

from dataclasses import replace

from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Compute, tensors_of


def core_key(dag: ComputeDAG) -> str:
    """The key of a program without the stages after its last reductions: without its epilogue.

    What learned a convolution with a bias knows most of the same convolution with another
    activation, so a test of what a model has not seen must leave out both.  A program without
    reductions has its own key.
    """
    last = _last_reductions(dag)
    if not last:
        return dag.key
    # Where its results go in a buffer that stages share is no part of the work, either.
    return ComputeDAG([t for op in last for t in tensors_of(replace(op, store=None))]).key


def _last_reductions(dag: ComputeDAG) -> list[Compute]:
    """Reductions that no other reduction depends on, in the order of execution."""
    reduced: set[int] = set()  # stages that a reduction depends on
    found: list[Compute] = []
    for op in reversed(dag.stages):
        below = id(op) in reduced
        if op.reduce is not None and not below:
            found.append(op)
        if op.reduce is not None or below:
            reduced.update(id(producer) for producer in dag.producers(op))
    return found[::-1]
