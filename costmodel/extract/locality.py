"""Features of buffers, caches and arithmetic intensity."""

from __future__ import annotations

import numpy as np

from costmodel.extract.access import SCOPE_CODE, Access
from costmodel.extract.analysis import Analysis
from costmodel.extract.operations import flops
from costmodel.extract.quantity import Floats, Quantity, Rows, count_true, gather, stack
from costmodel.feature_table import BUFFER_SLOTS, CACHES, CURVE_POINTS
from sketch.target.target import Target

Columns = dict[str, Quantity]


def capacities(target: Target) -> dict[str, int]:
    """Bytes by cache, at least 1: a cache that a machine does not have holds nothing of use."""
    last = target.l3_bytes or target.l2_bytes  # GPUs have no third level
    sizes = (target.l1_bytes, target.l2_bytes, last)
    return {cache: max(size, 1) for cache, size in zip(CACHES, sizes, strict=True)}


def cache_traffic(analysis: Analysis, executed: Quantity) -> dict[str, list[Floats]]:
    """Per cache, per access [P]: bytes moved into the cache by the whole program.

    ``executed``: share of the trips that clipped loops execute.
    """
    line_bytes = float(analysis.target.cache_line_bytes)
    traffic = {}
    for cache, capacity in capacities(analysis.target).items():
        level = analysis.traffic_level(capacity)
        visits = analysis.at(analysis.outer, level) * executed
        traffic[cache] = [
            np.maximum(analysis.at(lines, level) * visits, lines[0]) * line_bytes
            for lines in analysis.line_levels
        ]
    return traffic


def buffer_columns(
    analysis: Analysis, traffic: dict[str, list[Floats]], shared: frozenset[int]
) -> Columns:
    """The features of up to ``BUFFER_SLOTS`` buffers; unused slots are 0.

    Args:
        analysis: of the statement.
        traffic: from ``cache_traffic``.
        shared: ids of the buffers that other statements touch too.
    """
    columns: Columns = {}
    innermost = analysis.innermost(lambda loop: True)
    for slot, access in enumerate(analysis.accesses[:BUFFER_SLOTS]):
        values = _volume(analysis, slot, access, innermost)
        reuse = _reuse(analysis, access, id(access.buffer) in shared)
        values |= reuse
        divisor = np.where(reuse["reuse_kind"] == 0.0, 0.5, reuse["reuse_count"])
        for name in ("bytes", "unique_bytes", "lines", "unique_lines"):
            values[f"{name}_per_reuse"] = values[name] / divisor
        for cache, moved in traffic.items():
            values[f"{cache}_bytes"] = moved[slot]
        columns |= {f"buffer{slot}_{name}": value for name, value in values.items()}
    return columns


def _volume(analysis: Analysis, slot: int, access: Access, innermost: Rows) -> Columns:
    size = float(access.element_bytes)
    elements, lines = analysis.element_levels[slot], analysis.line_levels[slot]
    trips: Quantity = 1.0
    for loop in access.site.loops:
        trips = trips * loop.extent
    return {
        "kind": access.kind,
        "scope": SCOPE_CODE[access.buffer.scope],
        "bytes": trips * size,
        "unique_bytes": elements[0] * size,
        "lines": analysis.at(lines, innermost) * analysis.at(analysis.outer, innermost),
        "unique_lines": lines[0],
        "stride": _innermost_stride(analysis, access, innermost),
        "task_bytes": elements[analysis.task_level] * size,
        "tile_bytes": analysis.at(elements, analysis.reduce_level) * size,
    }


def _innermost_stride(analysis: Analysis, access: Access, innermost: Rows) -> Floats:
    steps = (access.address_step(loop) for loop in analysis.loops)
    return gather(stack(analysis.programs, *steps, 0.0), innermost, analysis.programs)


def _reuse(analysis: Analysis, access: Access, shared: bool) -> dict[str, Floats]:
    """Reuse by the innermost loop that does not move the access; else by another statement."""
    n = len(analysis.loops)
    index = analysis.innermost(lambda loop: not access.uses(loop.var))
    found = index < n
    inside = np.minimum(index + 1, n)
    other = 2.0 if shared else 0.0
    return {
        "reuse_kind": np.where(found, 1.0, other),
        "reuse_iterations": np.where(found, analysis.at(analysis.inner, inside), 0.0),
        "reuse_bytes": np.where(found, analysis.at(analysis.byte_levels, inside), 0.0),
        "reuse_count": np.where(found, analysis.extent_at(index), 1.0),
    }


def cache_columns(analysis: Analysis, traffic: dict[str, list[Floats]]) -> Columns:
    """Traffic and fill of each cache, and the bytes touched in all."""
    columns: Columns = {"total_bytes": analysis.byte_levels[0]}
    n = len(analysis.loops)
    tile = analysis.reduce_level
    fills = {
        "step_fill": analysis.at(analysis.working_set, np.minimum(tile + 1, n)),
        "tile_fill": analysis.at(analysis.working_set, tile),
        "task_fill": analysis.working_set[analysis.task_level],
    }
    for cache, capacity in capacities(analysis.target).items():
        moved = sum(traffic[cache][1:], traffic[cache][0])
        columns[f"{cache}_bytes"] = moved
        columns[f"{cache}_intensity"] = analysis.flops / moved
        for name, fill in fills.items():
            columns[f"{cache}_{name}"] = fill / capacity
    return columns


def intensity_columns(analysis: Analysis) -> Columns:
    """Operations per byte over the inner loops that do ops^(1/10), ops^(2/10), ... operations.

    Linear between levels.  The scale is logarithmic, unlike Ansor's, whose ten points nearly all
    fall into the outermost loop.
    """
    per_execution = max(flops(dict(analysis.main_operations)), 1.0)
    intensity = analysis.inner * per_execution / analysis.byte_levels
    work = np.log2(analysis.inner)
    fractions = (np.arange(CURVE_POINTS) + 1.0) / CURVE_POINTS
    wanted = fractions[:, None] * work[0]
    # work falls with the level: the levels above ``upper`` do at least what is wanted.
    upper = count_true(work[1:, None] >= wanted)
    lower = np.minimum(upper + 1, len(analysis.loops))
    low, high = analysis.at(work, lower), analysis.at(work, upper)
    gap = high - low
    weight = np.where(gap > 0, wanted - low, 0.0) / np.where(gap > 0, gap, 1.0)
    bottom = analysis.at(intensity, lower)
    curve = bottom + weight * (analysis.at(intensity, upper) - bottom)
    return {f"intensity{point}": curve[point] for point in range(CURVE_POINTS)}
