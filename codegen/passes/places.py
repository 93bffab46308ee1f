"""Local arrays that lie in a part of another array, inside a nest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.passes.affine import Ranges, interval, loop_range
from codegen.passes.rewrite import Nodes, map_body, map_expr
from sketch.lang.expr import Expr
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Index,
    Loop,
    LoopKind,
    LoopVar,
    Node,
    Store,
)
from sketch.nest.walk import accesses

Around = tuple[Loop, ...]
Indices = Sequence[Index]


@dataclass(frozen=True, slots=True)
class PlaceInside:
    """Element j of ``kept`` lies at ``start + j`` of ``home``."""

    kept: Buffer
    home: Buffer
    start: tuple[Affine, ...]

    def indices(self, indices: Indices) -> tuple[Affine, ...]:
        """Where an element lies; all indices are affine."""
        pairs = zip(self.start, indices, strict=True)
        return tuple(start + index for start, index in pairs if isinstance(index, Affine))

    def holds(self, store: Store, around: Around) -> bool:
        """Whether all that a statement accesses of what is kept lies inside of ``home``.

        ``around``: all loops around the statement.
        """
        ranges = {loop.var: loop_range(loop) for loop in around}
        return all(
            all(isinstance(index, Affine) for index in indices)
            and all(
                _inside(form, int(extent), store, ranges)
                for form, extent in zip(self.indices(indices), self.home.shape, strict=True)
            )
            for buffer, indices in accesses(store)
            if buffer is self.kept
        )

    def nodes(self, nodes: Nodes) -> Nodes:
        """The same nodes, which find what is kept in ``home``."""
        return tuple(self._node(node) for node in nodes)

    def _node(self, node: Node) -> Node:
        if not isinstance(node, Store):
            return map_body(node, self.nodes)
        values = tuple(map_expr(value, self._leaf) for value in node.values)
        if self.kept not in node.targets:
            return replace(node, values=values)
        return replace(
            node, targets=(self.home,), indices=self.indices(node.indices), values=values
        )

    def _leaf(self, expr: Expr) -> Expr:
        if isinstance(expr, BufferLoad) and expr.buffer is self.kept:
            return BufferLoad(self.home, self.indices(expr.indices))
        return expr


def place_in(
    kept: Buffer, home: Buffer, pairs: Iterable[tuple[Indices, Indices]], inside: set[LoopVar]
) -> PlaceInside | None:
    """Where one array lies in another; None where that differs, or moves while it is used.

    Args:
        kept: the array.
        home: the other one.
        pairs: indices of elements, and of those of ``home`` that they are to lie at.
        inside: variables of the loops that the array is used in.
    """
    if home.dtype != kept.dtype or len(home.shape) != len(kept.shape):
        return None
    starts = set()
    for at, to in pairs:
        forms = [(a, b) for a, b in zip(at, to, strict=True) if _are_affine(a, b)]
        if len(forms) < len(kept.shape):
            return None
        starts.add(tuple(_difference(a, b) for a, b in forms))
    if len(starts) != 1:
        return None
    (start,) = starts
    moves = inside.intersection(var for form in start for var, _ in form.terms)
    return None if moves else PlaceInside(kept, home, start)


def once(indices: Indices, loops: Around) -> bool:
    """Whether a statement comes to an element but once: each loop around it moves on."""
    return all(
        loop.axis_kind == "spatial"
        and (
            int(loop.extent) == 1
            or any(isinstance(i, Affine) and i.coefficient(loop.var) for i in indices)
        )
        for loop in loops
    )


def walks(loops: Around) -> bool:
    """Whether elements are found at run time: registers have no addresses."""
    return any(loop.kind is LoopKind.SERIAL and int(loop.extent) > 1 for loop in loops)


def coefficients(form: Affine) -> Mapping[LoopVar, int]:
    """Those that are not 0, by variable."""
    return {var: c for var, c in form.terms if c}


def _inside(form: Affine, extent: int, store: Store, ranges: Ranges) -> bool:
    low, high = interval(form, ranges)
    for predicate in store.predicates:
        if coefficients(predicate.index) == coefficients(form):
            moved = form.const - predicate.index.const
            low = max(low, predicate.low + moved)
            high = min(high, predicate.high + moved - 1)
    return low >= 0 and high < extent


def _are_affine(*indices: Index) -> bool:
    return all(isinstance(index, Affine) for index in indices)


def _difference(at: Index, to: Index) -> Affine:
    assert isinstance(at, Affine) and isinstance(to, Affine)
    found = to + at.scale(-1)
    ordered = sorted(((v, c) for v, c in found.terms if c), key=lambda term: term[0].name)
    return Affine(tuple(ordered), found.const)
