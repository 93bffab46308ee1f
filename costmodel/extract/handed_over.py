"""Cache lines that threads hand to each other from one kernel of a network to the next.

Threads share out the rows of a result, in order, as long as nothing speaks against it: the first
thread has the first rows in its caches, as it has written them or is the one that read them last.
What a thread reads or writes of other rows comes from the cache of another core.
"""

from __future__ import annotations

from dataclasses import replace

from costmodel.extract.access import Access, span, touched_lines
from costmodel.extract.analysis import Analysis
from costmodel.extract.locality import capacities
from costmodel.extract.quantity import Quantity, larger, smaller, to_quantity
from costmodel.extract.statement import PARALLEL_KINDS, LoopInfo
from sketch.nest.loopnest import Scope

_PASSED_ON = (Scope.INPUT, Scope.OUTPUT, Scope.WORKSPACE)


def lines_handed_over(analysis: Analysis) -> Quantity:
    """Cache lines that all threads together touch of what is another thread's."""
    target = analysis.target
    total: Quantity = 0.0
    if target.threads == 1:
        return total
    threads = float(target.threads)
    for access in analysis.accesses:
        if access.buffer.scope in _PASSED_ON:
            loops = loops_of_thread(access.site.loops, threads)
            rows = _rows(access, loops) * threads
            foreign = 1.0 - 1.0 / larger(rows, 1.0)
            lines = touched_lines(access, loops, target.cache_line_bytes)
            total = total + threads * lines * foreign
    # The second caches of all cores hold this share of it; the rest has left them meanwhile.
    room = capacities(target)["l2"] * threads
    return total * smaller(room / analysis.working_set[0], 1.0)


def loops_of_thread(loops: tuple[LoopInfo, ...], threads: float) -> tuple[LoopInfo, ...]:
    """The loops as one thread sees them, which has neighbouring tasks: outer parallel loops have
    fewer trips.
    """
    found: list[LoopInfo] = []
    around: Quantity = 1.0
    for loop in loops:
        if loop.kind in PARALLEL_KINDS:
            mine = larger(smaller(loop.extent * around / threads, loop.extent), 1.0)
            around = around * loop.extent
            found.append(replace(loop, extent=mine, reach=(mine - 1.0) * loop.stride))
        else:
            found.append(loop)
    return tuple(found)


def _rows(access: Access, loops: tuple[LoopInfo, ...]) -> Quantity:
    """Share of the rows of a buffer that is touched: of its first dimension that has several."""
    for number, extent in enumerate(access.buffer.shape):
        if not isinstance(extent, int) or extent > 1:
            return span(access, number, loops) / to_quantity(extent)
    return 1.0
