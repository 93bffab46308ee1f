"""Convolutions of narrow numbers as tensor units with several rows read them best.

A register is filled from rows of memory, all of them: where a window leaves the image, what is left
is copied between zeros first, for each tap again.  An image with its zeros around it is stored once
instead.  Of lines much shorter than a register has rows, pixels of several lines are its rows.

Both store a copy of the image.  Products of wider numbers have no such units, and gain nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from sketch.analysis.access import stage_loads
from sketch.analysis.contraction import contraction_of
from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Binary
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute
from sketch.variants.implicit_gemm import SHORT_LINE, implicit_gemm
from sketch.variants.zero_padded import zero_padded


def narrow_zero_padded(dag: ComputeDAG) -> ComputeDAG | None:
    """``zero_padded`` for products of narrow numbers; None where it does not apply."""
    return _of_narrow(zero_padded, dag)


def narrow_implicit_gemm(dag: ComputeDAG) -> ComputeDAG | None:
    """``implicit_gemm`` for products of narrow numbers of short lines; None for others, and where
    the results are added to a map, which lines are parts of.
    """
    reduced = [op for op in dag.stages if op.reduce is not None]
    if any(axis.extent > SHORT_LINE for op in reduced for axis in op.axes[:-1]):
        return None
    found = _of_narrow(implicit_gemm, dag)
    if found is None:
        return None
    product = next(n for n, op in enumerate(found.stages) if op.reduce is not None)
    return None if any(map(_divides, found.stages[product:])) else found


def _divides(op: Compute) -> bool:
    """Whether a stage reads by parts of an axis."""
    nodes = (node for load in stage_loads(op) for index in load.indices for node in walk(index))
    return any(isinstance(node, Binary) and node.op in ("floordiv", "mod") for node in nodes)


def _of_narrow(
    derive: Callable[[ComputeDAG], ComputeDAG | None], dag: ComputeDAG
) -> ComputeDAG | None:
    if not any(size_of(tensor.dtype) < size_of("int32") for tensor in dag.inputs):
        return None
    found = derive(dag)
    if found is None:
        return None
    products = (contraction_of(op) for op in found.stages)
    narrow = any(p is not None and size_of(p.lhs.load.dtype) < size_of(p.dtype) for p in products)
    return found if narrow else None
