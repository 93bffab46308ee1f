"""Stages and tensors as values: what steps, plans and decisions are about.

A stage of the DAG is its position there, a stage that a step added is what it was made for.  Two
programs that differ in names alone have equal ids for equal schedules.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple


class Role(IntEnum):
    """What a step made a stage for; a number, as ids are hashed often."""

    ACCUMULATE = 1  # CacheWrite: computes what its consumer copies out
    COPY_OUT = 2  # CacheWrite: copies the result out
    CACHE = 3  # CacheRead: holds a copy of a tensor
    PARTIAL = 4  # Rfactor, SplitReduce: partial reductions
    COMBINE = 5  # Rfactor, SplitReduce: combines them


class StageId(NamedTuple):
    """A stage, however often steps rewrite it.

    Attributes:
        origin: its position among the stages of the DAG; of a stage that a step added, the stage
            that it was added for, which reads it.
        role: what a step added it for; None for a stage of the DAG.
        number: tells stages of one origin and role apart.
    """

    origin: int | StageId
    role: Role | None = None
    number: int = 0

    @property
    def first(self) -> int:
        """The stage of the DAG that it is, or was added for."""
        return self.origin if isinstance(self.origin, int) else self.origin.first

    def __str__(self) -> str:
        """``0``, ``0/cache1``: for messages where there is no program to name it."""
        if self.role is None:
            return str(self.origin)
        return f"{self.origin}/{self.role.name.lower()}{self.number}"


class InputId(NamedTuple):
    """A placeholder: its position among the inputs of the DAG."""

    position: int

    def __str__(self) -> str:
        return f"in{self.position}"


class ResultId(NamedTuple):
    """A result of a stage that has several."""

    stage: StageId
    output: int

    def __str__(self) -> str:
        return f"{self.stage}.{self.output}"


OperationId = InputId | StageId
TensorId = InputId | StageId | ResultId
"""An input, the result of a stage, or one of its several results."""


def new_stage(origin: StageId, role: Role, taken: Collection[StageId]) -> StageId:
    """The id of the next stage that is added for ``origin`` to do ``role``."""
    number = 0
    while StageId(origin, role, number) in taken:
        number += 1
    return StageId(origin, role, number)
