"""What the tuner sends to the timing child; light to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.measure.options import MeasureOptions
from sketch.schedule.decision import DecisionId
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class TimingSetup:
    """What the timing child is forked with."""

    target: Target
    options: MeasureOptions


@dataclass(frozen=True, slots=True)
class ComingCandidate:
    """One candidate that is still being built.

    Attributes:
        sketch: key of a sketch that was sent before.
        values: decisions by name.
    """

    sketch: str
    values: Mapping[DecisionId, int]


@dataclass(frozen=True, slots=True)
class TimingRequest:
    """One built candidate.

    Attributes:
        task: key of a task that was sent before.
        sketch: key of a sketch that was sent before.
        values: decisions by name.
        kernel: pickled ``codegen.kernel.CompiledKernel``.
    """

    task: str
    sketch: str
    values: Mapping[DecisionId, int]
    kernel: bytes
