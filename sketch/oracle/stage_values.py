"""Values of one stage, on a box of points or at single points, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from sketch.lang.affine import Interval
from sketch.lang.expr import Axis
from sketch.lang.scalar_functions import Array, oracle_dtype
from sketch.lang.tensor import Compute
from sketch.oracle.boxes import GENERAL_ELEMENTS, Box, box_size, grid, split_box
from sketch.oracle.contraction import (
    Term,
    all_finite,
    contract,
    contraction_cost,
    sum_of_products,
)
from sketch.oracle.evaluate import Evaluator, Loader, combine, constant, reduce_values
from sketch.oracle.scattered import evaluate_sent, is_sent

# Elements of 8 bytes: a contraction keeps its two operands and a copy of each alive (128 MB).
CONTRACTION_ELEMENTS: Final = 1 << 23


def evaluate_box(op: Compute, region: Sequence[Interval], load: Loader, out: Sequence[Array],
                 fast: bool = True) -> None:  # fmt: skip
    """Write the values of ``op`` on a region into arrays.

    Args:
        op: the stage.
        region: inclusive bounds, one pair a dimension.
        load: elements of a tensor at given indices.
        out: arrays of full shape, one for each output.
        fast: sums of products go through NumPy's matrix product, and what scatters through its
            terms; False: the general path.
    """
    box: Box = dict(zip(op.axes, region, strict=True))
    box.update({axis: (0, axis.extent - 1) for axis in op.reduce_axes})
    terms = sum_of_products(op, tf32=True) if fast else None
    with np.errstate(all="ignore"):
        if fast and is_sent(op):
            evaluate_sent(op, region, load, out[0])
        elif terms is not None and all_finite(terms, load):
            _contract_box(op, terms, box, load, out[0])
        else:
            _evaluate_box(op, box, load, out)


def target_of(op: Compute, box: Mapping[Axis, Interval]) -> tuple[slice, ...]:
    """The part of a stage's outputs that a box of its points is."""
    return tuple(slice(box[axis][0], box[axis][1] + 1) for axis in op.axes)


def _contract_box(op: Compute, terms: Sequence[Term], box: Box, load: Loader, out: Array) -> None:
    out[target_of(op, box)] = 0

    def cost(part: Box) -> int:
        return contraction_cost(terms, part)

    for part in split_box(box, cost, CONTRACTION_ELEMENTS):
        for term in terms:
            out[target_of(op, part)] += contract(term, op.axes, op.reduce_axes, part, load)


def _evaluate_box(op: Compute, box: Box, load: Loader, out: Sequence[Array]) -> None:
    reduce = op.reduce
    if reduce is not None:
        for array, identity in zip(out, reduce.reducer.identity, strict=True):
            array[target_of(op, box)] = constant(identity)
    for part in split_box(box, box_size, GENERAL_ELEMENTS):
        target = target_of(op, part)
        sizes = [high - low + 1 for low, high in part.values()]
        evaluate = Evaluator(grid(part), load)
        if reduce is None:
            for array, body in zip(out, op.bodies, strict=True):
                array[target] = evaluate(body)
            continue
        values = tuple(np.broadcast_to(evaluate(source), sizes) for source in reduce.sources)
        parts = reduce_values(reduce.reducer, values, len(op.reduce_axes))
        before = tuple(array[target] for array in out)
        for array, value in zip(out, combine(reduce.reducer, before, parts), strict=True):
            array[target] = value


def point_grid(op: Compute, points: Array) -> dict[Axis, Array]:
    """Open mesh: each reduce axis along a dimension of its own, spatial axes along the last one,
    [..., 1, P].  Elements of one row, such as weights of several channels, are loaded one after
    another then.
    """
    box = {axis: (0, axis.extent - 1) for axis in op.reduce_axes}
    mesh = {axis: values[..., None] for axis, values in grid(box).items()}
    row = (*(1 for _ in box), -1)
    mesh.update({axis: points[:, d].reshape(row) for d, axis in enumerate(op.axes)})
    return mesh


def empty_outputs(op: Compute) -> tuple[Array, ...]:
    """Zeros for all outputs; pages that are never touched cost nothing."""
    return tuple(np.zeros(op.shape, dtype=oracle_dtype(d)) for d in op.output_dtypes)
