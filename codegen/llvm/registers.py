"""Which private buffers live in registers: every access known at compile time."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from codegen.passes.affine import flatten
from codegen.passes.rewrite import Nodes, is_dynamic
from sketch.nest.loopnest import Affine, Buffer, Loop, LoopKind, LoopVar, Node, Store
from sketch.nest.walk import accesses, bodies, stores


def register_cells(
    buffer: Buffer, body: Nodes, static: dict[LoopVar, int], limit: int
) -> dict[int, int] | None:
    """Flat offsets of the buffer's cells and their lanes (0: a scalar), or None.

    A buffer is kept in registers when all its indices are affine in unrolled, vectorised and
    ``static`` variables, lanes are contiguous, cells do not overlap, and are not too many; what
    goes to tile registers and comes from there is in memory.

    Args:
        buffer: candidate for registers.
        body: all that accesses it.
        static: variables with one known value.
        limit: most cells.
    """
    places: set[_Place] = set()  # most copies of a statement have the same cells
    for store, loops in stores(body):
        for target, indices in accesses(store):
            if target is not buffer:
                continue
            form, quasi = flatten(buffer, indices)
            place = None if quasi else _place_of(form, loops, static)
            if place is None:
                return None
            places.add(place)
    cells: dict[int, int] = {}
    for base, lanes, steps in places:
        for parts in product(*steps):
            if cells.setdefault(base + sum(parts), lanes) != lanes or len(cells) > limit:
                return None
    return dict(sorted(cells.items())) if _disjoint(cells) else None


_Place = tuple[int, int, tuple[range, ...]]
"""Cells of an access: the first one, lanes of each, and steps between them."""


def _place_of(form: Affine, loops: tuple[Loop, ...], static: dict[LoopVar, int]) -> _Place | None:
    """None where it is not known at compile time."""
    known = {loop.var: loop for loop in loops}
    base, lanes = form.const, 0
    steps: list[range] = []
    for var, coefficient in form.terms:
        if var in static:
            base += coefficient * static[var]
            continue
        loop = known.get(var)
        if loop is None or is_dynamic(loop) or loop.kind is LoopKind.TENSOR:
            return None
        step = coefficient * int(loop.stride)
        if loop.kind is LoopKind.VECTORIZED:
            if step != 1:
                return None
            lanes = int(loop.extent)
        else:
            steps.append(range(0, step * int(loop.extent), step))
    return base, lanes, tuple(steps)


def _disjoint(cells: dict[int, int]) -> bool:
    end = None
    for offset in sorted(cells):
        if end is not None and offset < end:
            return False
        end = offset + max(1, cells[offset])
    return True


def written_buffers(body: Nodes) -> frozenset[Buffer]:
    """Buffers that ``body`` stores to."""
    return frozenset[Buffer]().union(*[_written(node) for node in body])


@lru_cache(maxsize=1024)  # of every loop, and so of what is inside again
def _written(node: Node) -> frozenset[Buffer]:
    if isinstance(node, Store):
        return frozenset(node.targets)
    return frozenset[Buffer]().union(*[written_buffers(body) for body in bodies(node)])
