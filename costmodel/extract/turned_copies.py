"""What gathered elements cost: copies that turn an array are made a square of vectors at a time.

Where a serial loop next around the lanes walks along what is read, the code loads whole vectors
and turns them in registers (``codegen.llvm.turned_blocks``), with a few shuffles for each.
"""

from __future__ import annotations

from typing import Final

from costmodel.extract.access import READ
from costmodel.extract.analysis import Analysis
from costmodel.extract.quantity import Quantity, where
from costmodel.extract.statement import STRAIGHT_KINDS, LoopInfo
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import BufferLoad, LoopKind

_GATHERED: Final = 2.0  # loads that take as long as an element of a gather
_TURNED: Final = 5.0  # for a vector of a square: its load, and four shuffles
_TRIPS: Final = 4  # from which on the loop is made of squares
_BYTES: Final = 4  # of the elements


def cost_of_gathered(analysis: Analysis, width: Quantity) -> Quantity:
    """Loads that take as long as one element whose neighbours in the vector lie elsewhere.

    Args:
        analysis: of the statement.
        width: lanes of a vector.
    """
    around = _next_around_lanes(analysis)
    reads = [a for a in analysis.accesses if a.kind == READ and a.site is analysis.main]
    if around is None or len(reads) > 1 or not _is_copy(analysis):
        return _GATHERED
    squares = (around.extent >= _TRIPS) & (reads[0].address_step(around) == 1.0)
    return where(squares, _TURNED / width, _GATHERED)


def _next_around_lanes(analysis: Analysis) -> LoopInfo | None:
    """The serial loop that encloses the unrolled and vectorised ones."""
    for loop in reversed(analysis.loops):
        if loop.kind not in STRAIGHT_KINDS:
            return loop if loop.kind is LoopKind.SERIAL and not loop.reduce else None
    return None


def _is_copy(analysis: Analysis) -> bool:
    """Whether the statement stores what it reads."""
    store = analysis.main.store
    if store.reducer is not None or len(store.targets) > 1:
        return False
    (value,), target = store.values, store.targets[0]
    same = isinstance(value, BufferLoad) and value.buffer.dtype == target.dtype
    return same and size_of(target.dtype) == _BYTES
