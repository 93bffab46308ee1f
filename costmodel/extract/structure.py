"""Features of loops, annotations, allocation, parallelism, packing and the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from costmodel.extract.analysis import Analysis, product
from costmodel.extract.operations import operation_counts
from costmodel.extract.quantity import (
    Quantity,
    ceil,
    larger,
    more_than_one,
    smaller,
    to_quantity,
    where,
)
from costmodel.extract.registers import INSTRUCTIONS, AccumulatorTile, latency_cover
from costmodel.extract.statement import (
    PARALLEL_KINDS,
    STRAIGHT_KINDS,
    UNROLLED_KINDS,
    VECTOR_KINDS,
    LoopInfo,
    StoreSite,
)
from costmodel.extract.validity import Validity
from costmodel.feature_table import OP_KINDS
from sketch.lang.dtypes import size_of
from sketch.nest.lanes import store_bytes
from sketch.nest.loopnest import Buffer, Scope
from sketch.target.target import Target

Columns = dict[str, Quantity]


def computation_columns(analysis: Analysis) -> Columns:
    """Operations by kind."""
    columns: Columns = {
        f"ops_{kind}": analysis.operations[kind] for kind in OP_KINDS if kind in analysis.operations
    }
    columns["flops"] = analysis.flops
    return columns


def annotation_columns(analysis: Analysis) -> Columns:
    """Vectorised, unrolled and parallel loops."""
    columns: Columns = {}
    kinds = {"vector": VECTOR_KINDS, "unroll": UNROLLED_KINDS, "parallel": PARALLEL_KINDS}
    for name, members in kinds.items():
        loops = tuple(loop for loop in analysis.loops if loop.kind in members)
        chosen = _is_kind(members)
        columns[f"{name}_loops"] = _number(loops)
        columns[f"{name}_product"] = product(loops)
        columns[f"{name}_innermost"] = analysis.extent_at(analysis.innermost(chosen))
        columns[f"{name}_reduce_product"] = product(tuple(p for p in loops if p.reduce))
    return columns


def _is_kind(members: tuple[object, ...]) -> Callable[[LoopInfo], bool]:
    return lambda loop: loop.kind in members


def _number(loops: tuple[LoopInfo, ...]) -> Quantity:
    total: Quantity = 0.0
    for loop in loops:
        total = total + more_than_one(loop.extent)
    return total


def is_branch(loop: LoopInfo) -> bool:
    """Whether a loop is executed as a loop (not vectorised, not unrolled)."""
    return loop.kind not in STRAIGHT_KINDS


def branches(analysis: Analysis) -> Quantity:
    """Iterations of all loops that are executed as loops."""
    total: Quantity = 0.0
    trips: Quantity = 1.0
    for loop in analysis.loops:
        trips = trips * loop.extent
        if is_branch(loop):
            total = total + trips * more_than_one(loop.extent)
    return total


def structure_columns(analysis: Analysis) -> Columns:
    """Trips and numbers of loops."""
    reduces = tuple(loop for loop in analysis.loops if loop.reduce)
    serial = analysis.innermost(lambda loop: loop.reduce and is_branch(loop))
    return {
        "trips": analysis.trips,
        "loops": _number(analysis.loops),
        "reduce_loops": _number(reduces),
        "innermost_reduce_trips": analysis.extent_at(serial),
        "reduce_trips": product(reduces),
        "branches": branches(analysis),
        "innermost_branch_trips": analysis.extent_at(analysis.innermost(is_branch)),
    }


def allocation_columns(analysis: Analysis) -> Columns:
    """Size of the written buffer, and how often it is allocated."""
    buffer = analysis.accesses[0].buffer
    depth = analysis.main.allocation_depth(buffer)
    size = to_quantity(buffer.size) * size_of(buffer.dtype)
    outer = product(analysis.loops[:depth])
    return {
        "alloc_bytes": size,
        "alloc_total_bytes": size * outer,
        "alloc_outer_trips": outer,
        "alloc_inner_trips": analysis.trips / outer,
    }


def register_columns(analysis: Analysis, tile: AccumulatorTile) -> Columns:
    """The register tile against the registers there are."""
    registers = float(analysis.target.registers)
    return {
        "chain_trips": tile.chain,
        "tile_rows": tile.rows,
        "tile_vectors": tile.vectors,
        "tile_accumulators": tile.accumulators,
        "tile_registers": tile.registers,
        "register_pressure": tile.registers / registers,
        "register_spill": larger(tile.registers - registers, 0.0),
        "latency_cover": latency_cover(tile, analysis.target.fma_accumulators),
        "vector_loads": tile.vector_loads,
        "broadcast_loads": tile.broadcast_loads,
        "gathered_loads": tile.gathered_loads,
        "loads_per_op": tile.loads / larger(tile.operations, 1.0),
        "lane_use": tile.lane_use,
        "step_operations": tile.operations,
    }


def tasks_of(analysis: Analysis) -> Quantity:
    """Parallel tasks."""
    return product(tuple(loop for loop in analysis.loops if loop.kind in PARALLEL_KINDS))


def busiest(analysis: Analysis) -> Quantity:
    """Tasks of the busiest thread."""
    return ceil(tasks_of(analysis) / float(analysis.target.threads))


def busiest_share(analysis: Analysis, checks: Validity) -> Quantity:
    """Share of the work that the busiest thread does.

    Where tiles do not divide the axes the last ones are smaller, so a thread that gets full tiles
    only does more than its number of tasks says.
    """
    full_tiles = busiest(analysis) / (tasks_of(analysis) * larger(checks.tail_executed, 1e-6))
    return smaller(full_tiles, 1.0)


def parallel_columns(analysis: Analysis, checks: Validity) -> Columns:
    """How the work spreads over the threads."""
    tasks, threads = tasks_of(analysis), float(analysis.target.threads)
    return {
        "tasks": tasks,
        "tasks_per_thread": tasks / threads,
        "imbalance": busiest_share(analysis, checks) * threads,
        "task_flops": analysis.flops / tasks,
        "idle_threads": larger(threads - tasks, 0.0),
    }


def specialized_fill(analysis: Analysis, tile: AccumulatorTile, checks: Validity) -> Quantity:
    """Statements in straight-line code with all edges specialised / instruction budget.

    Beyond one, code generation leaves predicates in the inner loops.
    """
    instances = tile.accumulators * tile.reduce_unroll
    return instances * checks.growth / analysis.target.instruction_budget


def instructions(analysis: Analysis, tile: AccumulatorTile, checks: Validity) -> Quantity:
    """Vector instructions of straight-line code: all sites, and the copies that fit the budget."""
    step = tile.operations + tile.loads
    unrolled = product(tuple(p for p in analysis.loops if p.kind in UNROLLED_KINDS))
    tile_unrolled = (
        tile.accumulators
        * tile.reduce_unroll
        / ceil(tile.width / float(analysis.target.lanes(analysis.lane_bytes)))
    )
    used = float(analysis.target.instruction_budget) * analysis.target.code.budget_used
    copied = step * (unrolled / tile_unrolled)
    # Inside, the reduction is unrolled; at edges the taps of the padding are, and nothing else.
    tails = tile.reduce_unroll * checks.reduce_growth
    total = copied * (tails + larger(checks.growth - 1.0, 0.0))
    # Copies are made while they fit the budget; it is rarely used up to the last instruction.
    total = smaller(total, larger(copied * tile.reduce_unroll, used))
    for site in analysis.statement.sites:
        if site is not analysis.main:
            total = total + _straight_line(site, analysis)
    return total


def _straight_line(site: StoreSite, analysis: Analysis) -> Quantity:
    lanes = float(analysis.target.lanes(store_bytes(site.store)))
    copies = product(tuple(p for p in site.loops if p.kind in UNROLLED_KINDS))
    width = product(tuple(p for p in site.loops if p.kind in VECTOR_KINDS))
    counts = operation_counts(site.store).items()
    each = sum(INSTRUCTIONS.get(kind, 1.0) * number for kind, number in counts)
    return copies * ceil(width / lanes) * (each + 1.0)


def validity_columns(analysis: Analysis, tile: AccumulatorTile, checks: Validity) -> Columns:
    """Predicates and the size of the code."""
    total = instructions(analysis, tile, checks)
    return {
        "tail_valid": checks.tail_valid,
        "tail_executed": checks.tail_executed,
        "padding_valid": checks.padding_valid,
        "guards": checks.guards,
        "copies": checks.copies,
        "specialized_fill": specialized_fill(analysis, tile, checks),
        "instructions": total,
        "instruction_fill": total / analysis.target.instruction_budget,
        "compile_seconds": total * analysis.target.code.instruction_seconds,
    }


def packing_columns(analysis: Analysis, originals: Mapping[int, int]) -> Columns:
    """Constants of the statement.

    ``originals``: elements of each placeholder before packing, by the id of its buffer.
    """
    stored: Quantity = 0.0
    waste: Quantity = 1.0
    packed: Quantity = 0.0
    prefetched: Quantity = 0.0
    for access in analysis.accesses:
        buffer = access.buffer
        if buffer.scope is not Scope.CONSTANT:
            continue
        size = to_quantity(buffer.size)
        stored = stored + size * access.element_bytes
        original = originals.get(id(buffer))
        waste = waste if original is None else waste * (size / original)
        packed = packed + _is_packed(buffer)
        ahead = where(to_quantity(buffer.ahead) > 0.0, 1.0, 0.0)
        prefetched = prefetched + size * access.element_bytes * ahead
    return {
        "constant_bytes": stored,
        "packed_constants": packed,
        "prefetched_bytes": prefetched,
        "packing_waste": waste,
    }


def _is_packed(buffer: Buffer) -> Quantity:
    widest: Quantity = 1.0
    for step in buffer.steps:
        widest = larger(widest, to_quantity(step))
    return more_than_one(widest)


def hardware_columns(target: Target) -> Columns:
    """The machine."""
    return {
        "hw_threads": float(target.threads),
        "hw_lanes": float(target.lanes()),
        "hw_registers": float(target.registers),
        "hw_l1_bytes": float(target.l1_bytes),
        "hw_l2_bytes": float(target.l2_bytes),
        "hw_l3_bytes": float(target.l3_bytes),
    }
