"""Whether steps and decisions that were not generated here make a schedule of reasonable size.

Rules and samplers keep to these bounds by themselves.  What comes from a file may hold anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError, quoted
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import Scope
from sketch.population.feasible import feasible
from sketch.schedule.decision import DecisionId
from sketch.schedule.loop import AxisIndex
from sketch.schedule.program import Program, StagePlan
from sketch.schedule.sketch import Sketch, fixed_product
from sketch.schedule.step_fields import is_count
from sketch.schedule.steps import CacheRead, Factor, Pack
from sketch.schedule.walks import NOT_AHEAD, PANEL_AHEAD, WALK_AHEAD
from sketch.target.fragments import ROW_BYTES

# Steps for each stage and input of a program; rules make about ten.
_STEPS_FOR_EACH = 100
# Elements of all stages, for each element of those that the program began with and its inputs:
# copies double them, partial sums take a few times the result.
_MOST_GROWTH = 16
_CACHED_IN = (Scope.WORKSPACE.value, Scope.SHARED.value)


def check_steps(dag: ComputeDAG, steps: Sequence[Mapping[str, Any]]) -> None:
    """Check recorded steps before they are replayed; raises ScheduleError when there are too many
    of them, or a copy is to be kept where there is no memory of that name.
    """
    most = _STEPS_FOR_EACH * (len(dag.stages) + len(dag.inputs))
    if len(steps) > most:
        raise ScheduleError(f"{len(steps)} steps are more than {most}")
    for step in steps:
        scope = step.get("scope", _CACHED_IN[0])
        if step.get("kind") == CacheRead.kind and scope not in _CACHED_IN:
            raise ScheduleError(f"nothing is cached in {quoted(scope)}")


def check_structure(sketch: Sketch) -> None:
    """Check the program that the steps made.

    Raises:
        ScheduleError: a stage that is computed inside one that comes before it, far more memory
            than without steps, a tile larger than its axis, or a panel of no dimension.
    """
    program = sketch.program
    _check_size(program)
    for plan in program.stages:
        _check_attached(program, plan)
        for axis, factors in plan.splits.items():
            _check_factors(sketch, plan, axis, factors)
    for pack in program.packs:
        _check_pack(program, pack)


def _check_size(program: Program) -> None:
    def elements(op: Compute) -> int:
        return math.prod(axis.extent for axis in op.axes) * len(op.output_dtypes)

    before = sum(map(elements, program.dag.stages))
    before += sum(math.prod(tensor.shape) for tensor in program.dag.inputs)
    after = sum(elements(plan.op) for plan in program.stages)
    if after > _MOST_GROWTH * before:
        raise ScheduleError(f"stages of {after} elements for a program of {before}")


def _check_attached(program: Program, plan: StagePlan) -> None:
    if plan.attach is not None and program.position(plan.id) >= program.position(plan.attach[0]):
        host = program.label(plan.attach[0])
        raise ScheduleError(f"stage {plan.op.name} is computed inside {host}")


def _check_factors(
    sketch: Sketch, plan: StagePlan, position: AxisIndex, factors: tuple[Factor, ...]
) -> None:
    """SIMD lanes and the rows of a tensor unit's tile may exceed a short axis, but no axis needs
    more than those of bytes.
    """
    axis = plan.op.all_axes[position]
    most = max(axis.extent, sketch.target.lanes(1), ROW_BYTES)
    if fixed_product(factors) > most:
        raise ScheduleError(
            f"axis {axis.name} of {plan.op.name} has no tile {factors}", hint=f"at most {most}"
        )


def _check_pack(program: Program, pack: Pack) -> None:
    reader, tensor = program.stage(pack.reader), program.operation(pack.tensor)
    if program.consumers(tensor) != (reader,):
        raise ScheduleError(f"stage {reader.op.name} is not the one reader of {tensor.name!r}")
    known = (NOT_AHEAD, PANEL_AHEAD, WALK_AHEAD)
    if not isinstance(pack.prefetch, DecisionId) and pack.prefetch not in known:
        raise ScheduleError(
            f"tensor {tensor.name} cannot be fetched ahead by {pack.prefetch}",
            hint=f"one of {known}: not at all, a panel, what the sum walks",
        )
    if not pack.loops:
        raise ScheduleError(f"the panels of {tensor.name} have no loops")


def check_row(sketch: Sketch, values: Mapping[DecisionId, int]) -> None:
    """Check decisions: each within its axis, the levels of an axis together, and all of them
    within the limits of the target.

    A value need not be one of today's choices: those may change from release to release.

    Raises:
        ScheduleError: a decision is missing, unknown or out of range, or the row is infeasible.
    """
    known = {decision.id: decision for decision in sketch.decisions}
    if known.keys() != values.keys():
        odd = sorted(sketch.labels.get(d, str(d)) for d in known.keys() ^ values.keys())
        raise ScheduleError(f"no value, or no decision, for {', '.join(map(quoted, odd[:3]))}")
    tiled = {sketch.decisions[n].id for chain in sketch.chains for n in chain.columns}
    for called, decision in known.items():
        value, label = values[called], sketch.labels[called]
        if not is_count(value, decision.choices[0]):
            raise ScheduleError(f"decision {label} is {quoted(value)}")
        if called not in tiled and value not in decision.choices:
            raise ScheduleError(f"decision {label} is {value}, of {decision.choices}")
    for chain in sketch.chains:
        room = -(-chain.extent // chain.fixed)
        for called in (sketch.decisions[n].id for n in chain.columns):
            value = values[called]
            if value > room:
                label = sketch.labels[called]
                raise ScheduleError(f"decision {label} is {value}, at most {room} fit")
            room = -(-room // value)
    if not feasible(sketch, values)[0]:
        raise ScheduleError("the decisions exceed the registers, caches or code size of the target")
