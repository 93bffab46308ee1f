"""Memory accesses of a statement and their footprints, in closed form.

The footprint at *level* l of a site with n loops is what the loops ``l, l+1, ..., n-1`` touch while
those outside stand still; level n is a single execution.
"""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.extract.quantity import Quantity, larger, power_of_two, smaller, to_quantity, where
from costmodel.extract.quasi import Part, parts_of
from costmodel.extract.statement import LoopInfo, Statement, StoreSite
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Affine, Buffer, Index, LoopVar, Quasi, Scope

READ, WRITE, READ_WRITE = 1.0, 2.0, 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Dim:
    """One dimension of an access: ``sum(|coefficient| * variable)``, moved by a few offsets.

    Attributes:
        terms: coefficients by variable.
        spread: largest minus smallest constant offset (a stencil reads several).
        bound: number of values a non-affine index may take, else None.
        parts: of a non-affine index.
    """

    terms: dict[LoopVar, int]
    spread: int
    bound: int | None
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """All uses of one buffer with the same index form in one site."""

    buffer: Buffer
    site: StoreSite
    kind: float
    dims: tuple[Dim, ...]

    @property
    def element_bytes(self) -> int:
        """Size of an element."""
        return size_of(self.buffer.dtype)

    def uses(self, var: LoopVar) -> bool:
        """Whether the index depends on a loop variable."""
        return any(var in dim.terms for dim in self.dims)

    @property
    def in_rows(self) -> bool:
        """Whether vectors are parts of rows: neighbours in memory, along the last dimension."""
        strides = self.buffer.strides
        if not strides or not (isinstance(strides[-1], int) and strides[-1] == 1):
            return False
        return any(var in self.dims[-1].terms for var in self.site.vectors)

    def address_step(self, loop: LoopInfo) -> Quantity:
        """Elements the address moves by in a trip of ``loop`` (0: it does not move)."""
        total: Quantity = 0.0
        for dim, stride in zip(self.dims, self.buffer.strides, strict=True):
            coefficient = dim.terms.get(loop.var, 0)
            if coefficient:
                total = total + coefficient * to_quantity(stride) * loop.stride
        return total


def accesses_of(statement: Statement) -> tuple[Access, ...]:
    """Accesses, the written buffer first, then vectorised reads, then the other sites'.

    The order is structural, so that a slot means the same in all programs of a sketch.
    """
    main = _site_accesses(statement.main)
    seen = {id(access.buffer) for access in main}
    others: list[Access] = []
    for site in statement.sites:
        for access in () if site is statement.main else _site_accesses(site):
            if id(access.buffer) not in seen:
                seen.add(id(access.buffer))
                others.append(access)
    return (*main, *others)


def _site_accesses(site: StoreSite) -> list[Access]:
    store = site.store
    grouped: dict[tuple[object, ...], list[tuple[Index, ...]]] = {}
    buffers: dict[tuple[object, ...], Buffer] = {}
    for load in site.loads():
        key = (id(load.buffer), *(_form_key(index) for index in load.indices))
        grouped.setdefault(key, []).append(load.indices)
        buffers[key] = load.buffer
    kind = READ_WRITE if store.reducer is not None else WRITE
    written = [Access(b, site, kind, _dims([store.indices])) for b in store.targets]
    targets = {id(buffer) for buffer in store.targets}
    reads = [
        Access(buffers[key], site, READ, _dims(indices))
        for key, indices in grouped.items()
        if id(buffers[key]) not in targets
    ]
    reads.sort(key=lambda access: not any(access.uses(var) for var in site.vectors))
    return [*written, *reads]


def _form_key(index: Index) -> object:
    if isinstance(index, Quasi):
        return id(index)
    return tuple(sorted((id(var), coefficient) for var, coefficient in index.terms))


def _dims(indices: list[tuple[Index, ...]]) -> tuple[Dim, ...]:
    return tuple(_dim([index[d] for index in indices]) for d in range(len(indices[0])))


def _dim(forms: list[Index]) -> Dim:
    first = forms[0]
    if isinstance(first, Quasi):
        # All forms move alike: they differ by constants, which the bound covers.
        parts = parts_of(first.expr)
        terms = {var: 1 for part in parts for var, _ in part.terms}
        # where no value is inside the buffer, as beside a short image, the read never happens
        return Dim(terms, 0, max(1, first.high - first.low + 1), parts)
    consts = [form.const for form in forms if isinstance(form, Affine)]
    return Dim(dict(first.terms), max(consts) - min(consts), None)


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """What an access touches at each level: ``elements[l]`` and ``lines[l]``, level 0 first."""

    elements: list[Quantity]
    lines: list[Quantity]


class _Range:
    """Distinct values of one dimension, growing loop by loop from the innermost outwards."""

    def __init__(self, dim: Dim, extent: Quantity, step: Quantity) -> None:
        self._dim, self._extent, self._step = dim, extent / step, step
        self._span: Quantity = 0.0
        self._points: Quantity = 1.0 + dim.spread
        self._reaches: list[Quantity] = [0.0] * len(dim.parts)
        self.values: Quantity = 1.0
        self.values = self._clip()

    def walk(self, loops: tuple[LoopInfo, ...]) -> None:
        """Put loops around, outermost first."""
        for loop in reversed(loops):
            self.extend(loop)

    def extend(self, loop: LoopInfo) -> bool:
        """Put a loop around; False when the dimension does not depend on it."""
        coefficient = self._dim.terms.get(loop.var)
        if coefficient is None:
            return False
        self._span = self._span + abs(coefficient) * loop.reach
        self._points = self._points * loop.extent
        for n, part in enumerate(self._dim.parts):
            for var, factor in part.terms:
                if var is loop.var:
                    self._reaches[n] = self._reaches[n] + abs(factor) * loop.reach
        self.values = self._clip()
        return True

    def _clip(self) -> Quantity:
        if self._dim.bound is not None:
            return smaller(self._counted_parts(), smaller(float(self._dim.bound), self._extent))
        span: Quantity = self._span + self._dim.spread
        if not (isinstance(self._step, float) and self._step == 1.0):
            span = span / self._step
        # The span overcounts strided walks, the number of points overlapping ones.
        return smaller(smaller(span + 1.0, self._points), self._extent)

    def _counted_parts(self) -> Quantity:
        """Values of an index that is not affine: its parts move independently, at most."""
        total = self._points
        values: Quantity = 1.0
        for part, reach in zip(self._dim.parts, self._reaches, strict=True):
            count: Quantity = reach / float(part.divisor) + 1.0
            values = values * (count if part.most is None else smaller(count, float(part.most)))
        return smaller(total, values)


def footprint(access: Access, loops: tuple[LoopInfo, ...], line_bytes: int) -> Footprint:
    """Footprints of an access over ``loops`` (the loops of its own site), levels 0 to n."""
    ranges = _ranges(access)
    elements, lines = [_product(ranges)], [_lines(ranges, access, line_bytes)]
    for loop in reversed(loops):
        # No short cut: every dimension has to see the loop.
        if any([dim.extend(loop) for dim in ranges]):
            elements.append(_product(ranges))
            lines.append(_lines(ranges, access, line_bytes))
        else:
            elements.append(elements[-1])
            lines.append(lines[-1])
    return Footprint(elements[::-1], lines[::-1])


def shares_of_sets(
    access: Access, loops: tuple[LoopInfo, ...], line_bytes: int, page_bytes: float
) -> list[Quantity]:
    """In how large a part of all sets of a cache the lines of an access lie, levels 0 to n.

    Sets are given by the place in a page.  Rows that are whole pages apart, as those of a matrix of
    1024 columns, are at the same place, so that few of their parts fit.

    Args:
        access: of a buffer whose last dimension is contiguous.
        loops: those of its own site.
        line_bytes: of a cache.
        page_bytes: a power of two.
    """
    ranges = _ranges(access)
    shares = [_share_of_page(ranges, access, line_bytes, page_bytes)]
    for loop in reversed(loops):
        moved = any([dim.extend(loop) for dim in ranges])
        shares.append(
            _share_of_page(ranges, access, line_bytes, page_bytes) if moved else shares[-1]
        )
    return shares[::-1]


def _share_of_page(
    ranges: list[_Range], access: Access, line_bytes: int, page_bytes: float
) -> Quantity:
    """Of the bytes of a page: those of a row, times the places at which rows begin."""
    covered = larger(ranges[-1].values * access.element_bytes, float(line_bytes))
    for dim, stride in zip(ranges[:-1], access.buffer.strides, strict=False):
        step = to_quantity(stride) * access.element_bytes
        covered = covered * smaller(dim.values, page_bytes / power_of_two(step, page_bytes))
    return smaller(covered / page_bytes, 1.0)


def touched_lines(access: Access, loops: tuple[LoopInfo, ...], line_bytes: int) -> Quantity:
    """Cache lines that an access touches in ``loops``, all those of its own site."""
    ranges = _ranges(access)
    for dim in ranges:
        dim.walk(loops)
    return _lines(ranges, access, line_bytes)


def span(access: Access, number: int, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Values of one dimension of an access in ``loops``, all those of its own site."""
    extent, step = access.buffer.shape[number], access.buffer.steps[number]
    dim = _Range(access.dims[number], to_quantity(extent), to_quantity(step))
    dim.walk(loops)
    return dim.values


def _ranges(access: Access) -> list[_Range]:
    buffer = access.buffer
    return [
        _Range(dim, to_quantity(extent), to_quantity(step))
        for dim, extent, step in zip(access.dims, buffer.shape, buffer.steps, strict=True)
    ]


def _product(ranges: list[_Range]) -> Quantity:
    total: Quantity = 1.0
    for dim in ranges:
        total = total * dim.values
    return total


def _lines(ranges: list[_Range], access: Access, line_bytes: int) -> Quantity:
    """Lines: one per contiguous run of the innermost dimension, or its bytes / line size."""
    if not ranges:
        return 1.0
    strides = access.buffer.strides
    per_line = line_bytes / access.element_bytes
    if isinstance(strides[-1], int) and strides[-1] != 1:
        return _product(ranges)
    run, outer = ranges[-1].values, _product(ranges[:-1])
    inner = to_quantity(access.buffer.shape[-1])
    if len(ranges) > 1 and not (isinstance(inner, float) and inner >= per_line):
        # A short innermost dimension that is read in full continues into the one before it.
        full = (run >= inner) & (inner < per_line)
        before = ranges[-2].values
        outer = where(full, outer / before, outer)
        run = where(full, run * before, run)
    return outer * larger(1.0, run / per_line)


def at_main_levels(access: Access, own: Footprint, loops: tuple[LoopInfo, ...]) -> Footprint:
    """The footprint of another site's access, expressed at the levels of the main site's ``loops``.

    Inside the loops that both share it is spread evenly over the main site's trips.
    """
    shared = 0
    for mine, main in zip(access.site.loops, loops, strict=False):
        if mine is not main:
            break
        shared += 1
    elements, lines = own.elements[: shared + 1], own.lines[: shared + 1]
    for loop in loops[shared:]:
        elements.append(elements[-1] / loop.extent)
        lines.append(lines[-1] / loop.extent)
    return Footprint(elements, lines)


SCOPE_CODE = {
    Scope.INPUT: 1.0, Scope.OUTPUT: 1.0, Scope.CONSTANT: 2.0, Scope.WORKSPACE: 3.0,
    Scope.LOCAL: 4.0, Scope.SHARED: 4.0,
}  # fmt: skip
