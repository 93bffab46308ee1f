"""Where statements are needed: the masks of a program at the places of its stages."""

from __future__ import annotations

from collections.abc import Mapping

from sketch.analysis.access import AffineForm
from sketch.analysis.known_values import Value
from sketch.analysis.masks import MaskedNeed, known_stages, masked_needs
from sketch.dag.dag import ComputeDAG
from sketch.lang.kept import kept
from sketch.lang.tensor import Compute
from sketch.lower.placement import PlacedStage
from sketch.nest.loopnest import Affine, Need
from sketch.schedule.program import Program


def lowered_needs(
    program: Program, stage: PlacedStage, elements_only: bool = False
) -> tuple[Need, ...]:
    """The needs of a stage's statement, over loop variables.

    Args:
        program: that the stage is of.
        stage: where its loops are.
        elements_only: without those that only some terms of an element meet.
    """
    return tuple(
        Need(
            need.masked.mask,
            tuple(_affine(place, stage) for place in need.masked.places),
            need.own,
        )
        for need in _needs(program).get(stage.plan.op, ())
        if not (need.own and elements_only)
    )


def _affine(form: AffineForm, stage: PlacedStage) -> Affine:
    total = Affine((), form[1])
    for axis, coefficient in form[0].items():
        total = total + stage.coordinate(axis).scale(coefficient)
    return total


@kept  # asked for every statement of every candidate
def _needs(program: Program) -> Mapping[Compute, tuple[MaskedNeed, ...]]:
    values = _values(program.dag)
    # Stages that steps have not added compute what those of the DAG do, however they do it.
    known = {p.op: values[p.id.origin] for p in program.stages if isinstance(p.id.origin, int)}
    outputs = {plan.op for plan in program.stages if program.is_output(plan.id)}
    return masked_needs([plan.op for plan in program.stages], outputs, known.get)


@kept
def _values(dag: ComputeDAG) -> tuple[Value, ...]:
    return known_stages(dag.stages)
