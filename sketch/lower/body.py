"""Bodies of stages as values of a nest: axes become affine forms, tensor reads buffer reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sketch.analysis.access import affine_index, index_interval
from sketch.analysis.scattering import is_identity
from sketch.lang.affine import UNBOUNDED, Interval
from sketch.lang.conditions import conjuncts
from sketch.lang.dtypes import BOOL, INDEX_DTYPES
from sketch.lang.expr import (
    Axis,
    Binary,
    Cast,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    binary,
    cast,
)
from sketch.lang.operator_names import COMPARISON
from sketch.lang.rewrite import rewrite, substitute_axes, walk
from sketch.lower.buffers import Buffers
from sketch.lower.placement import PlacedStage, Placement, index_affine
from sketch.lower.scattered import placed_by_data
from sketch.nest.loopnest import Affine, AffineValue, BufferLoad, Index, Predicate, Quasi


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """What one statement stores, and when."""

    values: tuple[Expr, ...]
    predicates: tuple[Predicate, ...]
    coordinates: tuple[Index, ...]


def lower_body(stage: PlacedStage, placement: Placement, buffers: Buffers) -> Body:
    """The values that the innermost statement of ``stage`` stores (terms, for a reduction), and
    the coordinates of the element that it stores them in.

    A reduction of ``select(c, x, identity)`` skips the update where the affine condition ``c``
    does not hold: adding the identity changes nothing.
    """
    op = stage.plan.op
    placed = placed_by_data(stage, placement)
    reduce = op.reduce
    sources = op.bodies if reduce is None else reduce.sources
    if placed:
        sources = tuple(substitute_axes(source, dict(placed)) for source in sources)
    predicates: tuple[Predicate, ...] = ()
    if reduce is not None and len(sources) == 1:
        guarded, predicates = _guards(sources[0], reduce, stage)
        sources = (guarded,)
    convert = _converter(stage, placement, buffers)
    coordinates = tuple(
        Quasi(convert(placed[axis]), 0, axis.extent - 1)
        if axis in placed
        else stage.coordinate(axis)
        for axis in op.axes
    )
    return Body(tuple(convert(source) for source in sources), predicates, coordinates)


def _converter(
    stage: PlacedStage, placement: Placement, buffers: Buffers
) -> Callable[[Expr], Expr]:
    def leaf(n: Expr) -> Expr | None:
        if isinstance(n, Axis):
            return AffineValue(stage.coordinate(n))
        if isinstance(n, Binary) and n.op in ("floordiv", "mod") and n.dtype == "int64":
            # As indices have it: what guards a read is then seen to be about its index.
            form = index_affine(n, stage)
            return None if form is None else AffineValue(form)
        if isinstance(n, Binary) and n.op in COMPARISON:
            return _compared_forms(n, stage)
        if isinstance(n, Load):
            indices = tuple(index(i, e) for i, e in zip(n.indices, n.tensor.shape, strict=True))
            view = buffers.view(n.tensor, stage)
            return BufferLoad(view.buffer, view.locate(indices))
        return None

    known: dict[tuple[int, int], Index] = {}

    def index(expr: Expr, extent: int) -> Index:
        key = id(expr), extent
        if key not in known:
            known[key] = found(expr, extent)
        return known[key]

    def found(expr: Expr, extent: int) -> Index:
        form = index_affine(expr, stage)
        if form is not None:
            return form
        bounds = index_interval(expr) or (-UNBOUNDED, UNBOUNDED)
        return _kept_inside(rewrite(expr, leaf), bounds, extent)

    return lambda expr: rewrite(expr, leaf)


def _compared_forms(comparison: Binary, stage: PlacedStage) -> Expr | None:
    """A comparison of indices that are negated or converted, as these are where they are read:
    ``-i >= -9``, ``int32(i) < 10``; None of anything else, which shows its form itself.
    """
    if not any(isinstance(node, Unary | Cast) for node in walk(comparison)):
        return None
    lhs, rhs = index_affine(comparison.lhs, stage), index_affine(comparison.rhs, stage)
    if lhs is None or rhs is None:
        return None
    return Binary(comparison.op, AffineValue(lhs), AffineValue(rhs), BOOL)


def _kept_inside(value: Expr, bounds: Interval, extent: int) -> Quasi:
    """What is not proved to stay inside the tensor is kept there."""
    low, high = bounds
    if (low < 0 or high >= extent) and value.dtype not in INDEX_DTYPES:
        value = cast(value, "int64")  # the last index may be too large for its type
    if low < 0:
        value, low, high = binary("max", value, 0), 0, max(high, 0)
    if high >= extent:
        value, low, high = binary("min", value, extent - 1), min(low, extent - 1), extent - 1
    return Quasi(value, low, high)


def _guards(source: Expr, reduce: Reduce, stage: PlacedStage) -> tuple[Expr, tuple[Predicate, ...]]:
    """Split ``select(condition, x, identity)`` into x, under what is affine in the condition."""
    if not isinstance(source, Select) or not is_identity(source.otherwise, reduce):
        return source, ()
    predicates: list[Predicate] = []
    rest: list[Expr] = []
    for condition in conjuncts(source.condition):
        predicate = affine_predicate(condition, stage)
        if predicate is None:
            rest.append(condition)
        else:
            predicates.append(predicate)
    inner, more = _guards(source.then, reduce, stage)
    value = inner
    if rest:
        condition = rest[0]
        for extra in rest[1:]:
            condition = binary("and", condition, extra)
        value = Select(condition, inner, source.otherwise)
    return value, merge_predicates((*predicates, *more))


def affine_predicate(condition: Expr, stage: PlacedStage) -> Predicate | None:
    """A comparison of affine integer forms as a predicate over loop variables."""
    if not isinstance(condition, Binary) or condition.op not in ("lt", "le", "gt", "ge", "eq"):
        return None
    axes = stage.plan.op.all_axes
    left, right = affine_index(condition.lhs, axes), affine_index(condition.rhs, axes)
    if left is None or right is None:
        return None
    lhs = index_affine(condition.lhs, stage)
    rhs = index_affine(condition.rhs, stage)
    assert lhs is not None and rhs is not None
    difference = lhs + rhs.scale(-1)
    terms, const = Affine(difference.terms), difference.const
    match condition.op:  # terms + const <op> 0
        case "lt":
            return Predicate(terms, -UNBOUNDED, -const)
        case "le":
            return Predicate(terms, -UNBOUNDED, 1 - const)
        case "gt":
            return Predicate(terms, 1 - const, UNBOUNDED)
        case "ge":
            return Predicate(terms, -const, UNBOUNDED)
        case _:
            return Predicate(terms, -const, 1 - const)


def merge_predicates(predicates: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
    """Intersect predicates over the same terms (also over their negation)."""
    merged: dict[frozenset[tuple[object, int]], Predicate] = {}
    for p in predicates:
        key = frozenset((id(v), c) for v, c in p.index.terms)
        negated = frozenset((id(v), -c) for v, c in p.index.terms)
        if negated in merged and key not in merged:
            p = Predicate(p.index.scale(-1), 1 - p.high, 1 - p.low)
            key = negated
        known = merged.get(key)
        if known is not None:
            low, high = _shifted(p, known.index.const - p.index.const)
            p = Predicate(known.index, max(low, known.low), min(high, known.high))
        merged[key] = p
    return tuple(merged.values())


def _shifted(predicate: Predicate, shift: int) -> tuple[int, int]:
    """The bounds of a form that is larger by ``shift``."""
    low, high = predicate.low, predicate.high
    return (
        low if low <= -UNBOUNDED else low + shift,
        high if high >= UNBOUNDED else high + shift,
    )
