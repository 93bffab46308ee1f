"""Cache lines that several threads write: they go from core to core with every store.

Bytes make that happen: the 64 channels of a pixel are one line, and threads that have half of them
each write it in turns.
"""

from __future__ import annotations

from costmodel.extract.analysis import Analysis
from costmodel.extract.quantity import Quantity, larger, where
from costmodel.extract.statement import PARALLEL_KINDS
from sketch.nest.loopnest import Scope

_PRIVATE = (Scope.LOCAL, Scope.SHARED)


def stores_to_shared_lines(analysis: Analysis) -> Quantity:
    """Runs of neighbouring elements that a statement stores to lines which another thread writes
    too; neighbouring tasks are of one thread where loops around have enough trips for all threads.
    """
    written, target = analysis.accesses[0], analysis.target
    total: Quantity = 0.0
    if target.threads == 1 or written.buffer.scope in _PRIVATE:
        return total
    around: Quantity = 1.0
    stored: Quantity = written.element_bytes
    for loop in analysis.loops:
        stored = stored * (1.0 if loop.reduce else loop.extent)
    for loop in analysis.loops:
        if loop.kind in PARALLEL_KINDS:
            step = written.address_step(loop) * written.element_bytes
            within = (step > 0.0) & (step < float(target.cache_line_bytes))
            apart = (around < float(target.threads)) & (loop.extent > 1.0)
            total = larger(total, where(within & apart, stored / larger(step, 1.0), 0.0))
            around = around * loop.extent
    return total
