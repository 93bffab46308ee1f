"""What binds a program: the draft model's terms, side by side and none of them overlapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from costmodel.extract.analysis import Analysis, analyse
from costmodel.extract.assemble import kernels_of
from costmodel.extract.draft_terms import BoundTerms, bound_terms
from costmodel.extract.gpu_terms import gpu_bound_terms
from costmodel.extract.locality import cache_traffic
from costmodel.extract.quantity import Quantity
from costmodel.extract.registers import accumulator_tile, latency_cover
from costmodel.extract.statement import statements_of
from costmodel.extract.validity import validity
from sketch.nest.loopnest import LoopNest
from sketch.target.target import Target

TERM_NAMES: Final = ("compute", "L2", "memory", "latency")


@dataclass(frozen=True, slots=True)
class ProgramTerms:
    """Seconds of a program by the draft model, on all threads.

    Attributes:
        compute: arithmetic, and what feeds it from the first cache.
        near: between the second cache and the cores; on a GPU shared memory, too.
        far: of what all cores share.
        waits: for loops, threads, barriers and launches.
        uncovered: the part of ``compute`` of statements that have too few independent results to
            hide the latency of one multiply-add behind others.
    """

    compute: float
    near: float
    far: float
    waits: float
    uncovered: float

    def by_name(self) -> dict[str, float]:
        """Seconds by ``TERM_NAMES``; arithmetic that waits for its own results is latency."""
        parts = (self.compute - self.uncovered, self.near, self.far, self.waits + self.uncovered)
        return dict(zip(TERM_NAMES, parts, strict=True))


def program_terms(nest: LoopNest, target: Target) -> ProgramTerms:
    """The terms of one program, its statements together.

    Args:
        nest: lowered from ints.
        target: the machine.
    """
    kernels = kernels_of(nest, target)
    totals = np.zeros(5)
    for statement in statements_of(nest):
        analysis = analyse(statement, np.arange(1), target)
        kernel = kernels.get(statement.stage)
        if kernel is not None:
            terms, covered = gpu_bound_terms(analysis, kernel), True
        else:
            terms, covered = _on_cpu(analysis)
        parts = [_number(part) for part in (terms.compute, terms.near, terms.far, terms.waits)]
        totals += [*parts, 0.0 if covered else parts[0]]
    return ProgramTerms(*totals.tolist())


def _on_cpu(analysis: Analysis) -> tuple[BoundTerms, bool]:
    """The terms of a statement, and whether other results hide the latency of each."""
    tile, checks = accumulator_tile(analysis), validity(analysis.main)
    traffic = cache_traffic(analysis, checks.tail_executed)
    cover = latency_cover(tile, analysis.target.fma_accumulators)
    reduces = analysis.main.store.reducer is not None
    return bound_terms(analysis, tile, checks, traffic), not reduces or _number(cover) >= 1.0


def _number(value: Quantity) -> float:
    return float(np.asarray(value).reshape(-1)[0])
