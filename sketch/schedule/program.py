"""Replay of steps: which stages exist, how their loops are split, ordered, run and attached.

A program is purely structural; it holds names of decisions, never their values.

Steps name the stages and axes that they add after those that they come from (``C.local``,
``k_part``); where the program uses such a name already, a number is appended (``C.local#2``).  What
a stage was made by is data (``StagePlan.roles``), never read from a name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from math import prod
from typing import Final

from sketch.analysis.access import reads, stage_loads
from sketch.analysis.expr_size import inlined_size, is_allowed
from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError, quoted
from sketch.lang.expr import Axis, Expr, Load, Reduce, select
from sketch.lang.rewrite import rewrite, substitute_axes
from sketch.lang.tensor import Compute, Tensor
from sketch.nest.loopnest import LoopKind, Scope
from sketch.schedule.loop import LoopId, loop_ids
from sketch.schedule.stage_names import (
    cache_axis,
    cached_name,
    local_name,
    part_names,
    partial_name,
)
from sketch.schedule.step_fields import is_count
from sketch.schedule.steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Factor,
    Inline,
    Pack,
    Reorder,
    Rfactor,
    Split,
    Step,
)

# Trips of the tiles of an axis, for each of its elements.  Vectors, and the threads of a GPU block,
# may be far wider than an axis; beyond that a loop nest would just count for ever.
_MOST_PADDING: Final = 4096


class Role(Enum):
    """What a step made a stage for."""

    ACCUMULATE = "accumulate"  # CacheWrite: computes what its consumer copies out
    COPY_OUT = "copy_out"  # CacheWrite: copies the result out
    CACHE = "cache"  # CacheRead: holds a copy of a tensor
    PARTIAL = "partial"  # Rfactor: partial reductions
    COMBINE = "combine"  # Rfactor: combines them


@dataclass(frozen=True, slots=True, eq=False)
class StagePlan:
    """One stage and the shape of its loops.

    Attributes:
        op: the computation.
        splits: inner factors per axis name; an absent axis is one loop.
        order: all loop names, outermost first.
        kinds: execution of loops that are not serial.
        attach: (stage, loop) inside which it is computed; None at the root.
        shared: whether the threads of a GPU block compute it together.
        roles: what steps made it for, the last one last; empty for a stage of the DAG as it was.
    """

    op: Compute
    splits: Mapping[str, tuple[Factor, ...]] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    kinds: Mapping[str, LoopKind] = field(default_factory=dict)
    attach: tuple[str, str] | None = None
    shared: bool = False
    roles: tuple[Role, ...] = ()

    def axis(self, name: str) -> Axis:
        """The axis called ``name``; raises ScheduleError when the stage has none."""
        axes = (*self.op.axes, *self.op.reduce_axes)
        for axis in axes:
            if axis.name == name:
                return axis
        names = [a.name for a in axes]
        raise ScheduleError(f"stage {self.op.name} has no axis {name!r}", hint=f"it has {names}")

    def loops(self) -> tuple[str, ...]:
        """Loop names in execution order (the order of the axes where none was given)."""
        return self.order or tuple(self.loop_ids())

    def loop_ids(self) -> Mapping[str, LoopId]:
        """Its loops by name, axis by axis."""
        axes = (*self.op.axes, *self.op.reduce_axes)
        return loop_ids(self.op, tuple(len(self.splits.get(a.name, ())) + 1 for a in axes))

    def loop_id(self, name: str) -> LoopId:
        """The loop called ``name``; raises ScheduleError when the stage has none."""
        found = self.loop_ids().get(name)
        if found is None:
            raise ScheduleError(
                f"stage {self.op.name} has no loop {name!r}", hint=f"it has {self.loops()}"
            )
        return found

    def loop_axis(self, name: str) -> Axis:
        """The axis that the loop called ``name`` walks; raises ScheduleError as ``loop_id``."""
        return (*self.op.axes, *self.op.reduce_axes)[self.loop_id(name).axis]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """All stages in topological order, and how tensors are packed."""

    dag: ComputeDAG
    stages: tuple[StagePlan, ...]
    packs: tuple[Pack, ...] = ()

    def stage(self, name: str) -> StagePlan:
        """The stage called ``name``; raises ScheduleError when there is none."""
        plan = self.find(name)
        if plan is None:
            stages = [p.op.name for p in self.stages]
            raise ScheduleError(f"no stage {name!r}", hint=f"stages: {stages}")
        return plan

    def find(self, name: str) -> StagePlan | None:
        """The stage called ``name``, if there is one."""
        return next((p for p in self.stages if p.op.name == name), None)

    def pack_of(self, tensor: str) -> Pack | None:
        """How ``tensor`` is packed, if it is."""
        return next((p for p in self.packs if p.tensor == tensor), None)

    @property
    def attached(self) -> bool:
        """Whether some stage is computed inside another."""
        return any(plan.attach is not None for plan in self.stages)

    def with_stage(self, plan: StagePlan) -> Program:
        """The program with the plan of the same name replaced."""
        stages = tuple(plan if p.op.name == plan.op.name else p for p in self.stages)
        return replace(self, stages=stages)

    def consumers(self, name: str) -> tuple[StagePlan, ...]:
        """The stages that read an output of stage or placeholder ``name``."""
        return tuple(p for p in self.stages if name in stages_read(p.op))


def root_host(program: Program, plan: StagePlan, inside: str = "") -> StagePlan:
    """The root stage inside whose nest ``plan`` is computed (itself, when it is at the root), or
    the stage ``inside`` if that is reached before.
    """
    while plan.attach is not None and plan.op.name != inside:
        plan = program.stage(plan.attach[0])
    return plan


def tensors_read(op: Compute) -> tuple[Tensor, ...]:
    """Every tensor that ``op`` reads, once, in order of first appearance."""
    return tuple(reads(op))


@lru_cache(maxsize=16384)  # every step asks every stage
def stages_read(op: Compute) -> frozenset[str]:
    """Names of the stages and placeholders that ``op`` reads."""
    return frozenset(load.tensor.op.name for load in stage_loads(op))


def initial_program(dag: ComputeDAG) -> Program:
    """The program before any step: every stage at the root, all loops serial."""
    return Program(dag, tuple(StagePlan(op) for op in dag.stages))


def apply_step(program: Program, step: Step) -> Program:
    """Apply one step; raises ScheduleError when it does not fit."""
    match step:
        case Inline():
            return _inline(program, step)
        case CacheWrite():
            return _cache_write(program, step)
        case CacheRead():
            return _cache_read(program, step)
        case Rfactor():
            return _rfactor(program, step)
        case Split():
            return _split(program, step)
        case Reorder():
            return _reorder(program, step)
        case ComputeAt():
            return _compute_at(program, step)
        case Annotate():
            return _annotate(program, step)
        case Pack():
            return _pack(program, step)
    raise ScheduleError(f"{step!r} is no step")


def replay(dag: ComputeDAG, steps: tuple[Step, ...]) -> Program:
    """Apply ``steps`` one after another to the program of ``dag``."""
    program = initial_program(dag)
    for step in steps:
        program = apply_step(program, step)
    return program


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


def _inline(program: Program, step: Inline) -> Program:
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


def _cache_write(program: Program, step: CacheWrite) -> Program:
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


def _cache_read(program: Program, step: CacheRead) -> Program:
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


def _rfactor(program: Program, step: Rfactor) -> Program:
    plan = program.stage(step.stage)
    op, axis = plan.op, plan.axis(step.axis)
    reduce = op.reduce
    if reduce is None or axis.kind != "reduce":
        raise ScheduleError(f"{step.axis!r} is no reduce axis of {step.stage}")
    if not 1 <= step.parts <= axis.extent:
        raise ScheduleError(f"{step.axis} of {step.stage} has no {step.parts} parts")
    chunk = -(-axis.extent // step.parts)
    taken = {a.name for a in (*op.axes, *op.reduce_axes)}
    part_name, inner_name = part_names(axis.name, taken)
    part = Axis(part_name, step.parts, "spatial")
    inner = Axis(inner_name, chunk, "reduce")
    index = inner * step.parts + part if step.interleave else part * chunk + inner
    axes = fresh_axes(op)
    mapping: dict[Axis, Expr] = {**dict(zip(op.axes, axes, strict=True)), axis: index}
    sources = tuple(substitute_axes(s, mapping) for s in reduce.sources)
    if chunk * step.parts != axis.extent:
        pairs = zip(sources, reduce.reducer.identity, strict=True)
        sources = tuple(select(index < axis.extent, s, i) for s, i in pairs)
    rest = tuple(inner if a is axis else a for a in reduce.axes)
    name = partial_name(op.name, _taken_stages(program))
    partial = Compute(name, (*axes, part), (Reduce(reduce.reducer, sources, rest),))
    final = Axis(part.name, step.parts, "reduce")
    loads = tuple(Load(Tensor(partial, n), (*op.axes, final)) for n in range(len(sources)))
    combined = Compute(op.name, op.axes, (Reduce(reduce.reducer, loads, (final,)),), op.store)
    split = [
        StagePlan(partial, roles=(*plan.roles, Role.PARTIAL)),
        StagePlan(combined, roles=(*plan.roles, Role.COMBINE)),
    ]
    plans: list[StagePlan] = []
    for p in program.stages:
        plans += split if p is plan else [p]
    return replace(program, stages=tuple(_relink(plans, _keep, (op.name,))))


def _split(program: Program, step: Split) -> Program:
    plan = program.stage(step.stage)
    numbers = [factor for factor in step.factors if not isinstance(factor, str)]
    for factor in numbers:
        if not is_count(factor):
            where = f"factor of axis {step.axis} of {step.stage}"
            raise ScheduleError(f"{quoted(factor)} is no positive whole number", where)
    extent = plan.axis(step.axis).extent
    if prod(numbers) > _MOST_PADDING * extent:
        raise ScheduleError(
            f"tiles of {prod(numbers)} are far longer than axis {step.axis} of {step.stage}, "
            f"which has {extent}"
        )
    if step.axis in plan.splits or plan.order:
        raise ScheduleError(f"axis {step.axis} of {step.stage} is split twice, or after a reorder")
    return program.with_stage(replace(plan, splits={**plan.splits, step.axis: step.factors}))


def _reorder(program: Program, step: Reorder) -> Program:
    plan = program.stage(step.stage)
    if sorted(step.order) != sorted(plan.loops()):
        raise ScheduleError(
            f"the order of {step.stage} must list its loops {plan.loops()}, got {step.order}"
        )
    return program.with_stage(replace(plan, order=step.order))


def _compute_at(program: Program, step: ComputeAt) -> Program:
    plan = program.stage(step.stage)
    program.stage(step.target).loop_id(step.loop)
    if any(t.op.name == step.stage for t in program.dag.outputs):
        raise ScheduleError(
            f"stage {step.stage} is an output and cannot be computed inside {step.target}",
            hint="outputs are computed at the root; add a cache_write and attach its stage",
        )
    if root_host(program, program.stage(step.target), inside=step.stage).op.name == step.stage:
        raise ScheduleError(
            f"stage {step.stage} is computed inside {step.target}, which is computed inside it",
            hint="attach a stage to one of its consumers",
        )
    return program.with_stage(replace(plan, attach=(step.target, step.loop)))


def _annotate(program: Program, step: Annotate) -> Program:
    plan = program.stage(step.stage)
    plan.loop_id(step.loop)
    return program.with_stage(replace(plan, kinds={**plan.kinds, step.loop: step.loop_kind}))


def _pack(program: Program, step: Pack) -> Program:
    reader = program.stage(step.reader)
    for loop in step.loops:
        reader.loop_id(loop)
    packed = next((t for t in tensors_read(reader.op) if t.op.name == step.tensor), None)
    if packed is None:
        raise ScheduleError(f"stage {step.reader} does not read {step.tensor!r}, which is packed")
    if not isinstance(step.dim, int) or not 0 <= step.dim < len(packed.shape):
        raise ScheduleError(f"{step.tensor} has no dimension {step.dim!r}, and cannot be packed")
    if any(tensor.op.name == step.tensor for tensor in program.dag.outputs):
        raise ScheduleError(
            f"{step.tensor} is an output, and its layout is what the caller expects",
            hint=f"pack a copy of it, which a cache_read for {step.reader} makes",
        )
    if program.pack_of(step.tensor) is not None:
        raise ScheduleError(f"tensor {step.tensor} is packed twice")
    return replace(program, packs=(*program.packs, step))
