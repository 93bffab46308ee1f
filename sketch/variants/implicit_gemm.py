"""Convolutions as one matrix product, whose rows are the pixels of all images.

Tiles of a product walk one axis of pixels, where those of an image of 7 x 7 or 14 x 14 are small or
leave points unused.  The matrix of pixels and taps is never stored: a schedule computes it where it
reads a tile of it.

    y[n, h, w, o] = sum over p, q, c of x[n, h + p, w + q, c] * f[p, q, c, o]

    rows[m, p, q, c] = x[m // (H * W), m // W % H + p, m % W + q, c]
    y[m, o] = sum over p, q, c of rows[m, p, q, c] * f[p, q, c, o]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final, TypeGuard

from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import size_of
from sketch.lang.expr import (
    Axis,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    cast,
    select,
)
from sketch.lang.functions import round_tf32
from sketch.lang.operator_names import ROUND_TF32
from sketch.lang.rewrite import rewrite, walk
from sketch.lang.tensor import Compute, SharedBuffer, StoreMap, Tensor, compute
from sketch.variants.element_wise import is_element_wise, readers
from sketch.variants.inner_factors import with_inner_factors
from sketch.variants.rebuild import rebuild

# Dimensions of pixels from which on there is something to join.
_LEAST_DIMENSIONS: Final = 2
# Pixels of a tile without unused points, a power of two along each axis, that are enough.
_TILE: Final = 16
# Lines of more pixels fill three quarters of such a tile, or more, by themselves.
SHORT_LINE: Final = 12
_PIXELS: Final = "m"


def implicit_gemm(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program over the pixels of all images; None where it is no single convolution with
    element-wise stages after it.
    """
    dag = with_inner_factors(dag)
    found = [match for op in dag.stages if (match := _matched(op)) is not None]
    if len(found) != 1 or any(op.store is not None for op in dag.stages):
        return None
    (match,) = found
    joined = {id(match.op)} | {id(op) for op in readers(dag, match.op)}
    if not all(is_element_wise(op, match.op, joined) for op in dag.stages if id(op) in joined):
        return None
    outputs = {id(tensor.op) for tensor in dag.outputs}

    def replacement(op: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        if id(op) not in joined:
            return None
        pixels = Axis(_PIXELS, prod(op.shape[:-1]), "spatial")
        made = _product(match, pixels, current) if op is match.op else _flat(op, pixels, current)
        store = StoreMap(SharedBuffer(op.name, op.shape), 0, (op.shape[-1], 1))
        return Tensor(replace(made, store=store if id(op) in outputs else None))

    return rebuild(dag, replacement)


@dataclass(frozen=True, slots=True, eq=False)
class _Match:
    """A sum of products of what depends on pixels and of what depends on the last axis.

    ``pixels`` are widened to ``dtype``, or rounded, where they are multiplied: so they stay as
    they are in tiles.
    """

    op: Compute
    pixels: Expr
    filters: Expr
    dtype: str
    rounded: bool


def _matched(op: Compute) -> _Match | None:
    reduce = op.reduce
    wide = [axis for axis in op.axes[:-1] if axis.extent > 1]
    if reduce is None or len(reduce.sources) != 1 or len(wide) < _LEAST_DIMENSIONS:
        return None
    if reduce.reducer.name != "sum" or _even_tile(wide) >= _TILE or op.axes[-1].extent == 1:
        return None
    source = reduce.sources[0]
    known: Expr | None = None
    if isinstance(source, Select) and _is_zero(source.otherwise):
        known, source = source.condition, source.then
    if not isinstance(source, Binary) or source.op != "mul":
        return None
    for first, second in ((source.lhs, source.rhs), (source.rhs, source.lhs)):
        narrow = first.operand if _is_widened(first) or _is_rounded(first) else first
        pixels = narrow if known is None else select(known, narrow, 0)
        uses = _axes_of(pixels)
        if op.axes[-1] in uses or not set(reduce.axes) <= uses:
            continue
        if not _axes_of(second) & set(op.axes[:-1]):
            return _Match(op, pixels, second, first.dtype, _is_rounded(first))
    return None


def _is_widened(node: Expr) -> TypeGuard[Cast]:
    return isinstance(node, Cast) and size_of(node.operand.dtype) < size_of(node.dtype)


def _is_rounded(node: Expr) -> TypeGuard[Unary]:
    return isinstance(node, Unary) and node.op == ROUND_TF32


def _even_tile(axes: list[Axis]) -> int:
    """Product of the largest powers of two that divide the extents."""
    return prod(axis.extent & -axis.extent for axis in axes)


def _is_zero(node: Expr) -> bool:
    return isinstance(node, Const) and node.value == 0


def _axes_of(node: Expr) -> set[Axis]:
    return {part for part in walk(node) if isinstance(part, Axis)}


def _coordinates(op: Compute, pixels: Expr) -> dict[Axis, Expr]:
    """The leading axes of a stage as parts of the number of a pixel."""
    found: dict[Axis, Expr] = {}
    inner, whole = 1, prod(op.shape[:-1])
    for axis in reversed(op.axes[:-1]):
        place = pixels // inner if inner > 1 else pixels
        if axis.extent == 1:
            place = Const(0, "int64")
        elif inner * axis.extent < whole:
            place = place % axis.extent
        found[axis] = place
        inner *= axis.extent
    return found


def _flat(op: Compute, pixels: Axis, current: Callable[[Tensor], Tensor]) -> Compute:
    """An element-wise stage over pixels."""
    last = op.axes[-1]
    places = _coordinates(op, pixels)

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            tensor = current(node.tensor)
            if tensor.ndim < node.tensor.ndim:  # it is over pixels already
                return Load(tensor, (pixels, last))
        return _place(node, places)

    return Compute(f"{op.name}.pixels", (pixels, last), (_moved(op.bodies[0], leaf, current),))


def _product(match: _Match, pixels: Axis, current: Callable[[Tensor], Tensor]) -> Compute:
    op, reduce = match.op, match.op.reduce
    assert reduce is not None

    def row(m: Expr, *taps: Expr) -> Expr:
        places = _coordinates(op, m) | dict(zip(reduce.axes, taps, strict=True))
        return _moved(match.pixels, lambda node: _place(node, places), current)

    names = [_PIXELS, *(axis.name for axis in reduce.axes)]
    shape = (pixels.extent, *(axis.extent for axis in reduce.axes))
    rows: Tensor = compute(shape, row, f"{op.name}.rows", axis_names=names)
    filters = _moved(match.filters, lambda node: None, current)
    element = rows[(pixels, *reduce.axes)]
    source = (round_tf32(element) if match.rounded else cast(element, match.dtype)) * filters
    body = Reduce(reduce.reducer, (source,), reduce.axes)
    return Compute(f"{op.name}.pixels", (pixels, op.axes[-1]), (body,))


def _place(node: Expr, places: Mapping[Axis, Expr]) -> Expr | None:
    return places.get(node) if isinstance(node, Axis) else None


def _moved(
    body: Expr, leaf: Callable[[Expr], Expr | None], current: Callable[[Tensor], Tensor]
) -> Expr:
    """``body`` with nodes replaced by ``leaf``, reading what stands for its tensors now."""

    def visit(node: Expr) -> Expr | None:
        replaced = leaf(node)
        if replaced is not None or not isinstance(node, Load):
            return replaced
        return Load(current(node.tensor), tuple(rewrite(index, visit) for index in node.indices))

    return rewrite(body, visit)
