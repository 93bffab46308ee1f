"""Matrix products with a constant by Strassen's algorithm: seven products of halves, not eight.

Rows are taken in pairs (a), the columns and the terms in halves (h, b), whatever the program calls
them (Strassen, Numerische Mathematik 13, 1969):

    sums(r, i, k)        = over a, b: U[r, a, b] * data(2*i + a, b*K/2 + k)
    products(r, i, j)    = sum over k: sums(r, i, k) * combined(r, k, j)
    result(i, a, h, j)   = over r: Y[a, h, r] * products(r, i, j), element (2*i + a, h*N/2 + j)

The constant's combinations are made ahead of time.  Element-wise stages after the product are
computed at the same points, so that a nest over blocks of rows holds all stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Final

from sketch.analysis.access import AffineForm
from sketch.analysis.store_places import Coordinate
from sketch.dag.dag import ComputeDAG, collect, repeated_names
from sketch.lang import reducers
from sketch.lang.expr import Axis, Const, Expr
from sketch.lang.prepared import CombinedParts
from sketch.lang.tensor import Compute, Placeholder, SharedBuffer, Tensor, compute, reduce_axis
from sketch.operators.shared_buffer import apply_to_parts, stored
from sketch.oracle.contraction import Factor, sum_of_products
from sketch.variants.combinations import combinations
from sketch.variants.element_wise import is_element_wise, readers
from sketch.variants.interpolation import Matrix
from sketch.variants.winograd_blocks import chosen

_PARTS: Final = 2
# Of quadrants 11, 12, 21, 22, by product.
_DATA: Final = (
    (1, 0, 0, 1),
    (0, 0, 1, 1),
    (1, 0, 0, 0),
    (0, 0, 0, 1),
    (1, 1, 0, 0),
    (-1, 0, 1, 0),
    (0, 1, 0, -1),
)
_CONSTANT: Final = (
    (1, 0, 0, 1),
    (1, 0, 0, 0),
    (0, 1, 0, -1),
    (-1, 0, 1, 0),
    (0, 0, 0, 1),
    (1, 1, 0, 0),
    (0, 0, 1, 1),
)
# By quadrant of the result, of products.
_RESULT: Final = (
    (1, 0, 0, 1, -1, 0, 1),
    (0, 0, 1, 0, 1, 0, 0),
    (0, 1, 0, 1, 0, 0, 0),
    (1, -1, 1, 0, 0, 1, 0),
)
# The sums cost additions for each column, row and term: few of the others do not pay for them.  An
# eighth of the products of 128 terms or less takes as long as they do.
_LEAST_TERMS: Final = 256
_LEAST_COLUMNS: Final = 128
_LEAST_ROWS: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """``op[*rows, n] = sum over k of data[...] * weight[..., k, n]``.

    ``pair``: position of the axis of rows that is taken in pairs.
    """

    op: Compute
    data: Factor
    weight: Tensor
    pair: int


def strassen(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with its only product by Strassen's algorithm; None where it has none, or
    several, that are large enough, or others than element-wise stages after it.
    """
    found = [match for op in dag.stages if (match := _product(op)) is not None]
    if len(found) != 1 or len(dag.outputs) != 1:
        return None
    (match,), (output,) = found, dag.outputs
    op = match.op
    after = {id(op)} | {id(reader) for reader in readers(dag, op)}
    changed = [stage for stage in dag.stages if id(stage) in after]
    if id(output.op) not in after or any(stage.store is not None for stage in changed):
        return None
    alone = list(dag.consumers(match.weight.op)) == [op]
    if not alone or not all(is_element_wise(stage, op, after) for stage in changed):
        return None
    part = _results(match)
    outputs = [part]
    if output.op is not op:
        outputs = list(apply_to_parts([part], Tensor(op), output, output.op.name))
    # the user's own names may be those of its stages
    return None if repeated_names(*collect(tuple(outputs))) else ComputeDAG(outputs)


def _product(op: Compute) -> _Product | None:
    terms = sum_of_products(op)
    if terms is None or len(terms) != 1 or len(op.reduce_axes) != 1 or len(op.axes) < _PARTS:
        return None
    (term,) = terms
    if len(term.operands) != _PARTS or float(term.coefficient) != 1.0:
        return None
    first, second = term.operands
    return _matched(op, first, second) or _matched(op, second, first)


def _matched(op: Compute, data: Factor, weight: Factor) -> _Product | None:
    (*rows, n), (k,) = op.axes, op.reduce_axes
    even = [number for number, axis in enumerate(rows) if axis.extent % _PARTS == 0]
    fits = _is_matrix(weight, k, n) and _is_rows(data, k, n) and _is_large(rows, k, n)
    single = {op.output_dtypes[0], data.tensor.dtype, weight.tensor.dtype} == {"float32"}
    if not even or not fits or not single or k.extent % _PARTS or n.extent % _PARTS:
        return None
    return _Product(op, data, weight.tensor, even[-1])


def _is_matrix(weight: Factor, k: Axis, n: Axis) -> bool:
    """Whether it is a constant ``[..., k, n]`` as the caller has it, with ones before."""
    op = weight.tensor.op
    if not isinstance(op, Placeholder) or not op.constant or op.prepared is not None:
        return False
    if len(op.shape) < _PARTS:
        return False
    *ones, outer, inner = zip(op.shape, weight.forms, weight.limits, strict=True)
    none = (None, None)
    whole = outer == (k.extent, ({k: 1}, 0), none) and inner == (n.extent, ({n: 1}, 0), none)
    return whole and all(one == (1, ({}, 0), none) for one in ones)


def _is_rows(data: Factor, k: Axis, n: Axis) -> bool:
    """Whether it is data ``[..., k]`` that all columns share, without padding."""
    if any(limit != (None, None) for limit in data.limits):
        return False
    *places, last = data.forms
    return last == ({k: 1}, 0) and not any(k in form[0] or n in form[0] for form in places)


def _is_large(rows: Sequence[Axis], k: Axis, n: Axis) -> bool:
    enough = prod(axis.extent for axis in rows) >= _LEAST_ROWS
    return enough and k.extent >= _LEAST_TERMS and n.extent >= _LEAST_COLUMNS


def _results(match: _Product) -> Tensor:
    """``[*rows with half of the pairs', a, h, N/2]``, stored as ``[*rows, N]``."""
    op, pair = match.op, match.pair
    products = _products(match, _sums(match))
    *rows, columns = products.shape[1:]

    def element(*axes: Axis) -> Expr:
        *places, a, h, n = axes
        terms = [products[(r, *places, n)] for r in range(len(_DATA))]
        values = combinations(_fractions(_RESULT), terms)
        return chosen(a, [chosen(h, values[:_PARTS]), chosen(h, values[_PARTS:])])

    names = [axis.name for axis in op.axes[:-1]]
    labels = [*names, f"{names[pair]}_part", f"{op.axes[-1].name}_part", op.axes[-1].name]
    shape = (*rows, _PARTS, _PARTS, columns)
    found = compute(shape, element, op.name, axis_names=labels)
    first = len(rows)
    coordinates: list[Coordinate] = [(0, {number: 1}) for number in range(first)]
    coordinates[pair] = (0, {pair: _PARTS, first: 1})
    last = (0, {first + 1: columns, first + 2: 1})
    return stored(found, SharedBuffer(op.name, op.shape), [*coordinates, last])


def _sums(match: _Product) -> Tensor:
    """Of pairs of rows and halves of terms: [7, *rows, K/2]."""
    op, pair = match.op, match.pair
    (k,), rows = op.reduce_axes, [axis.extent for axis in op.axes[:-1]]
    rows[pair] //= _PARTS
    half = k.extent // _PARTS

    def element(r: Axis, *axes: Axis) -> Expr:
        *places, term = axes
        elements = []
        for a in range(_PARTS):
            for b in range(_PARTS):
                here: dict[Axis, Expr] = dict(zip(op.axes, places, strict=False))
                here[op.axes[pair]] = places[pair] * _PARTS + a
                here[k] = term + b * half
                indices = tuple(_index(form, here) for form in match.data.forms)
                elements.append(match.data.tensor[indices])
        return chosen(r, combinations(_fractions(_DATA), elements))

    return compute((len(_DATA), *rows, half), element, f"{op.name}.sums")


def _products(match: _Product, sums: Tensor) -> Tensor:
    """[7, *rows, N/2]."""
    op, weight = match.op, match.weight.op
    assert isinstance(weight, Placeholder)
    ones = (1,) * (len(weight.shape) - _PARTS)
    made = CombinedParts(weight.shape, (*ones, _PARTS, _PARTS), _CONSTANT)
    constant = Tensor(Placeholder(weight.name, made.result_shape, weight.dtype, True, made))
    k = reduce_axis(sums.shape[-1], op.reduce_axes[0].name)
    zeros = (0,) * len(ones)

    def product(r: Axis, *axes: Axis) -> Expr:
        *places, n = axes
        return reducers.sum(sums[(r, *places, k)] * constant[(r, *zeros, k, n)], axis=k)

    shape = (*sums.shape[:-1], constant.shape[-1])
    return compute(shape, product, f"{op.name}.products")


def _index(form: AffineForm, here: dict[Axis, Expr]) -> Expr:
    total: Expr = Const(form[1], "int64")
    for axis, factor in form[0].items():
        total = total + here[axis] * factor
    return total


def _fractions(rows: tuple[tuple[int, ...], ...]) -> Matrix:
    return tuple(tuple(map(Fraction, row)) for row in rows)
