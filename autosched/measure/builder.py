"""The building child: sketch and decisions in, machine code out.

It also computes references, and whatever else is asked of it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from autosched.measure.channel import Channel
from autosched.measure.child import serve
from autosched.measure.function_reference import resolve
from autosched.measure.inputs import random_inputs
from autosched.measure.result import Failure
from autosched.tasks.candidate import Candidate
from autosched.tasks.kernel import kernel_of
from codegen.backend import backend_of
from codegen.kernel import CompiledKernel
from sketch.errors import AutoschedError, LoweringError, ScheduleError
from sketch.oracle.reference import reference
from sketch.population.uncollected import uncollected
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch

# The tuner chooses the next batch meanwhile and goes first: its work cannot be shared out.
_NICE: Final = 10
Build = Callable[[Sketch, Mapping[DecisionId, int]], CompiledKernel]


def build_candidate(sketch: Sketch, values: Mapping[DecisionId, int]) -> CompiledKernel:
    """Lower and compile one candidate for the sketch's own target.

    Raises:
        LoweringError, ScheduleError: the decisions make no loops.
        InfeasibleError: the compiler's result is not worth timing: it spills registers, say.
        CodegenError: they make no code.
    """
    kernel = kernel_of(Candidate(sketch, values), sketch.target)
    backend_of(sketch.target).check(kernel)
    return kernel


class Builder:
    """The state of a building child: its function and the sketches it was sent."""

    def __init__(self, build_reference: str) -> None:
        self._build: Build = resolve(build_reference)
        self._sketches: dict[str, Sketch] = {}

    def sketch(self, key: str, payload: bytes) -> None:
        """Keep a sketch (pickled) for later requests."""
        self._sketches[key] = pickle.loads(payload)

    def build(self, key: str, values: Mapping[DecisionId, int]) -> bytes | Failure:
        """The kernel, pickled, or why there is none."""
        try:
            with uncollected():
                kernel = self._build(self._sketches[key], values)
        except (LoweringError, ScheduleError) as error:
            return failure("lower", error)
        except Exception as error:  # the boundary: whatever goes wrong is a result
            return failure("compile", error)
        return pickle.dumps(kernel, protocol=pickle.HIGHEST_PROTOCOL)

    def reference(self, dag: bytes, seed: int) -> bytes | Failure:
        """The oracle's result for the task's inputs of ``seed``, pickled."""
        try:
            task_dag = pickle.loads(dag)
            rng = np.random.default_rng(seed)
            result = reference(task_dag, random_inputs(task_dag, seed), rng)
        except Exception as error:  # the boundary
            return failure("verify", error)
        return pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)


def work(function: str, payload: bytes) -> bytes | None:
    """What a function makes of ``payload``; None where it fails: who asked does it again."""
    try:
        with uncollected():
            result: bytes = resolve(function)(payload)
    except Exception:  # the boundary
        return None
    return result


def failure(stage: Any, error: Exception) -> Failure:
    """An exception as a value; our own errors carry their advice, others just their text."""
    text = str(error) if isinstance(error, AutoschedError) else str(error)[:2000]
    return Failure(stage, type(error).__name__, text)


def serve_builder(channel: Channel, build_reference: str) -> None:
    """Answer build requests until the channel closes; ``build_reference`` names the function."""
    os.nice(_NICE)
    builder = Builder(build_reference)
    serve(
        channel,
        {
            "sketch": builder.sketch,
            "build": builder.build,
            "reference": builder.reference,
            "work": work,
        },
    )


def serve_work(channel: Channel, _setup: None) -> None:
    """Do whatever is asked, until the channel closes; somebody waits for it."""
    serve(channel, {"work": work})
