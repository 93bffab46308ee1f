"""Steps that add stages to a program, take them out, or compute them in parts.

They name the stages and axes that they add after those that they come from (``C.local``,
``k_part``); where the program uses such a name already, a number is appended (``C.local#2``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from sketch.analysis.expr_size import inlined_size, is_allowed
from sketch.errors import ScheduleError
from sketch.lang.expr import Axis, Expr, Load, Reduce, select
from sketch.lang.rewrite import rewrite, substitute_axes
from sketch.lang.tensor import Compute, Tensor
from sketch.nest.loopnest import Scope
from sketch.schedule.program import Program, Role, StagePlan, stages_read, tensors_read
from sketch.schedule.stage_names import (
    cache_axis,
    cached_name,
    local_name,
    part_names,
    partial_name,
)
from sketch.schedule.steps import CacheRead, CacheWrite, Inline, Rfactor, SplitReduce


def _relink(
    plans: list[StagePlan], edit: Callable[[str, Load], Expr | None], changed: Collection[str]
) -> list[StagePlan]:
    """Rebuild bodies after ``edit(stage, load)``, so that loads refer to the new stages.

    ``changed``: names of the tensors' stages whose reads are edited, or that are new.
    """
    current: dict[str, Compute] = {}
    stale = set(changed)
    result = []
    for plan in plans:
        op = plan.op
        if stale.isdisjoint(stages_read(op)):
            current[op.name] = op
            result.append(plan)
            continue

        def leaf(n: Expr, name: str = op.name) -> Expr | None:
            if not isinstance(n, Load):
                return None
            indices = tuple(rewrite(i, leaf) for i in n.indices)
            load = Load(n.tensor, indices)
            edited = edit(name, load)
            if edited is not None:
                return edited
            latest = current.get(n.tensor.op.name)
            if latest is not None and latest is not n.tensor.op:
                return Load(Tensor(latest, n.tensor.output), indices)
            same = all(a is b for a, b in zip(indices, n.indices, strict=True))
            return n if same else load

        bodies = tuple(rewrite(body, leaf) for body in op.bodies)
        same = all(a is b for a, b in zip(bodies, op.bodies, strict=True))
        new = op if same else Compute(op.name, op.axes, bodies, op.store)
        if not same:
            stale.add(op.name)
        current[op.name] = new
        result.append(plan if new is op else replace(plan, op=new))
    return result


def _keep(_: str, __: Load) -> Expr | None:
    return None


def inline(program: Program, step: Inline) -> Program:
    """Compute a stage in its consumers; raises ScheduleError where it cannot be."""
    op = program.stage(step.stage).op
    if op.reduce is not None or any(t.op.name == op.name for t in program.dag.outputs):
        raise ScheduleError(f"stage {op.name} is a reduction or an output and cannot be inlined")
    if any(pack.reader == op.name for pack in program.packs):
        raise ScheduleError(
            f"stage {op.name} cannot be inlined: its loops are the panels of what it reads",
            hint="inline it first, then pack for the stage that it is computed in",
        )
    for consumer in program.consumers(op.name):
        if not is_allowed(inlined_size(consumer.op, op)):
            raise ScheduleError(
                f"stage {consumer.op.name} is too large with {op.name} computed in it",
                hint="leave one of the stages before it where it is",
            )
    # What is read twice at one place is computed once: the reads share an expression.
    made: dict[tuple[int, ...], tuple[Load, Expr]] = {}

    def edit(_: str, load: Load) -> Expr | None:
        if load.tensor.op.name != op.name:
            return None
        key = (load.tensor.output, *map(id, load.indices))
        if key not in made:
            mapping = dict(zip(op.axes, load.indices, strict=True))
            # the load keeps the indices alive, so that their identities stay theirs
            made[key] = load, substitute_axes(op.bodies[load.tensor.output], mapping)
        return made[key][1]

    rest = [p for p in program.stages if p.op.name != op.name]
    return replace(program, stages=tuple(_relink(rest, edit, (op.name,))))


def fresh_axes(op: Compute) -> tuple[Axis, ...]:
    """New spatial axes with the names and extents of ``op``'s."""
    return tuple(Axis(a.name, a.extent, "spatial") for a in op.axes)


def _taken_stages(program: Program) -> frozenset[str]:
    """Names that a new stage must not have."""
    return program.dag.names.union(p.op.name for p in program.stages)


def cache_write(program: Program, step: CacheWrite) -> Program:
    """Compute a stage in a tile of its own, and copy the result out of it."""
    origin = program.stage(step.stage)
    op = origin.op
    name = local_name(op.name, _taken_stages(program))
    local = StagePlan(Compute(name, op.axes, op.bodies), roles=(*origin.roles, Role.ACCUMULATE))
    axes = fresh_axes(op)
    loads = tuple(Load(Tensor(local.op, n), axes) for n in range(len(op.output_dtypes)))
    copy = StagePlan(Compute(op.name, axes, loads, op.store), roles=(*origin.roles, Role.COPY_OUT))
    plans: list[StagePlan] = []
    for plan in program.stages:
        plans += [local, copy] if plan is origin else [plan]
    return replace(program, stages=tuple(_relink(plans, _keep, (op.name,))))


def cache_name(program: Program, tensor: str, consumer: str) -> str:
    """Name of the stage that a ``CacheRead`` adds: ``<tensor>.cache`` for the first consumer."""
    return cached_name(tensor, consumer, _taken_stages(program))


def cache_read(program: Program, step: CacheRead) -> Program:
    """Let a stage read a copy of a tensor; raises ScheduleError when it does not read it."""
    consumer = program.stage(step.consumer)
    tensor = next((t for t in tensors_read(consumer.op) if t.name == step.tensor), None)
    if tensor is None:
        raise ScheduleError(f"stage {step.consumer} does not read {step.tensor!r}")
    axes = tuple(Axis(cache_axis(n), e, "spatial") for n, e in enumerate(tensor.shape))
    name = cache_name(program, step.tensor, step.consumer)
    cache = Compute(name, axes, (Load(tensor, axes),))

    def edit(stage: str, load: Load) -> Expr | None:
        same = load.tensor.op.name == tensor.op.name and load.tensor.output == tensor.output
        if stage != step.consumer or not same:
            return None
        return Load(Tensor(cache), load.indices)

    plans: list[StagePlan] = []
    for plan in program.stages:
        shared = step.scope == Scope.SHARED.value
        cached = StagePlan(cache, shared=shared, roles=(Role.CACHE,))
        plans += [cached, plan] if plan is consumer else [plan]
    return replace(program, stages=tuple(_relink(plans, edit, (tensor.op.name,))))


def in_parts(program: Program, step: Rfactor | SplitReduce) -> Program:
    """Split a reduction in partial ones and their sum; raises ScheduleError for wrong parts."""
    interleave = isinstance(step, Rfactor) and step.interleave
    outermost = isinstance(step, SplitReduce)
    plan = program.stage(step.stage)
    op, axis = plan.op, plan.axis_at(step.axis)
    reduce = op.reduce
    if reduce is None or axis.kind != "reduce":
        raise ScheduleError(f"{axis.name!r} is no reduce axis of {step.stage}")
    if not 1 <= step.parts <= axis.extent:
        raise ScheduleError(f"{axis.name} of {step.stage} has no {step.parts} parts")
    chunk = -(-axis.extent // step.parts)
    taken = {a.name for a in op.all_axes}
    part_name, inner_name = part_names(axis.name, taken)
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
    split = [
        StagePlan(partial, roles=(*plan.roles, Role.PARTIAL)),
        StagePlan(combined, roles=(*plan.roles, Role.COMBINE)),
    ]
    plans: list[StagePlan] = []
    for p in program.stages:
        plans += split if p is plan else [p]
    return replace(program, stages=tuple(_relink(plans, _keep, (op.name,))))
