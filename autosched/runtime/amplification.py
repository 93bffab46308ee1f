"""How far errors of single steps move the outputs of a program."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import hypot
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.executor import Executor
from autosched.runtime.program import ExecutionPlan, Place, Step

Outputs = tuple[NDArray[Any], ...]

# Of the values of a step, relative to their root mean square: far above the roundings of those that
# follow, and small enough that twice as much moves the outputs twice as far.
_DEVIATION: Final = 1e-3
# The largest of many at a time, which add up: ten times less.
_ALL_DEVIATIONS: Final = 1e-4
# The last argument of a kernel on a CPU is its workspace.
_OUTPUT: Final = -2


def amplifications(
    program: ExecutionPlan,
    executor: Executor,
    inputs: Mapping[str, NDArray[Any]],
    steps: Collection[int],
    team: int = 0,
) -> dict[int, float]:
    """By step: the largest change of an output, relative to its largest element, for a relative
    error 1 in what the step writes.

    Noise is added to the values of one step after another, and what follows it runs.  Steps whose
    values lie in no arena write outputs, where an error stays what it is.

    Args:
        program: kernels on a CPU, without loops.
        executor: of the program; nobody else uses it.
        inputs: arrays by name.
        steps: numbers of steps that write float32.
        team: address of the threads that help.
    """
    rng = np.random.default_rng(0)
    exact = _exact(executor, inputs, team)
    found: dict[int, float] = {}
    done = 0
    for number in sorted(steps):
        values = _written(program.steps[number], executor.arena)
        if values is None:
            found[number] = 1.0
            continue
        executor.run_steps(done, number, team)
        before = values.copy()
        executor.run_steps(number, number + 1, team)
        kept = executor.arena.copy()
        _disturb(values, before, _DEVIATION, rng)
        executor.run_steps(number + 1, len(program.steps), team)
        found[number] = _moved(executor.outputs(), exact) / _DEVIATION
        executor.arena[...] = kept
        done = number + 1
    executor.results()
    return found


def moved_together(
    program: ExecutionPlan,
    executor: Executor,
    inputs: Mapping[str, NDArray[Any]],
    errors: Mapping[int, float],
    team: int = 0,
) -> float:
    """The largest change of an output, relative to its largest element, that errors of all these
    steps make together: what ``amplifications`` finds step by step, from two runs.

    Args:
        program: kernels on a CPU, without loops.
        executor: of the program; nobody else uses it.
        inputs: arrays by name.
        errors: relative error of what a step writes, by its number; positive.
        team: address of the threads that help.
    """
    rng = np.random.default_rng(0)
    exact = _exact(executor, inputs, team)
    scale = _ALL_DEVIATIONS / max(errors.values())
    done, own = 0, 0.0
    for number in sorted(errors):
        values = _written(program.steps[number], executor.arena)
        if values is None:
            own = max(own, errors[number])
            continue
        executor.run_steps(done, number, team)
        before = values.copy()
        executor.run_steps(number, number + 1, team)
        _disturb(values, before, errors[number] * scale, rng)
        done = number + 1
    executor.run_steps(done, len(program.steps), team)
    moved = _moved(executor.outputs(), exact) / scale
    executor.results()
    return hypot(moved, own)


def _exact(executor: Executor, inputs: Mapping[str, NDArray[Any]], team: int) -> Outputs:
    """The outputs of an undisturbed run.  The arena is empty after it, so that what a step writes
    shows as a change.
    """
    executor.bind(inputs)
    executor.run(team)
    exact = tuple(array.copy() for array in executor.outputs())
    executor.arena[...] = 0
    return exact


def _written(step: Any, arena: NDArray[np.uint8]) -> NDArray[np.float32] | None:
    """The part of the arena that holds the values of a step, and maybe others between them."""
    assert isinstance(step, Step)
    place, size = step.arguments[_OUTPUT], step.sizes[_OUTPUT]
    if not isinstance(place, Place) or place.segment != "arena":
        return None
    return arena[place.offset : place.offset + size].view(np.float32)


def _disturb(
    values: NDArray[np.float32],
    before: NDArray[np.float32],
    deviation: float,
    rng: np.random.Generator,
) -> None:
    """Add noise to what differs from ``before``, but for zeros: a ReLU would make them again.

    Args:
        values: what a step has written; changed in place.
        before: what was there.
        deviation: of the noise, relative to the values' root mean square.
        rng: where it comes from.
    """
    new = (values.view(np.uint32) != before.view(np.uint32)) & (values != 0) & np.isfinite(values)
    mean_square = np.mean(np.square(values, dtype=np.float64), where=new) if new.any() else 0.0
    noise = rng.standard_normal(len(values), np.float32)
    noise *= np.float32(deviation * np.sqrt(mean_square))
    np.add(values, noise, out=values, where=new)


def _moved(outputs: Outputs, exact: Outputs) -> float:
    """The largest difference relative to the largest element of its array; of floats."""
    most = 0.0
    for array, expected in zip(outputs, exact, strict=True):
        if array.dtype.kind != "f" or not array.size:
            continue
        wanted = expected.astype(np.float64)
        largest = np.abs(wanted).max()
        if np.isfinite(largest) and largest > 0:
            difference = np.abs(array.astype(np.float64) - wanted).max()
            most = max(most, float(difference / largest))
    return most
