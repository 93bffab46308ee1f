"""A step under other names: which of its fields name what, told once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

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
    SharedTiles,
    Split,
    SplitReduce,
    Step,
)


class StepNames(Protocol):
    """What to call the parts of one program; raises ScheduleError for what it does not have."""

    def stage(self, name: str) -> str:
        """The stage called ``name``."""
        ...

    def tensor(self, name: str) -> str:
        """The input, or the result of a stage, called ``name``."""
        ...

    def axis(self, stage: str, name: str) -> str:
        """The axis called ``name`` of a stage."""
        ...

    def loop(self, stage: str, name: str) -> str:
        """The loop called ``name`` of a stage."""
        ...

    def factor(self, factor: Factor) -> Factor:
        """A decision; numbers stay."""
        ...


def step_with_names(step: Step, names: StepNames) -> Step:
    """``step`` with everything that it names called as ``names`` says."""

    def loops(stage: str, order: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.loop(stage, name) for name in order)

    match step:
        case Inline(stage) | CacheWrite(stage):
            return replace(step, stage=names.stage(stage))
        case CacheRead(tensor, consumer):
            return replace(step, tensor=names.tensor(tensor), consumer=names.stage(consumer))
        case Rfactor(stage, axis) | SplitReduce(stage, axis):
            return replace(step, stage=names.stage(stage), axis=names.axis(stage, axis))
        case Split(stage, axis, factors):
            renamed = tuple(names.factor(factor) for factor in factors)
            return Split(names.stage(stage), names.axis(stage, axis), renamed)
        case Reorder(stage, order):
            return Reorder(names.stage(stage), loops(stage, order))
        case ComputeAt(stage, target, loop):
            return ComputeAt(names.stage(stage), names.stage(target), names.loop(target, loop))
        case Annotate(stage, loop, execution):
            return Annotate(names.stage(stage), names.loop(stage, loop), execution)
        case Pack() | SharedTiles():
            return _layout_with_names(step, names)


def _layout_with_names(step: Pack | SharedTiles, names: StepNames) -> Step:
    def loops(stage: str, order: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.loop(stage, name) for name in order)

    match step:
        case SharedTiles(stage, count, dim, layout):
            return SharedTiles(names.stage(stage), names.factor(count), dim, names.factor(layout))
        case Pack(tensor, dim, reader, order, writer_loops, prefetch):
            return Pack(
                names.tensor(tensor),
                dim,
                names.stage(reader),
                loops(reader, order),
                loops(tensor, writer_loops),
                names.factor(prefetch),
            )


def step_with_factors(step: Step, factor: Callable[[Factor], Factor]) -> Step:
    """``step`` with ``factor`` of each of its factors."""
    match step:
        case Split(factors=factors):
            return replace(step, factors=tuple(map(factor, factors)))
        case Pack(prefetch=prefetch):
            return replace(step, prefetch=factor(prefetch))
        case SharedTiles(count=count, layout=layout):
            return replace(step, count=factor(count), layout=factor(layout))
    return step
