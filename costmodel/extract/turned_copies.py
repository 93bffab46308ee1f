"""What gathered elements cost: what is transposed is read a square of vectors at a time.

Where a serial loop next around the lanes walks along what is read, the code loads whole vectors
and turns them in registers (``codegen.llvm.turned_blocks``), with a few shuffles for each.  What is
computed of such elements reads a copy of them (``codegen.passes.turned_reads``).
"""

from __future__ import annotations

from typing import Final

from costmodel.extract.access import READ, Access
from costmodel.extract.analysis import Analysis
from costmodel.extract.quantity import Quantity, where
from costmodel.extract.statement import STRAIGHT_KINDS, LoopInfo
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import BufferLoad, LoopKind, Store

_GATHERED: Final = 2.0  # loads that take as long as an element of a gather
_TURNED: Final = 5.0  # for a vector of a square: its load, and four shuffles
_COPIED: Final = 7.0  # and for a copy in between its store and a load
_TRIPS: Final = 4  # from which on the loop is made of squares
_BYTES: Final = 4  # of the elements


def cost_of_gathered(analysis: Analysis, width: Quantity) -> Quantity:
    """Loads that take as long as one element whose neighbours in the vector lie elsewhere.

    Args:
        analysis: of the statement.
        width: lanes of a vector.
    """
    around, store = _next_around_lanes(analysis), analysis.main.store
    reads = [a for a in analysis.accesses if a.kind == READ and a.site is analysis.main]
    plain = store.reducer is None and len(store.targets) == 1 and all(map(_is_affine, reads))
    if around is None or not plain:
        return _GATHERED
    lanes, squares = analysis.loops[-1], around.extent >= _TRIPS
    for read in reads:
        apart = read.address_step(lanes)
        walked = (read.address_step(around) == 1.0) & (read.element_bytes == _BYTES)
        squares = squares & ((apart == 0.0) | (apart == 1.0) | walked)
    return where(squares, (_TURNED if _is_copy(store) else _COPIED) / width, _GATHERED)


def _next_around_lanes(analysis: Analysis) -> LoopInfo | None:
    """The serial loop that encloses the unrolled and vectorised ones."""
    for loop in reversed(analysis.loops):
        if loop.kind not in STRAIGHT_KINDS:
            return loop if loop.kind is LoopKind.SERIAL and not loop.reduce else None
    return None


def _is_affine(read: Access) -> bool:
    """Whether loops alone decide what is read."""
    return all(dim.bound is None for dim in read.dims)


def _is_copy(store: Store) -> bool:
    """Whether a statement stores what it reads."""
    (value,), target = store.values, store.targets[0]
    same = isinstance(value, BufferLoad) and value.buffer.dtype == target.dtype
    return same and size_of(target.dtype) == _BYTES
