"""Steps that add stages to a program, take them out, or compute them in parts.

For printing, the stages and axes that they add are named after those that they come from
(``C.local``, ``k_part``); where the program uses such a name, a number is appended (``C.local#2``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sketch.analysis.access import affine_index, index_interval
from sketch.analysis.expr_size import inlined_size, is_allowed
from sketch.errors import ScheduleError
from sketch.lang.affine import UNBOUNDED
from sketch.lang.expr import Axis, Expr, Load, Reduce, binary, cast, select
from sketch.lang.rewrite import reused, rewrite, substitute_axes
from sketch.lang.tensor import Compute, Operation, Tensor
from sketch.nest.loopnest import Scope
from sketch.schedule.program import Program, StagePlan, operations_read, tensors_read
from sketch.schedule.stage import Role, StageId, new_stage
from sketch.schedule.stage_names import (
    cache_axis,
    cached_name,
    local_name,
    part_names,
    partial_name,
)
from sketch.schedule.steps import CacheRead, CacheWrite, Inline, Rfactor, SplitReduce


def _relink(
    plans: Sequence[StagePlan],
    changed: Operation,
    now: Compute | None = None,
    edit: Callable[[StagePlan, Load], Expr | None] | None = None,
) -> tuple[StagePlan, ...]:
    """Rebuild bodies, so that loads refer to the stages that there are now.

    Args:
        plans: all stages, with those that a step made.
        changed: the operation whose reads change.
        now: what is read in its place, if the step rewrote it.
        edit: (stage, load) to what it reads; None where it goes on as it is.
    """
    current: dict[Operation, Compute] = {} if now is None else {changed: now}
    stale = {changed}
    result = []
    for plan in plans:
        op = plan.op
        if stale.isdisjoint(operations_read(op)):
            result.append(plan)
            continue

        def leaf(n: Expr, plan: StagePlan = plan) -> Expr | None:
            if not isinstance(n, Load):
                return None
            indices = tuple(rewrite(i, leaf) for i in n.indices)
            load = Load(n.tensor, indices)
            edited = None if edit is None else edit(plan, load)
            if edited is not None:
                return edited
            latest = current.get(n.tensor.op)
            if latest is not None:
                return Load(Tensor(latest, n.tensor.output), indices)
            return n if reused(indices, n.indices) is n.indices else load

        bodies = reused([rewrite(body, leaf) for body in op.bodies], op.bodies)
        if bodies is op.bodies:
            result.append(plan)
            continue
        current[op] = Compute(op.name, op.axes, bodies, op.store)
        stale.add(op)
        result.append(replace(plan, op=current[op]))
    return tuple(result)


def _in_place_of(program: Program, origin: StagePlan, made: Sequence[StagePlan]) -> list[StagePlan]:
    """All stages, with those of ``made`` where ``origin`` was."""
    plans: list[StagePlan] = []
    for plan in program.stages:
        plans += made if plan is origin else [plan]
    return plans


def inline(program: Program, step: Inline) -> Program:
    """Compute a stage in its consumers; raises ScheduleError where it cannot be."""
    origin = program.stage(step.stage)
    op = origin.op
    if op.reduce is not None or program.is_output(origin.id):
        raise ScheduleError(f"stage {op.name} is a reduction or an output and cannot be inlined")
    if any(pack.tensor == origin.id for pack in program.packs):
        raise ScheduleError(f"stage {op.name} cannot be inlined: its result is laid out in panels")
    if any(pack.reader == origin.id for pack in program.packs):
        raise ScheduleError(
            f"stage {op.name} cannot be inlined: its loops are the panels of what it reads",
            hint="inline it first, then pack for the stage that it is computed in",
        )
    for consumer in program.consumers(op):
        if not is_allowed(inlined_size(consumer.op, op)):
            raise ScheduleError(
                f"stage {consumer.op.name} is too large with {op.name} computed in it",
                hint="leave one of the stages before it where it is",
            )
    # What is read twice at one place is computed once: the reads share an expression.
    made: dict[tuple[int, ...], tuple[Load, Expr]] = {}

    def edit(_: StagePlan, load: Load) -> Expr | None:
        if load.tensor.op is not op:
            return None
        key = (load.tensor.output, *map(id, load.indices))
        if key not in made:
            mapping = {a: _inside(i, a) for a, i in zip(op.axes, load.indices, strict=True)}
            # the load keeps the indices alive, so that their identities stay theirs
            made[key] = load, substitute_axes(op.bodies[load.tensor.output], mapping)
        return made[key][1]

    return replace(program, stages=_relink(_in_place_of(program, origin, ()), op, edit=edit))


def _inside(index: Expr, axis: Axis) -> Expr:
    """Where a stage is read: what is not proved to be one of its places is kept there."""
    if affine_index(index) is not None:  # a select guards it, where it leaves the stage
        return index
    low, high = index_interval(index) or (-UNBOUNDED, UNBOUNDED)
    if low >= 0 and high < axis.extent:
        return index
    wide = cast(index, "int64")
    return binary("min", binary("max", wide, 0), axis.extent - 1)


def fresh_axes(op: Compute) -> tuple[Axis, ...]:
    """New spatial axes with the names and extents of ``op``'s."""
    return tuple(Axis(a.name, a.extent, "spatial") for a in op.axes)


def _taken_stages(program: Program) -> frozenset[str]:
    """Names that a new stage must not have."""
    return program.dag.names.union(p.op.name for p in program.stages)


def _added(program: Program, origin: StageId, role: Role) -> StageId:
    return new_stage(origin, role, [plan.id for plan in program.stages])


def cache_write(program: Program, step: CacheWrite) -> Program:
    """Compute a stage in a tile of its own, and copy the result out of it."""
    origin = program.stage(step.stage)
    op = origin.op
    name = local_name(op.name, _taken_stages(program))
    local = Compute(name, op.axes, op.bodies)
    axes = fresh_axes(op)
    loads = tuple(Load(Tensor(local, n), axes) for n in range(len(op.output_dtypes)))
    copy = Compute(op.name, axes, loads, op.store)
    added = _added(program, origin.id, Role.ACCUMULATE)
    plans = _in_place_of(
        program,
        origin,
        [
            StagePlan(added, local, roles=(*origin.roles, Role.ACCUMULATE)),
            StagePlan(origin.id, copy, roles=(*origin.roles, Role.COPY_OUT)),
        ],
    )
    return replace(program, stages=_relink(plans, op, copy))


def cache_id(program: Program, consumer: StageId) -> StageId:
    """The stage that the next ``CacheRead`` for a consumer adds."""
    return _added(program, consumer, Role.CACHE)


def cache_read(program: Program, step: CacheRead) -> Program:
    """Let a stage read a copy of a tensor; raises ScheduleError when it does not read it."""
    consumer = program.stage(step.consumer)
    tensor = next(
        (t for t in tensors_read(consumer.op) if program.tensor_id(t) == step.tensor), None
    )
    if tensor is None:
        known = program.label(step.tensor)
        raise ScheduleError(f"stage {consumer.op.name} does not read {known!r}")
    axes = tuple(Axis(cache_axis(n), e, "spatial") for n, e in enumerate(tensor.shape))
    name = cached_name(tensor.name, consumer.op.name, _taken_stages(program))
    cache = Compute(name, axes, (Load(tensor, axes),))

    def edit(plan: StagePlan, load: Load) -> Expr | None:
        same = load.tensor.op is tensor.op and load.tensor.output == tensor.output
        return Load(Tensor(cache), load.indices) if same and plan is consumer else None

    shared = step.scope == Scope.SHARED.value
    cached = StagePlan(cache_id(program, consumer.id), cache, shared=shared, roles=(Role.CACHE,))
    plans = _in_place_of(program, consumer, [cached, consumer])
    return replace(program, stages=_relink(plans, tensor.op, edit=edit))


def in_parts(program: Program, step: Rfactor | SplitReduce) -> Program:
    """Split a reduction in partial ones and their sum; raises ScheduleError for wrong parts."""
    interleave = isinstance(step, Rfactor) and step.interleave
    outermost = isinstance(step, SplitReduce)
    plan = program.stage(step.stage)
    op, axis = plan.op, plan.axis_at(step.axis)
    reduce = op.reduce
    if reduce is None or axis.kind != "reduce":
        raise ScheduleError(f"{axis.name!r} is no reduce axis of {op.name}")
    if not 1 <= step.parts <= axis.extent:
        raise ScheduleError(f"{axis.name} of {op.name} has no {step.parts} parts")
    chunk = -(-axis.extent // step.parts)
    part_name, inner_name = part_names(axis.name, {a.name for a in op.all_axes})
    part = Axis(part_name, step.parts, "spatial")
    inner = Axis(inner_name, chunk, "reduce")
    index = inner * step.parts + part if interleave else part * chunk + inner
    axes = fresh_axes(op)
    mapping: dict[Axis, Expr] = {**dict(zip(op.axes, axes, strict=True)), axis: index}
    sources = tuple(substitute_axes(s, mapping) for s in reduce.sources)
    if chunk * step.parts != axis.extent:
        pairs = zip(sources, reduce.reducer.identity, strict=True)
        sources = tuple(select(index < axis.extent, s, i) for s, i in pairs)
    rest = tuple(inner if a is axis else a for a in reduce.axes)
    name = partial_name(op.name, _taken_stages(program))
    walked = (part, *axes) if outermost else (*axes, part)
    partial = Compute(name, walked, (Reduce(reduce.reducer, sources, rest),))
    final = Axis(part.name, step.parts, "reduce")
    place = (final, *op.axes) if outermost else (*op.axes, final)
    loads = tuple(Load(Tensor(partial, n), place) for n in range(len(sources)))
    combined = Compute(op.name, op.axes, (Reduce(reduce.reducer, loads, (final,)),), op.store)
    added = _added(program, plan.id, Role.PARTIAL)
    plans = _in_place_of(
        program,
        plan,
        [
            StagePlan(added, partial, roles=(*plan.roles, Role.PARTIAL)),
            StagePlan(plan.id, combined, roles=(*plan.roles, Role.COMBINE)),
        ],
    )
    return replace(program, stages=_relink(plans, op, combined))
