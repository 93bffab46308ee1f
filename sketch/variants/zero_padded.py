"""Convolutions of an image with a frame of zeros, of which every tap is multiplied.

A tap in the padding is not multiplied as a convolution is written, so each product is tested: the
operands of a tile cannot be read together.  With zeros around the image there is no test.  The
frame is never stored: a schedule computes it where it reads a tile of the image.

    y[h, w, o] = sum over p, q, c of x[h + p - 1, w + q - 1, c] * f[p, q, c, o]  if x has them

    framed[h, w, c] = x[h - 1, w - 1, c]  if x has it, else 0
    y[h, w, o] = sum over p, q, c of framed[h + p, w + q, c] * f[p, q, c, o]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sketch.analysis.access import interval_of
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Expr, Load, Reduce, Select, select
from sketch.lang.functions import all_of
from sketch.lang.rewrite import rewrite
from sketch.lang.tensor import Compute, Tensor, compute
from sketch.oracle.contraction import Factor, Term, sum_of_products
from sketch.variants.correlation import zero_outside
from sketch.variants.inner_factors import with_inner_factors
from sketch.variants.rebuild import rebuild


def zero_padded(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program; None where it has no single convolution with padding."""
    dag = with_inner_factors(dag)
    found = [match for op in dag.stages if (match := _matched(op)) is not None]
    if len(found) != 1:
        return None
    (match,) = found

    def replacement(op: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        return Tensor(_unguarded(match, current)) if op is match.op else None

    return rebuild(dag, replacement)


@dataclass(frozen=True, slots=True, eq=False)
class _Match:
    """A sum of products of what depends on pixels, and is zero outside of an image, and filters."""

    op: Compute
    image: Factor

    @property
    def before(self) -> tuple[int, ...]:
        """Zeros before the image, by dimension."""
        return tuple(max(0, -interval_of(form)[0]) for form in self.image.forms)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the image and the zeros around it."""
        reach = (interval_of(form)[1] + 1 for form in self.image.forms)
        sides = zip(self.before, self.image.tensor.shape, reach, strict=True)
        return tuple(before + max(extent, end) for before, extent, end in sides)


def _matched(op: Compute) -> _Match | None:
    reduce = op.reduce
    if reduce is None or not isinstance(reduce.sources[0], Select) or op.axes[-1].extent == 1:
        return None
    match sum_of_products(op, integers=True, tf32=True):
        case (Term(operands=(first, second)),):
            pairs = ((first, second), (second, first))
        case _:
            return None
    summed = {id(axis) for axis in reduce.axes}
    for image, filters in pairs:
        found = _Match(op, image)
        uses, turns = ({id(axis) for axis in factor.axes} for factor in (image, filters))
        if any(limit != (None, None) for limit in filters.limits) or not zero_outside(image):
            continue
        if found.shape == image.tensor.shape or image.tensor.op is filters.tensor.op:
            continue
        wide = any(axis.extent > 1 and id(axis) not in turns for axis in op.axes[:-1])
        if wide and summed <= uses and id(op.axes[-1]) not in uses:
            return found
    return None


def _unguarded(match: _Match, current: Callable[[Tensor], Tensor]) -> Compute:
    op, reduce, image = match.op, match.op.reduce, match.image.tensor
    assert reduce is not None

    def framed(*places: Expr) -> Expr:
        tests: list[Expr] = []
        inner: list[Expr] = []
        dims = zip(places, match.before, image.shape, match.shape, strict=True)
        for place, before, extent, whole in dims:
            inner.append(place - before if before else place)
            tests += [place >= before] * (before > 0)
            tests += [place < before + extent] * (whole > before + extent)
        return select(all_of(*tests), current(image)[tuple(inner)], 0)

    frame: Tensor = compute(match.shape, framed, f"{op.name}.framed")

    def leaf(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        if node.tensor.op is not image.op:
            return Load(current(node.tensor), node.indices)
        moved = zip(node.indices, match.before, strict=True)
        return Load(frame, tuple(index + before if before else index for index, before in moved))

    source = reduce.sources[0]
    assert isinstance(source, Select)
    body = Reduce(reduce.reducer, (rewrite(source.then, leaf),), reduce.axes)
    return replace(op, bodies=(body,))
