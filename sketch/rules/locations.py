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


def standing_axes(program: Program, plan: StagePlan) -> frozenset[Axis]:
    """The axes of which a stage computes one element at a time, as the loops around its attach
    point walk all that its consumers read; none at the root.
    """
    around = _loops_around(program, plan)
    found: set[Axis] | None = None
    for consumer in program.consumers(plan.op) if around else ():
        single = {a for a in consumer.op.all_axes if a.extent == 1}
        single |= standing_axes(program, consumer)
        moving = [x for x in consumer.loops() if (consumer.id, x) not in around]
        single |= {*consumer.op.all_axes} - {consumer.loop_axis(x) for x in moving}
        for load in stage_loads(consumer.op):
            if load.tensor.op is not plan.op:
                continue
            here = set()
            for axis, index in zip(plan.op.axes, load.indices, strict=True):
                form = affine_index(index, consumer.op.all_axes)
                if form is not None and single.issuperset(form[0]):
                    here.add(axis)
            found = here if found is None else found & here
    return frozenset(found or ())


def _loops_around(program: Program, plan: StagePlan) -> frozenset[Location]:
    """The loops, of other stages, inside which a stage is computed."""
    found: list[Location] = []
    while plan.attach is not None:
        host = program.stage(plan.attach[0])
        loops = host.loops()
        found += ((host.id, x) for x in loops[: loops.index(plan.attach[1]) + 1])
        plan = host
    return frozenset(found)
