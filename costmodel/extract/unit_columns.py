"""Features that only statements have which a tensor unit computes."""

from __future__ import annotations

from costmodel.extract.access import READ
from costmodel.extract.analysis import Analysis, product
from costmodel.extract.draft_terms import operations_per_cycle
from costmodel.extract.gpu_kernel import KernelShape
from costmodel.extract.operations import FLOPS, operation_counts
from costmodel.extract.quantity import Quantity, where
from costmodel.extract.registers import AccumulatorTile
from costmodel.extract.structure import is_branch
from costmodel.extract.tile_terms import in_memory, product_cycles
from costmodel.extract.warp_terms import unit_use

_MAC = FLOPS["mac"]


def unit_columns(
    analysis: Analysis, tile: AccumulatorTile, kernel: KernelShape | None
) -> dict[str, Quantity]:
    """Share of the work on a unit, the unit's rate, bytes of its operands and results.

    Args:
        analysis: of a statement.
        tile: of its accumulators.
        kernel: of a GPU, in which the statement is; None on CPUs.
    """
    if not analysis.uses_unit:
        return {}
    rate, loaded = _of_cpu(analysis) if kernel is None else _of_gpu(analysis, kernel)
    return {
        "unit_share": _share(analysis),
        "unit_rate": _MAC * rate,
        "unit_loaded_bytes": loaded,
        "unit_stored_bytes": _stored(analysis, tile),
    }


def _share(analysis: Analysis) -> Quantity:
    own: Quantity = _MAC * analysis.trips
    total = own
    for site in analysis.statement.sites:
        if site is not analysis.main:
            operations = sum(operation_counts(site.store).values())
            total = total + operations * product(site.loops)
    return own / total


def _of_cpu(analysis: Analysis) -> tuple[Quantity, Quantity]:
    """(multiply-adds a second of one core, bytes of operands that all threads load)."""
    target = analysis.target
    lanes = float(target.lanes(analysis.lane_bytes))
    macs = lanes * analysis.unit_terms
    if analysis.uses_tiles:
        rate = macs * analysis.unit_rows / product_cycles(analysis)
    else:
        rate = macs * operations_per_cycle(target)
    loaded: Quantity = 0.0
    for access in analysis.accesses:
        if access.site is analysis.main and access.kind == READ:
            # copies in straight-line code share what does not differ between them
            walked = (p for p in analysis.loops if access.uses(p.var) or is_branch(p))
            loaded = loaded + product(tuple(walked)) * access.element_bytes
    return rate * target.rates.hertz, loaded


def _of_gpu(analysis: Analysis, kernel: KernelShape) -> tuple[Quantity, Quantity]:
    """(multiply-adds a second of one processor, bytes of operands that all blocks load)."""
    use = unit_use(analysis, kernel)
    return use.rate * analysis.target.card.hertz, use.loaded * kernel.blocks


def _stored(analysis: Analysis, tile: AccumulatorTile) -> Quantity:
    """Bytes of results that leave registers, and of those that come back to be added to."""
    terms = analysis.unit_terms * tile.reduce_unroll * tile.chain
    once = analysis.trips / terms * analysis.accesses[0].element_bytes
    return once * where(in_memory(analysis), 2.0, 1.0)
