"""Terms of a reduction go to the element that data say.

for e in 0..E:                                  for e in 0..E:
  for r in 0..R:                        is        r = min(max(place[e], 0), R - 1)
    if place[e] == r: S[r] += x[e]                if place[e] == r: S[r] += x[e]
"""

from __future__ import annotations

from collections.abc import Mapping

from sketch.analysis.scattering import scattered_axes
from sketch.lang.expr import Axis, Expr, cast
from sketch.lang.functions import maximum, minimum
from sketch.lower.placement import PlacedStage, Placement
from sketch.nest.loopnest import LoopKind


def placed_by_data(stage: PlacedStage, placement: Placement) -> Mapping[Axis, Expr]:
    """The axes that terms of a stage need no loop for, and the coordinate that data give: inside
    the axis, and where the place is outside, one whose condition does not hold.

    Their loops are whole and serial, and stand inside all loops of the reduction; no other stage is
    computed inside them.
    """
    op = stage.plan.op
    scattered = scattered_axes(op)
    if not scattered or stage.plan.attach is not None:
        return {}
    places = {op.axes[position]: place for position, place in scattered.items()}
    last = max(n for n, loop in enumerate(stage.loops) if loop.axis.kind == "reduce")
    inside = [loop for loop in stage.loops[last:] if loop.kind is LoopKind.SERIAL]
    if any(placement.attached(stage.plan.id, loop.id) for loop in stage.loops[last:]):
        return {}
    whole = {loop.axis for loop in inside if stage.plan.axis(loop.axis) not in stage.plan.splits}
    return {
        axis: maximum(minimum(cast(place, axis.dtype), axis.extent - 1), 0)
        for axis, place in places.items()
        if axis in whole
    }
