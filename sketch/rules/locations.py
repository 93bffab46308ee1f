"""Where a producer may be computed inside the nest of its consumers."""

from __future__ import annotations

from sketch.analysis.access import affine_index, stage_loads
from sketch.lang.expr import Axis
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import LoopKind
from sketch.rules.patterns import vector_axis
from sketch.schedule.loop import LoopId, LoopRole
from sketch.schedule.program import Program, StagePlan, root_host
from sketch.schedule.stage import StageId

Location = tuple[StageId, LoopId]


def _shared_prefix(host: StagePlan, producer: Compute) -> int:
    """How many outer loops of ``host`` walk axes that select what it reads of ``producer``.

    A loop that reduces the lanes of a reduction selects single lanes of it: none of those.
    """
    common: set[Axis] | None = None
    lanes: set[Axis] = set()
    vector = None if producer.reduce is None else vector_axis(producer)
    for load in stage_loads(host.op):
        if load.tensor.op is not producer:
            continue
        forms = [affine_index(index) for index in load.indices]
        selecting = {a for form in forms if form is not None for a in form[0]}
        common = selecting if common is None else common & selecting
        for axis, form in zip(producer.axes, forms, strict=True):
            if axis is vector and form is not None:
                lanes |= {a for a in form[0] if a.kind == "reduce"}
    count = 0
    for loop in host.loops():
        vectorised = host.kinds.get(loop) in (LoopKind.VECTORIZED, LoopKind.UNROLLED)
        if host.loop_axis(loop) not in (common or set()) - lanes or vectorised:
            break
        count += 1
    return count


def candidate_locations(program: Program, plan: StagePlan) -> tuple[Location, ...]:
    """Loops inside which all consumers run and that narrow what they need; deepest first.

    At most two: the loop at which a consumer is attached itself (the register-tile loop) or the
    innermost loop that still selects a part of the stage, and the last L2-tile loop around it.
    """
    consumers = program.consumers(plan.op)
    hosts = {root_host(program, c).id for c in consumers}
    if len(hosts) != 1:
        return ()
    host = program.stage(next(iter(hosts)))
    loops = host.loops()
    depth = len(loops)
    for consumer in consumers:
        if consumer is host:
            depth = min(depth, _shared_prefix(host, plan.op))
        elif consumer.attach is not None and consumer.attach[0] == host.id:
            depth = min(depth, loops.index(consumer.attach[1]) + 1)
        else:
            return ()
    if depth == 0:
        return ()
    chosen = [loops[depth - 1]]
    around = reversed(loops[: depth - 1])
    chosen += [loop for loop in around if host.role(loop) is LoopRole.L2_TILE][:1]
    return tuple((host.id, loop) for loop in chosen)
