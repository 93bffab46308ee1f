"""Carry steps and decisions over to a program of the same structure under other names.

A program's key ignores names, so a record made for one model must serve another that has the same
program.  Names are matched by position: inputs, stages, and the axes of each stage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sketch.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.steps import (
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

# What steps append to the names of stages and axes that they derive others from.
_DERIVED_STAGE: Final = re.compile(r"(.+?)((?:\.(?:local|cache|rf))*)")
_DERIVED_AXIS: Final = re.compile(r"(.+?)((?:_part|_chunk)*)")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a program: placeholders, and each stage with its axes (spatial, then reduce)."""

    inputs: tuple[str, ...]
    stages: tuple[tuple[str, tuple[str, ...]], ...]


def names_of(dag: ComputeDAG) -> Names:
    """The names of ``dag`` in canonical positions."""
    stages = tuple(
        (op.name, tuple(axis.name for axis in (*op.axes, *op.reduce_axes))) for op in dag.stages
    )
    return Names(tuple(tensor.name for tensor in dag.inputs), stages)


def rename(
    steps: tuple[Step, ...], decisions: Mapping[str, int], old: Names, new: Names
) -> tuple[tuple[Step, ...], dict[str, int]]:
    """Steps and decisions of a program called ``old`` for the same program called ``new``.

    Raises ScheduleError when the two do not have the same number of inputs, stages and axes.
    """
    if old == new:
        return steps, dict(decisions)
    mapping = _Mapping.between(old, new)
    renamed = tuple(mapping.step(step) for step in steps)
    return renamed, {mapping.decision(name): value for name, value in decisions.items()}


@dataclass(frozen=True, slots=True)
class _Mapping:
    stages: Mapping[str, str]
    axes: Mapping[str, Mapping[str, str]]

    @staticmethod
    def between(old: Names, new: Names) -> _Mapping:
        sizes = [len(axes) for _, axes in old.stages]
        if len(old.inputs) != len(new.inputs) or sizes != [len(axes) for _, axes in new.stages]:
            raise ScheduleError(
                f"a record of a program with {len(old.inputs)} inputs and axes {sizes} does not "
                "fit this program",
                hint="tune it again",
            )
        stages = dict(zip(old.inputs, new.inputs, strict=True))
        axes: dict[str, Mapping[str, str]] = {}
        for (before, old_axes), (after, new_axes) in zip(old.stages, new.stages, strict=True):
            stages[before] = after
            axes[before] = dict(zip(old_axes, new_axes, strict=True))
        return _Mapping(stages, axes)

    def stage(self, name: str) -> str:
        if name in self.stages:
            return self.stages[name]
        match = _DERIVED_STAGE.fullmatch(name)
        assert match is not None
        return self.stages.get(match[1], match[1]) + match[2]

    def axis(self, stage: str, name: str) -> str:
        """An axis of ``stage`` (old name); those of cached tensors are numbered, not named."""
        match = _DERIVED_STAGE.fullmatch(stage)
        assert match is not None
        known = self.axes.get(stage, self.axes.get(match[1], {}))
        if stage.endswith(".cache") or name in known:
            return known.get(name, name)
        derived = _DERIVED_AXIS.fullmatch(name)
        assert derived is not None
        return known.get(derived[1], derived[1]) + derived[2]

    def loop(self, stage: str, name: str) -> str:
        axis, level = name.rsplit(".", 1)
        return f"{self.axis(stage, axis)}.{level}"

    def decision(self, name: str) -> str:
        path, level = name.rsplit("@", 1)
        stage, axis = path.rsplit(".", 1)
        return f"{self.stage(stage)}.{self.axis(stage, axis)}@{level}"

    def factors(self, factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
        return tuple(f if isinstance(f, int) else self.decision(f) for f in factors)

    def step(self, step: Step) -> Step:
        match step:
            case Inline(stage) | CacheWrite(stage):
                return replace(step, stage=self.stage(stage))
            case CacheRead(tensor, consumer):
                return replace(step, tensor=self.stage(tensor), consumer=self.stage(consumer))
            case Rfactor(stage, axis):
                return replace(step, stage=self.stage(stage), axis=self.axis(stage, axis))
            case Split(stage, axis, factors):
                return Split(self.stage(stage), self.axis(stage, axis), self.factors(factors))
            case Reorder(stage, order):
                return Reorder(self.stage(stage), tuple(self.loop(stage, x) for x in order))
            case ComputeAt(stage, target, loop_name):
                host = self.stage(target)
                return ComputeAt(self.stage(stage), host, self.loop(target, loop_name))
            case Annotate(stage, loop_name, execution):
                return Annotate(self.stage(stage), self.loop(stage, loop_name), execution)
            case Pack(tensor, dim, reader, loops, writer_loops, prefetch):
                return Pack(
                    self.stage(tensor),
                    dim,
                    self.stage(reader),
                    tuple(self.loop(reader, x) for x in loops),
                    tuple(self.loop(tensor, x) for x in writer_loops),
                    *self.factors((prefetch,)),
                )
