"""How stages read tensors: affine index forms, index bounds, and the predicates rules ask for.

The definitions of the predicates follow Ansor's access analyzer (Zheng et al., OSDI 2020).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sketch.lang.affine import (
    Interval,
    add_terms,
    bounds,
    combine_intervals,
    fits,
    hull,
    limits_of,
    scale_terms,
    wrapped,
)
from sketch.lang.dtypes import INDEX_DTYPES, is_integer
from sketch.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Select, Unary
from sketch.lang.kept import kept
from sketch.lang.operator_names import FLOAT_CALLS
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute, Operation, Placeholder, Tensor

AffineForm = tuple[dict[Axis, int], int]
Box = Mapping[Axis, Interval]


@kept  # lowering asks for the same stages again and again
def stage_loads(op: Compute) -> tuple[Load, ...]:
    """The distinct tensor elements a stage reads, in order of appearance."""
    found: dict[int, Load] = {}
    for body in op.bodies:
        for node in walk(body):
            if isinstance(node, Load):
                found.setdefault(id(node), node)
    return tuple(found.values())


def reads(op: Compute) -> dict[Tensor, tuple[tuple[Expr, ...], ...]]:
    """Per tensor read by ``op``: the index tuples of its loads, in order of appearance."""
    names: dict[tuple[int, int], Tensor] = {}
    result: dict[Tensor, tuple[tuple[Expr, ...], ...]] = {}
    for load in stage_loads(op):
        tensor = names.setdefault((id(load.tensor.op), load.tensor.output), load.tensor)
        result[tensor] = (*result.get(tensor, ()), load.indices)
    return result


def interval_of(form: AffineForm, box: Box | None = None) -> Interval:
    """Smallest and largest value of an affine form; ``box`` narrows axes (inclusive bounds)."""
    return bounds(form[1], form[0].items(), lambda axis: axis_bounds(axis, box))


def axis_bounds(axis: Axis, box: Box | None) -> Interval:
    """The inclusive range of an axis."""
    return (0, axis.extent - 1) if box is None else box.get(axis, (0, axis.extent - 1))


def _scale(form: AffineForm, factor: int) -> AffineForm:
    return dict(scale_terms(form[0].items(), factor)), form[1] * factor


def add_forms(lhs: AffineForm, rhs: AffineForm, sign: int = 1) -> AffineForm:
    """``lhs + sign * rhs``; terms that cancel disappear."""
    return dict(add_terms(lhs[0].items(), rhs[0].items(), sign)), lhs[1] + sign * rhs[1]


def _multiply(lhs: AffineForm, rhs: AffineForm) -> AffineForm | None:
    if not lhs[0]:
        return _scale(rhs, lhs[1])
    return _scale(lhs, rhs[1]) if not rhs[0] else None


def _divide(lhs: AffineForm, rhs: AffineForm, op: str) -> AffineForm | None:
    """``lhs // d`` or ``lhs % d`` where that is affine: the terms d does not divide stay below d.

    (4*i + j) // 4 == i and (4*i + j) % 4 == j for 0 <= j < 4.
    """
    divisor = rhs[1]
    if rhs[0] or divisor <= 0:
        return None
    whole = {axis: c for axis, c in lhs[0].items() if c % divisor == 0}
    quotient, offset = divmod(lhs[1], divisor)
    rest: AffineForm = ({axis: c for axis, c in lhs[0].items() if axis not in whole}, offset)
    low, high = interval_of(rest)
    if low // divisor != high // divisor:
        return None
    if op == "mod":
        return rest[0], rest[1] - (low // divisor) * divisor
    return {axis: c // divisor for axis, c in whole.items()}, quotient + low // divisor


def affine_index(expr: Expr, axes: Collection[Axis] | None = None) -> AffineForm | None:
    """``expr`` as (coefficient per axis, constant), or None where it is not affine.

    ``axes``: the axes that may occur; None allows all.  Zero coefficients are left out.
    """
    if isinstance(expr, Axis):
        allowed = axes is None or any(axis is expr for axis in axes)
        return ({expr: 1}, 0) if allowed else None
    return _form_of(expr, lambda part: affine_index(part, axes))


def _form_of(expr: Expr, form: Callable[[Expr], AffineForm | None]) -> AffineForm | None:
    """The form of a node from those of its operands; None where its value may wrap around."""
    found = _exact_form(expr, form)
    return found if found is None or fits(interval_of(found), expr.dtype) else None


def _exact_form(expr: Expr, form: Callable[[Expr], AffineForm | None]) -> AffineForm | None:
    match expr:
        case Const(value, dtype) if is_integer(dtype):
            return {}, int(value)
        case Axis():
            return {expr: 1}, 0
        case Cast(operand, dtype) if dtype in INDEX_DTYPES and is_integer(operand.dtype):
            return form(operand)
        case Unary("neg", operand, dtype) if dtype in INDEX_DTYPES:
            inner = form(operand)
            return None if inner is None else _scale(inner, -1)
        case Binary(op, lhs, rhs, dtype) if dtype in INDEX_DTYPES:
            left = form(lhs)
            return None if left is None else _affine_binary(op, left, form(rhs))
        case _:
            return None


def _affine_binary(op: str, lhs: AffineForm | None, rhs: AffineForm | None) -> AffineForm | None:
    if lhs is None or rhs is None:
        return None
    match op:
        case "add" | "sub":
            return add_forms(lhs, rhs, 1 if op == "add" else -1)
        case "mul":
            return _multiply(lhs, rhs)
        case "floordiv" | "mod":
            return _divide(lhs, rhs, op)
        case _:
            return None


@kept  # every step that names a loop asks
def divisors(op: Compute) -> Mapping[Axis, int]:
    """By which number indices of a stage divide an axis (``h // 4``, ``h % 4``), if by one."""
    found: dict[Axis, set[int]] = {}
    for load in stage_loads(op):
        for index in load.indices:
            for node in walk(index):
                match node:
                    case Binary("floordiv" | "mod", Axis() as axis, Const(value)):
                        found.setdefault(axis, set()).add(int(value))
    return _single(found)


@kept
def residues(op: Compute) -> Mapping[Axis, int]:
    """By which number indices divide what is left of an axis (``h % 8 // 2``, ``h % 8 % 2``), if by
    one, which divides ``divisors`` of the axis.
    """
    sizes = divisors(op)
    found: dict[Axis, set[int]] = {}
    for load in stage_loads(op):
        for index in load.indices:
            for node in walk(index):
                match node:
                    case Binary(
                        "floordiv" | "mod", Binary("mod", Axis() as axis, Const()), Const(value)
                    ):
                        found.setdefault(axis, set()).add(int(value))
    return {axis: size for axis, size in _single(found).items() if sizes.get(axis, 1) % size == 0}


def _single(found: Mapping[Axis, Collection[int]]) -> dict[Axis, int]:
    """The number of each axis that has one; no tile is as large as 0 or a negative number."""
    return {axis: min(sizes) for axis, sizes in found.items() if len(sizes) == 1 and min(sizes) > 0}


def index_interval(expr: Expr, box: Box | None = None) -> Interval | None:
    """Inclusive bounds of an integer expression, exact where it is affine; None if unknown.

    ``box``: inclusive bounds of axes that are narrower than their extents.  Data may be any number,
    so an index made of them is bounded by what clamps it.
    """
    return _Intervals(box, {}, {}).of(expr)


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Bounds within a box; every node of an expression is looked at once, by its identity."""

    box: Box | None
    forms: dict[int, AffineForm | None]
    known: dict[int, Interval | None]

    def form(self, expr: Expr) -> AffineForm | None:
        """The affine form of a node."""
        if id(expr) not in self.forms:
            self.forms[id(expr)] = _form_of(expr, self.form)
        return self.forms[id(expr)]

    def of(self, expr: Expr) -> Interval | None:
        """The bounds of a node."""
        if id(expr) not in self.known:
            form = self.form(expr)
            inside = self._find(expr) if form is None else interval_of(form, self.box)
            self.known[id(expr)] = inside
        return self.known[id(expr)]

    def _find(self, expr: Expr) -> Interval | None:
        match expr:
            case Cast(operand, dtype) if is_integer(dtype):
                return wrapped(self.of(operand), dtype)
            case Unary("neg", operand, dtype) if is_integer(dtype):
                inner = self.of(operand)
                return wrapped(None if inner is None else (-inner[1], -inner[0]), dtype)
            case Select(_, then, otherwise):
                return hull(self.of(then), self.of(otherwise))
            case Binary(op, lhs, rhs, dtype) if is_integer(dtype):
                return wrapped(combine_intervals(op, self.of(lhs), self.of(rhs)), dtype)
            case _:
                return limits_of(expr.dtype)


def simple_axis(index: Expr, axes: Collection[Axis]) -> tuple[Axis | None, bool]:
    """(axis or None for a constant, whether the index is one spatial axis plus a constant)."""
    form = affine_index(index, axes)
    if form is None or len(form[0]) > 1 or any(c != 1 for c in form[0].values()):
        return None, False
    return next(iter(form[0]), None), True


def is_simple_access(op: Compute, indices: tuple[Expr, ...]) -> bool:
    """Every index is a constant or one spatial axis with a constant shift."""
    return all(simple_axis(index, op.axes)[1] for index in indices)


def is_ordered_access(op: Compute, indices: tuple[Expr, ...]) -> bool:
    """A simple access whose axes appear at most once and in the stage's own order."""
    if not is_simple_access(op, indices):
        return False
    positions = [
        op.axes.index(axis)
        for axis in (simple_axis(index, op.axes)[0] for index in indices)
        if axis is not None
    ]
    return all(a < b for a, b in itertools.pairwise(positions))


def has_elementary_call(op: Compute) -> bool:
    """Whether an elementary function (exp, tanh, ...) occurs in the stage."""
    return any(
        isinstance(node, Unary) and node.op in FLOAT_CALLS
        for body in op.bodies
        for node in walk(body)
    )


def reads_elementwise(consumer: Compute, producer: Compute) -> bool:
    """Whether each element of ``consumer`` needs of ``producer`` just the element at its place."""
    if consumer.reduce is not None or consumer.shape != producer.shape:
        return False
    loads = [load for load in stage_loads(consumer) if load.tensor.op is producer]
    return bool(loads) and all(_is_own_point(consumer, load.indices) for load in loads)


def _is_own_point(op: Compute, indices: tuple[Expr, ...]) -> bool:
    forms = [affine_index(index, op.axes) for index in indices]
    return all(
        form == ({axis: 1}, 0) or (axis.extent == 1 and form == ({}, 0))
        for form, axis in zip(forms, op.axes, strict=True)
    )


def _is_reused(op: Compute, tensor: Tensor) -> bool:
    """Whether points of a stage share elements of a tensor that do not stand still in a point."""
    used: set[Axis] = set()
    for indices in reads(op)[tensor]:
        for index in indices:
            used.update(node for node in walk(index) if isinstance(node, Axis))
    moves = not op.reduce_axes or any(axis in used for axis in op.reduce_axes)
    return moves and any(axis.extent > 1 and axis not in used for axis in op.axes)


def needs_tiling(op: Operation) -> bool:
    """Whether tiling pays because data are reused.

    A producer is reused if a spatial axis of extent > 1 occurs in none of its indices.  One such
    producer and a reduction, or two such producers, make a stage worth tiling.  What a reduction
    reads once for all its terms (the mean, in a variance) does not count.
    """
    if isinstance(op, Placeholder):
        return False
    reused = sum(_is_reused(op, tensor) for tensor in reads(op))
    return reused >= 2 or (reused >= 1 and bool(op.reduce_axes))
