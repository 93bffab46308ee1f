"""What a sum walks of a packed constant before it reads other parts of it.

A prefetch that is as far ahead brings what the sum reads next, where a whole panel would leave the
cache again before it is read.
"""

from __future__ import annotations

from typing import NamedTuple

from sketch.analysis.access import stage_loads
from sketch.nest.loopnest import LoopKind
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program, StagePlan
from sketch.schedule.steps import Pack

# What a decision on the distance of a prefetch may be: none, a panel, what the sum walks.
NOT_AHEAD, PANEL_AHEAD, WALK_AHEAD = 0, 1, 2


class Walk(NamedTuple):
    """Elements along dimension ``dim`` of a tensor: all of them, or those of a step of ``loop``."""

    dim: int
    loop: LoopId | None


def walk_of(program: Program, pack: Pack) -> Walk | None:
    """What the sum of the reader walks of a packed tensor, the outermost dimension of it; None:
    whole panels.

    A sum that is computed in parts, for all tiles of results one part after the other, walks a part
    before it reads another.
    """
    reader, tensor = program.stage(pack.reader), program.operation(pack.tensor)
    (load, *_) = [load for load in stage_loads(reader.op) if load.tensor.op is tensor]
    part = _part(reader)
    if part is not None:
        axis = reader.loop_axis(part)
        dims = [dim for dim, index in enumerate(load.indices) if index is axis]
        return Walk(dims[0], part) if dims else None
    extent = 1
    for dim, index in enumerate(load.indices):
        if dim == pack.dim:
            continue
        if any(index is axis for axis in reader.op.reduce_axes):
            return Walk(dim, None) if extent > 1 else None
        extent *= load.tensor.shape[dim]
    return None


def _part(plan: StagePlan) -> LoopId | None:
    """The outermost loop, where it is one of the sum and has loops over results within."""
    serial = [loop for loop in plan.loops() if plan.kinds.get(loop) in (None, LoopKind.SERIAL)]
    sums = [plan.loop_axis(loop).kind == "reduce" for loop in serial]
    return serial[0] if sums and sums[0] and not all(sums) else None
