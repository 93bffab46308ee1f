"""The protocol of a generation rule, and the state that rules work on.

Stages are visited consumers first.  A state is the steps so far; a rule looks at the current stage
and returns the states that follow from applying it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import ClassVar, Protocol

from sketch.lang.tensor import SharedBuffer
from sketch.schedule.program import Program, StagePlan
from sketch.schedule.replay import apply_step
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Step
from sketch.target.target import Target


class Verdict(Enum):
    """What a rule says about a stage."""

    SKIP = auto()
    APPLY = auto()  # and let later rules offer alternatives
    APPLY_AND_STOP = auto()  # later rules are not asked


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A partly built sketch.

    Attributes:
        scheduled: the stages that need no further rule.
        choices: which alternative was taken for the stages of a shared buffer, by the buffer and
            the number of alternatives.
        idle: rules applied one after another without one that scheduled a stage.
        foreign: names of the rules applied that are not built in.
    """

    target: Target
    program: Program
    steps: tuple[Step, ...] = ()
    scheduled: frozenset[StageId] = frozenset()
    choices: Mapping[tuple[SharedBuffer, int], int] = field(default_factory=dict)
    idle: int = 0
    foreign: tuple[str, ...] = ()

    def then(self, *steps: Step) -> State:
        """The state after more steps."""
        program = self.program
        for step in steps:
            program = apply_step(program, step)
        return replace(self, program=program, steps=(*self.steps, *steps))

    def done(self, stages: Iterable[StageId]) -> State:
        """The state with stages marked as scheduled."""
        return replace(self, scheduled=self.scheduled | frozenset(stages))

    def current(self) -> StagePlan | None:
        """The last stage that is not scheduled; None when the sketch is complete."""
        stages = reversed(self.program.stages)
        return next((plan for plan in stages if plan.id not in self.scheduled), None)


class SketchRule(Protocol):
    """A generation rule: a small frozen value; its options are its fields.

    ``eager`` rules are asked about every stage before any other rule is, and take effect where
    they answer APPLY_AND_STOP: a reduction must see its consumer after inlining.
    """

    eager: ClassVar[bool]

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Whether the rule has something to offer for ``stage``."""
        ...

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """The states that follow; only called when ``applies`` did not skip."""
        ...
