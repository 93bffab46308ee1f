"""Sums of products of tensor elements as matrix products: the fast half of the oracle.

A convolution's window is a view with repeated strides, its padding a copy of the data framed by
zeros; then any sum of products is a transpose, a (batched) matrix product and a reshape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sketch.analysis.access import AffineForm, affine_index, interval_of
from sketch.analysis.read_bounds import Facts, bound_by_fact, facts_of
from sketch.lang.affine import Interval
from sketch.lang.dtypes import is_float, is_integer, is_unsigned, size_of
from sketch.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Select, Unary
from sketch.lang.operator_names import ROUND_TF32
from sketch.lang.reducers import is_sum
from sketch.lang.scalar_functions import UNARY_FUNCTIONS, Array, oracle_dtype
from sketch.lang.tensor import Compute, Tensor
from sketch.oracle.evaluate import Loader, constant

Bounds = Mapping[Axis, Interval]


@dataclass(frozen=True, slots=True)
class Factor:
    """A tensor element with affine indices; outside of ``limits`` it counts as zero.

    ``rounded``: to tf32.
    """

    tensor: Tensor
    forms: tuple[AffineForm, ...]
    limits: tuple[tuple[int | None, int | None], ...]
    rounded: bool = False

    @property
    def axes(self) -> tuple[Axis, ...]:
        found: dict[Axis, None] = {}
        for terms, _ in self.forms:
            found.update(dict.fromkeys(terms))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Term:
    """``coefficient`` times the product of operands."""

    coefficient: Array
    operands: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class _Product:
    coefficient: Array
    loads: tuple[Load | Unary, ...]
    facts: Facts


@dataclass(frozen=True, slots=True)
class _Forms:
    """Which operands are known beside loads: integers made wider, floats rounded to tf32."""

    integers: bool
    tf32: bool


def sum_of_products(
    op: Compute, integers: bool = False, tf32: bool = False
) -> tuple[Term, ...] | None:
    """The terms that a stage sums over its reduce axes, or None if it has another form.

    Args:
        op: the stage.
        integers: whether operands may be integers that are made wider; the terms then have the
            operands as they are stored.
        tf32: whether operands may be rounded to tf32; the terms then say which are.
    """
    reduce = op.reduce
    if reduce is None or not is_sum(reduce.reducer):
        return None
    products = _products(reduce.sources[0], _Forms(integers, tf32))
    if products is None:
        return None
    terms = [_as_term(product) for product in products]
    found = tuple(term for term in terms if term is not None)
    return found if len(found) == len(terms) else None


def _products(node: Expr, forms: _Forms) -> list[_Product] | None:
    match node:
        case Load():
            return [_Product(np.asarray(1, oracle_dtype(node.dtype)), (node,), ())]
        case Unary("round_tf32", Load(), _) if forms.tf32:
            return [_Product(np.asarray(1, oracle_dtype(node.dtype)), (node,), ())]
        case Const():
            return [_Product(constant(node), (), ())]
        case Unary("neg", operand, _):
            return _scaled(_products(operand, forms), -1)
        case Cast(operand, dtype) if _widens(operand.dtype, dtype, forms.integers):
            return _products(operand, forms)
        case Binary("mul", lhs, rhs, _):
            return _multiplied(_products(lhs, forms), _products(rhs, forms))
        case Binary("add" | "sub" as sign, lhs, rhs, _):
            left, right = (
                _products(lhs, forms),
                _scaled(_products(rhs, forms), 1 if sign == "add" else -1),
            )
            return None if left is None or right is None else left + right
        case Select(condition, then, Const(value, _)) if value == 0:
            facts, inner = facts_of(condition), _products(then, forms)
            if facts is None or inner is None:
                return None
            return [_Product(p.coefficient, p.loads, p.facts + facts) for p in inner]
        case _:
            return None


def _widens(source: str, target: str, integers: bool) -> bool:
    """Whether a cast between floats, or integers, keeps every value."""
    known = is_float(source) and is_float(target)
    if integers:
        known = known or (is_integer(source) and is_integer(target) and not is_unsigned(target))
    return known and size_of(source) < size_of(target)


def _scaled(products: list[_Product] | None, sign: int) -> list[_Product] | None:
    if products is None:
        return None
    if sign > 0:
        return products
    return [_Product(np.negative(p.coefficient), p.loads, p.facts) for p in products]


def _multiplied(lhs: list[_Product] | None, rhs: list[_Product] | None) -> list[_Product] | None:
    if lhs is None or rhs is None or len(lhs) != 1 or len(rhs) != 1:
        return None
    a, b = lhs[0], rhs[0]
    return [_Product(a.coefficient * b.coefficient, a.loads + b.loads, a.facts + b.facts)]


def _as_term(product: _Product) -> Term | None:
    """Attach every fact to an operand that has an index of the same form."""
    if not product.loads:
        return None
    forms: list[tuple[AffineForm, ...]] = []
    loads = [_element(factor) for factor in product.loads]
    for load in loads:
        indices = tuple(affine_index(index) for index in load.indices)
        known = tuple(form for form in indices if form is not None)
        if len(known) < len(indices):
            return None
        forms.append(known)
    limits: list[list[tuple[int | None, int | None]]] = [[(None, None)] * len(f) for f in forms]
    for fact in product.facts:
        if not _attach(fact, forms, limits):
            return None
    operands = tuple(
        Factor(load.tensor, form, tuple(limit), isinstance(node, Unary))
        for node, load, form, limit in zip(product.loads, loads, forms, limits, strict=True)
    )
    return Term(product.coefficient, operands)


def _element(factor: Load | Unary) -> Load:
    element = factor.operand if isinstance(factor, Unary) else factor
    assert isinstance(element, Load)
    return element


def _attach(
    fact: AffineForm,
    forms: Sequence[tuple[AffineForm, ...]],
    limits: list[list[tuple[int | None, int | None]]],
) -> bool:
    for number, indices in enumerate(forms):
        for dimension, form in enumerate(indices):
            low, high = bound_by_fact(form, fact)
            if low is None and high is None:
                continue
            old_low, old_high = limits[number][dimension]
            limits[number][dimension] = (
                old_low if low is None else low if old_low is None else max(old_low, low),
                old_high if high is None else high if old_high is None else min(old_high, high),
            )
            return True
    return False


def all_finite(terms: Sequence[Term], load: Loader) -> bool:
    """Whether the terms may be computed as matrix products: zero times infinity would be NaN where
    zero stands for a masked element, and no infinite factor may be taken out of a sum.
    """
    return all(
        bool(np.isfinite(term.coefficient))
        and all(_is_finite(_elements(operand, load)) for operand in term.operands)
        for term in terms
    )


def _elements(operand: Factor, load: Loader) -> Array:
    """All elements of an operand's tensor, as they are multiplied."""
    values = load(operand.tensor)
    return UNARY_FUNCTIONS[ROUND_TF32](values) if operand.rounded else values


def _is_finite(values: Array) -> bool:
    return values.dtype.kind != "f" or bool(np.isfinite(values).all())


@dataclass(frozen=True, slots=True)
class Frame:
    """The part of an operand's tensor that a box of points reads, zero where masked.

    Element ``(x0, x1, ...)`` of the tensor is ``values[x0 - starts[0], ...]``.
    """

    values: Array
    starts: tuple[int, ...]


def frame(operand: Factor, box: Bounds, load: Loader) -> Frame:
    """Cut (and where needed copy into a zero frame) what ``box`` reads of an operand."""
    source = load(operand.tensor)
    wanted = [interval_of(form, box) for form in operand.forms]
    valid = [
        (max(low, 0 if a is None else max(a, 0)), min(high, extent - 1 if b is None else b))
        for (low, high), (a, b), extent in zip(wanted, operand.limits, source.shape, strict=True)
    ]
    valid = [(low, min(high, e - 1)) for (low, high), e in zip(valid, source.shape, strict=True)]
    inner = tuple(slice(low, max(low, high + 1)) for low, high in valid)
    starts = tuple(low for low, _ in wanted)
    if valid == wanted:
        return Frame(source[inner], starts)
    values = np.zeros([high - low + 1 for low, high in wanted], dtype=source.dtype)
    target = tuple(
        slice(part.start - low, part.stop - low) for part, low in zip(inner, starts, strict=True)
    )
    values[target] = source[inner]
    return Frame(values, starts)


def _window(operand: Factor, box: Bounds, load: Loader) -> Array:
    """A view with one dimension for each axis of the operand."""
    cut = frame(operand, box, load)
    values = cut.values.astype(oracle_dtype(operand.tensor.dtype), copy=False)
    if operand.rounded:
        values = UNARY_FUNCTIONS[ROUND_TF32](values)
    first = {axis: bounds[0] for axis, bounds in box.items()}
    strides = {axis: 0 for axis in operand.axes}
    origin: list[int] = []
    for (terms, offset), start, step in zip(operand.forms, cut.starts, values.strides, strict=True):
        origin.append(offset - start + sum(c * first[axis] for axis, c in terms.items()))
        for axis, coefficient in terms.items():
            strides[axis] += coefficient * step
    corner = values[tuple(slice(position, None) for position in origin)]
    shape = [box[axis][1] - box[axis][0] + 1 for axis in operand.axes]
    return np.lib.stride_tricks.as_strided(
        corner, shape, [strides[axis] for axis in operand.axes], writeable=False
    )


def contract(
    term: Term, spatial: Sequence[Axis], reduce: Sequence[Axis], box: Bounds, load: Loader
) -> Array:
    """The sum of one term over the reduce axes, on a box of points: shape of ``spatial``.

    Args:
        term: one product of the sum.
        spatial: axes of the result.
        reduce: axes that are summed over.
        box: inclusive bounds of every axis.
        load: elements of a tensor at given indices.
    """
    sizes = {axis: high - low + 1 for axis, (low, high) in box.items()}
    axes, value = term.operands[0].axes, _window(term.operands[0], box, load)
    for number, operand in enumerate(term.operands[1:], start=1):
        later = {axis for rest in term.operands[number + 1 :] for axis in rest.axes}
        kept = {*spatial, *later}
        axes, value = _multiply((axes, value), (operand.axes, _window(operand, box, load)), kept)
    missing = math.prod(sizes[axis] for axis in reduce if axis not in _all_axes(term))
    left = tuple(axis for axis in axes if axis in spatial)
    # repeated terms wrap around as integers of the dtype do
    repeats = np.asarray(missing).astype(value.dtype)
    value = _sum_out(axes, value, left) * (term.coefficient * repeats)
    place = [sizes[axis] if axis in left else 1 for axis in spatial]
    ordered = value.transpose([left.index(axis) for axis in spatial if axis in left])
    return np.broadcast_to(ordered.reshape(place), [sizes[axis] for axis in spatial])


def _all_axes(term: Term) -> set[Axis]:
    return {axis for operand in term.operands for axis in operand.axes}


def _sum_out(axes: Sequence[Axis], value: Array, kept: Sequence[Axis]) -> Array:
    gone = tuple(position for position, axis in enumerate(axes) if axis not in kept)
    return value.sum(axis=gone, dtype=value.dtype) if gone else value


def _multiply(
    lhs: tuple[tuple[Axis, ...], Array], rhs: tuple[tuple[Axis, ...], Array], kept: set[Axis]
) -> tuple[tuple[Axis, ...], Array]:
    """Product of two arrays with named dimensions, summed over shared axes that are not kept."""
    (a_axes, a), (b_axes, b) = _drop_private(lhs, rhs[0], kept), _drop_private(rhs, lhs[0], kept)
    shared = [axis for axis in a_axes if axis in b_axes]
    batch = [axis for axis in shared if axis in kept]
    inner = [axis for axis in shared if axis not in kept]
    rows = [axis for axis in a_axes if axis not in shared]
    columns = [axis for axis in b_axes if axis not in shared]
    left = _grouped(a_axes, a, (batch, rows, inner))
    right = _grouped(b_axes, b, (batch, inner, columns))
    result = left @ right
    sizes = {**dict(zip(a_axes, a.shape, strict=True)), **dict(zip(b_axes, b.shape, strict=True))}
    order = (*batch, *rows, *columns)
    return order, result.reshape([sizes[axis] for axis in order])


def _drop_private(
    operand: tuple[tuple[Axis, ...], Array], other: Sequence[Axis], kept: set[Axis]
) -> tuple[tuple[Axis, ...], Array]:
    axes, value = operand
    stay = tuple(axis for axis in axes if axis in kept or axis in other)
    return stay, _sum_out(axes, value, stay)


def _grouped(axes: Sequence[Axis], value: Array, groups: Sequence[Sequence[Axis]]) -> Array:
    """Transpose to the order of ``groups`` and merge each group into one dimension."""
    sizes = dict(zip(axes, value.shape, strict=True))
    order = [axes.index(axis) for group in groups for axis in group]
    shape = [math.prod(sizes[axis] for axis in group) for group in groups]
    return value.transpose(order).reshape(shape)


def contraction_cost(terms: Sequence[Term], box: Bounds) -> int:
    """Elements of the largest temporary set that contracting ``box`` makes."""
    sizes = {axis: high - low + 1 for axis, (low, high) in box.items()}
    return max(
        sum(math.prod(sizes[axis] for axis in operand.axes) for operand in term.operands)
        for term in terms
    )
