"""The features of a statement: one table that gives the width, names, units and docs.

A *statement* is a stage that has a nest of its own; its row is what a learned model sees.  Values
are in natural units (no logarithms): trees do not care, and models that do take
``signed_log`` of ``costmodel.sklearn_model``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Feature:
    """One column.

    Attributes:
        name: unique, ``snake_case``.
        unit: "B", "lines", "ops", "trips", "ops/B", "ops/s", "s", "1" (a ratio or a count),
            "code" (a category).
        group: the family that computes it.
        doc: what it means.
    """

    name: str
    unit: str
    group: str
    doc: str


BUFFER_SLOTS: Final = 5
CURVE_POINTS: Final = 10
OP_KINDS: Final = (
    "mac", "float_add", "float_mul", "float_div", "float_minmax", "float_compare", "float_math",
    "float_other", "int", "bool", "select",
)  # fmt: skip
CACHES: Final = ("l1", "l2", "l3")


def _group(group: str, *rows: tuple[str, str, str]) -> tuple[Feature, ...]:
    return tuple(Feature(name, unit, group, doc) for name, unit, doc in rows)


_COMPUTATION: Final = (
    *(
        Feature(f"ops_{kind}", "ops", "computation", f"{kind} operations, all trips")
        for kind in OP_KINDS
    ),
    Feature("flops", "ops", "computation", "floating-point operations; a mac counts two"),
)
_ANNOTATION: Final = tuple(
    feature
    for kind in ("vector", "unroll", "parallel")
    for feature in _group(
        "annotation",
        (f"{kind}_loops", "1", f"{kind} loops of more than one trip"),
        (f"{kind}_product", "trips", f"product of the extents of the {kind} loops"),
        (f"{kind}_innermost", "trips", f"extent of the innermost {kind} loop"),
        (f"{kind}_reduce_product", "trips", f"the part of {kind}_product on reduce axes"),
    )
)
_ACCESS: Final = tuple(
    feature
    for slot in range(BUFFER_SLOTS)
    for feature in _group(
        f"buffer{slot}",
        (f"buffer{slot}_kind", "code", "0 none, 1 read, 2 write, 3 read and write"),
        (f"buffer{slot}_scope", "code", "0 none, 1 argument, 2 constant, 3 workspace, 4 private"),
        (f"buffer{slot}_bytes", "B", "bytes accessed, counting every trip"),
        (f"buffer{slot}_unique_bytes", "B", "bytes touched at least once"),
        (f"buffer{slot}_lines", "lines", "cache lines accessed, counting repeated visits"),
        (f"buffer{slot}_unique_lines", "lines", "cache lines touched at least once"),
        (f"buffer{slot}_reuse_kind", "code", "0 none, 1 by a loop, 2 by another statement"),
        (f"buffer{slot}_reuse_iterations", "trips", "trips between two uses of an element"),
        (f"buffer{slot}_reuse_bytes", "B", "bytes touched between two uses"),
        (f"buffer{slot}_reuse_count", "1", "uses by the innermost reusing loop (or statements)"),
        (f"buffer{slot}_bytes_per_reuse", "B", "bytes / reuse_count (x 2 without reuse)"),
        (f"buffer{slot}_unique_bytes_per_reuse", "B", "unique_bytes / reuse_count"),
        (f"buffer{slot}_lines_per_reuse", "lines", "lines / reuse_count"),
        (f"buffer{slot}_unique_lines_per_reuse", "lines", "unique_lines / reuse_count"),
        (
            f"buffer{slot}_stride",
            "1",
            "elements the address moves by in a trip of the innermost loop",
        ),
        (f"buffer{slot}_task_bytes", "B", "bytes one parallel task touches"),
        (f"buffer{slot}_tile_bytes", "B", "bytes touched inside the outermost reduce loop"),
        *(
            (f"buffer{slot}_{cache}_bytes", "B", f"bytes moved into {cache.upper()}, whole program")
            for cache in CACHES
        ),
    )
)
_LOCALITY: Final = (
    *(
        Feature(
            f"intensity{i}",
            "ops/B",
            "intensity",
            f"operations per byte touched in the inner loops that do ops^({i + 1}/"
            f"{CURVE_POINTS}) operations",
        )
        for i in range(CURVE_POINTS)
    ),
    *(
        feature
        for cache in CACHES
        for feature in _group(
            "locality",
            (f"{cache}_bytes", "B", f"bytes moved into {cache.upper()} by all buffers"),
            (f"{cache}_intensity", "ops/B", f"operations per byte moved into {cache.upper()}"),
            (
                f"{cache}_step_fill",
                "1",
                f"working set of one trip of the outermost reduce loop / {cache.upper()}",
            ),
            (
                f"{cache}_tile_fill",
                "1",
                f"working set of the outermost reduce loop / {cache.upper()}",
            ),
            (f"{cache}_task_fill", "1", f"working set of a parallel task / {cache.upper()}"),
        )
    ),
    Feature("total_bytes", "B", "locality", "bytes touched at least once, all buffers"),
)
_ALLOCATION: Final = _group(
    "allocation",
    ("alloc_bytes", "B", "size of the written buffer"),
    ("alloc_total_bytes", "B", "size times the trips around its allocation"),
    ("alloc_outer_trips", "trips", "trips of the loops around the allocation"),
    ("alloc_inner_trips", "trips", "trips of the statement per allocation"),
)
_STRUCTURE: Final = _group(
    "structure",
    ("trips", "trips", "executions of the innermost statement"),
    ("loops", "1", "loops of more than one trip"),
    ("reduce_loops", "1", "reduce loops of more than one trip"),
    ("statements", "1", "statements of the program"),
    ("innermost_reduce_trips", "trips", "extent of the innermost serial reduce loop"),
    ("chain_trips", "trips", "serial reduce trips around the register tile"),
    ("reduce_trips", "trips", "all reduce trips"),
    ("branches", "trips", "loop iterations that are executed as such (not unrolled)"),
    ("innermost_branch_trips", "trips", "extent of the innermost loop that is not unrolled"),
    ("root_share", "1", "1 / number of root nests"),
)
_REGISTERS: Final = _group(
    "registers",
    ("tile_rows", "1", "unrolled copies that share the vector operands"),
    ("tile_vectors", "1", "vectors of the vector operand in the tile"),
    ("tile_accumulators", "1", "registers that hold results"),
    ("tile_registers", "1", "accumulators + vector operands + 1"),
    ("register_pressure", "1", "tile_registers / registers"),
    ("register_spill", "1", "registers that are missing"),
    ("latency_cover", "1", "accumulators / accumulators that hide the latency"),
    ("vector_loads", "1", "vector loads of a tile step"),
    ("broadcast_loads", "1", "scalar or broadcast loads of a tile step"),
    ("gathered_loads", "1", "elements gathered one by one in a tile step"),
    ("loads_per_op", "1", "all loads / vector operations of a tile step"),
    ("lane_use", "1", "share of the lanes of a vector that does work"),
    ("step_operations", "ops", "vector operations of one step of the tile"),
)
_PARALLEL: Final = _group(
    "parallel",
    ("tasks", "1", "parallel tasks"),
    ("tasks_per_thread", "1", "tasks / threads"),
    ("imbalance", "1", "time of the busiest thread / mean"),
    ("task_flops", "ops", "operations of a task"),
    ("idle_threads", "1", "threads without a task"),
)
_VALIDITY: Final = _group(
    "validity",
    ("tail_valid", "1", "share of the trips inside the extents (tails of tiles)"),
    ("tail_executed", "1", "share of the trips in register tiles not wholly outside the extents"),
    ("padding_valid", "1", "share of the trips inside the extents that are no padding, nor masked"),
    ("overcompute", "1", "operations of the whole program, all trips / those its DAG asks for"),
    ("guards", "1", "predicates of the statement and affine guards in its body"),
    ("copies", "1", "estimated copies specialised to edges"),
    (
        "specialized_fill",
        "1",
        "statements in straight-line code, edges specialised / instruction "
        "budget; beyond 1 predicates stay in inner loops",
    ),
    ("instructions", "1", "estimated vector instructions of straight-line code"),
    ("instruction_fill", "1", "instructions / instruction budget"),
    ("compile_seconds", "s", "estimated compile time"),
)
_PACKING: Final = _group(
    "packing",
    ("constant_bytes", "B", "bytes of constants the statement reads, as stored"),
    ("packed_constants", "1", "constants that are packed"),
    ("prefetched_bytes", "B", "bytes of constants that are fetched into L2 ahead of their use"),
    ("packing_waste", "1", "stored / original elements of the packed constants"),
)
_HARDWARE: Final = _group(
    "hardware",
    ("hw_threads", "1", "threads"),
    ("hw_lanes", "1", "float32 lanes of a vector"),
    ("hw_registers", "1", "vector registers"),
    ("hw_l1_bytes", "B", "L1 size"),
    ("hw_l2_bytes", "B", "L2 size"),
    ("hw_l3_bytes", "B", "L3 size"),
)
_GPU: Final = _group(
    "gpu",
    ("gpu_blocks", "1", "blocks of the launch"),
    ("gpu_threads", "1", "threads of a block"),
    ("gpu_lane_use", "1", "threads / lanes of the block's warps"),
    ("gpu_occupancy", "1", "warps that the busiest processor holds / most that it can"),
    ("gpu_waves", "1", "times that the busiest processor is filled with blocks"),
    ("gpu_tail", "1", "blocks of the busiest processor / mean"),
    ("gpu_shared_fill", "1", "shared memory of a block / most that it may have"),
    ("gpu_register_fill", "1", "estimated registers of a thread / most that it may have"),
    ("gpu_sectors", "1", "32-byte sectors of an access of a warp to global memory, mean"),
    ("gpu_wavefronts", "1", "passes of an access of a warp to shared memory, mean"),
    ("gpu_issue_share", "1", "cycles of arithmetic / all cycles of a block, none overlapped"),
    ("gpu_shared_share", "1", "cycles of shared memory / all cycles of a block"),
    ("gpu_block_bytes", "B", "bytes between L2 and a block"),
    ("gpu_in_flight", "B", "bytes that a block has under way at a time"),
    ("gpu_independent", "1", "results that a thread computes independently of each other"),
    ("gpu_rounds", "1", "barriers that a block waits at"),
)
_UNIT: Final = _group(
    "unit",
    ("unit_share", "1", "share of the operations that a tensor unit does"),
    ("unit_rate", "ops/s", "rate of that unit, in one core or processor; a mac counts two"),
    ("unit_loaded_bytes", "B", "bytes of operands loaded for the unit, all trips"),
    ("unit_stored_bytes", "B", "bytes of its results stored, and loaded to be added to"),
)
_DRAFT: Final = _group(
    "draft",
    ("draft_compute_seconds", "s", "draft model: arithmetic and loads, one thread"),
    ("draft_memory_seconds", "s", "draft model: cache traffic, one thread"),
    ("draft_overhead_seconds", "s", "draft model: loops and parallel regions"),
    ("draft_seconds", "s", "draft model: time of the statement on all threads"),
)

FEATURES: Final[tuple[Feature, ...]] = (
    *_COMPUTATION, *_ANNOTATION, *_ACCESS, *_LOCALITY, *_ALLOCATION, *_STRUCTURE, *_REGISTERS,
    *_PARALLEL, *_VALIDITY, *_PACKING, *_HARDWARE, *_GPU, *_UNIT, *_DRAFT,
)  # fmt: skip

FEATURE_COUNT: Final = len(FEATURES)
FEATURE_NAMES: Final = tuple(feature.name for feature in FEATURES)
FEATURE_INDEX: Final = {name: index for index, name in enumerate(FEATURE_NAMES)}

# Raised by hand when a formula changes and the table does not.
_REVISION: Final = 17
_TABLE: Final = ";".join(f"{f.name}:{f.unit}" for f in FEATURES)
FEATURE_VERSION: Final = f"{_REVISION}-{hashlib.sha256(_TABLE.encode()).hexdigest()[:8]}"


def describe_features() -> str:
    """The table as text, one feature a line: name, unit, group, doc."""
    width = max(len(name) for name in FEATURE_NAMES)
    return "\n".join(f"{f.name:<{width}}  {f.unit:<6} {f.group:<11} {f.doc}" for f in FEATURES)
