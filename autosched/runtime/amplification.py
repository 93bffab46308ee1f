"""How far errors of steps move the outputs of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import hypot, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.executor import Executor
from autosched.runtime.program import ExecutionPlan, Moving, Step

Outputs = tuple[NDArray[Any], ...]
Gains = tuple[float, ...]
"""Of each output: its largest change relative to its largest element, for a relative error 1."""

# Of the values of a step, relative to their root mean square: far above the roundings of those that
# follow, and small enough that twice as much moves the outputs twice as far.
_DEVIATION: Final = 1e-3
# The largest of many at a time, which add up: ten times less.
_ALL_DEVIATIONS: Final = 1e-4
# Noise is drawn from that many normal numbers, one for each value of 16 random bits: in a third of
# the time of new ones, and with extremes as far away, which is what outputs are judged by.
_NORMAL_NUMBERS: Final = 1 << 16
# The last argument of a kernel on a CPU is its workspace.
_OUTPUT: Final = -2


def amplifications(
    program: ExecutionPlan,
    executor: Executor,
    inputs: Mapping[str, NDArray[Any]],
    tasks: Mapping[int, str],
    dtypes: Mapping[str, str],
    team: int = 0,
) -> dict[str, Gains]:
    """By task: how far a relative error in what its steps write moves the outputs.

    Noise is added to the values of one task after another, all of its steps in one run: errors of
    different kernels are independent.  Where nothing says anything, as all values are zero, an
    error is taken to stay what it is.

    Args:
        program: kernels on a CPU, without loops.
        executor: of the program; nobody else uses it.
        inputs: arrays by name.
        tasks: of steps, by their numbers.
        dtypes: of what the steps of a task write: float32 or float64.
        team: address of the threads that help.
    """
    rng = np.random.default_rng(0)
    exact = _exact(executor, inputs, team)
    memory = _memory(executor)
    steps: dict[str, list[int]] = {}
    for number in sorted(tasks):
        steps.setdefault(tasks[number], []).append(number)
    found: dict[str, Gains] = {}
    done = 0
    for task, own in steps.items():  # in the order of their first steps
        executor.run_steps(done, own[0], team)
        done = own[0]
        kept = [part.copy() for part in memory]
        noise = {number: _Noise(_DEVIATION, dtypes[task]) for number in own}
        unseen = _run_disturbed(program, executor, done, noise, rng, team)
        changes = _changes(executor.outputs(), exact)
        if all(change is None for change in changes):
            unseen = own
        found[task] = tuple(
            sqrt(len(unseen)) if change is None else change / _DEVIATION for change in changes
        )
        for part, then in zip(memory, kept, strict=True):
            part[...] = then
    executor.results()
    return found


def moved_together(
    program: ExecutionPlan,
    executor: Executor,
    inputs: Mapping[str, NDArray[Any]],
    errors: Mapping[int, float],
    dtypes: Mapping[int, str],
    team: int = 0,
) -> float:
    """The largest change of an output, relative to its largest element, that errors of all these
    steps make together: what ``amplifications`` finds task by task, from two runs.

    Args:
        program: kernels on a CPU, without loops.
        executor: of the program; nobody else uses it.
        inputs: arrays by name.
        errors: relative error of what a step writes, by its number; positive.
        dtypes: of what these steps write: float32 or float64.
        team: address of the threads that help.
    """
    rng = np.random.default_rng(0)
    exact = _exact(executor, inputs, team)
    scale = _ALL_DEVIATIONS / max(errors.values())
    noise = {n: _Noise(errors[n] * scale, dtypes[n]) for n in sorted(errors)}
    unseen = [errors[n] for n in _run_disturbed(program, executor, 0, noise, rng, team)]
    changes = _changes(executor.outputs(), exact)
    executor.results()
    moved = [change / scale for change in changes if change is not None]
    if not moved:
        return hypot(*errors.values())
    return max(*moved, hypot(*unseen) if len(moved) < len(changes) else 0.0)


@dataclass(frozen=True, slots=True)
class _Noise:
    """What is added to the values of a step: how much, relative to them, and their type."""

    deviation: float
    dtype: str


def _run_disturbed(
    program: ExecutionPlan,
    executor: Executor,
    first: int,
    noise: Mapping[int, _Noise],
    rng: np.random.Generator,
    team: int,
) -> list[int]:
    """Run the steps from ``first`` to the end, with noise in what some write: those of these steps
    that had nothing to add it to.

    ``noise``: by number of the step, in their order.
    """
    unseen: list[int] = []
    done = first
    for number, added in noise.items():
        values = _written(program.steps[number], executor, added.dtype)
        executor.run_steps(done, number, team)
        before = values.copy()
        done = number + 1
        executor.run_steps(number, done, team)
        if not _disturb(values, before, added.deviation, rng):
            unseen.append(number)
    executor.run_steps(done, len(program.steps), team)
    return unseen


def _exact(executor: Executor, inputs: Mapping[str, NDArray[Any]], team: int) -> Outputs:
    """The outputs of an undisturbed run.  All memory is zero after it, so that what a step writes
    shows as a change.
    """
    executor.bind(inputs)
    executor.run(team)
    exact = tuple(array.copy() for array in executor.outputs())
    for part in _memory(executor):
        part[...] = 0
    return exact


def _memory(executor: Executor) -> tuple[NDArray[Any], ...]:
    """All that steps write."""
    return (executor.arena, *executor.outputs())


def _written(step: Any, executor: Executor, dtype: str) -> NDArray[Any]:
    """The memory that holds the values of a step, and maybe others between them."""
    assert isinstance(step, Step)
    argument, size = step.arguments[_OUTPUT], step.sizes[_OUTPUT]
    # Without loops, what moves is a part of an output.
    part = argument if isinstance(argument, Moving) else Moving(argument, 0, 0)
    if part.place.segment == "arena":
        memory, start = executor.arena, part.place.offset + part.start
    else:
        memory, start = executor.outputs()[part.place.offset].reshape(-1).view(np.uint8), part.start
    return memory[start : start + size].view(dtype)


def _disturb(
    values: NDArray[Any],
    before: NDArray[Any],
    deviation: float,
    rng: np.random.Generator,
) -> bool:
    """Add noise to what differs from ``before``, but for zeros: a ReLU would make them again.

    Returns:
        whether there was something to add it to.

    Args:
        values: what a step has written; changed in place.
        before: what was there.
        deviation: of the noise, relative to the values' root mean square.
        rng: where it comes from.
    """
    bits = f"u{values.itemsize}"
    new = (values.view(bits) != before.view(bits)) & (values != 0) & np.isfinite(values)
    known = np.where(new, values, 0)
    largest = float(np.abs(known).max(initial=0.0))
    if not largest:
        return False
    known /= largest
    size = largest * sqrt(float(known @ known) / np.count_nonzero(new))
    drawn = np.frombuffer(rng.bytes(2 * len(values)), np.uint16)
    noise = _normal_numbers()[drawn].astype(values.dtype, copy=False)
    noise *= deviation * size
    np.add(values, noise, out=values, where=new)
    return True


@cache
def _normal_numbers() -> NDArray[np.float32]:
    """``_NORMAL_NUMBERS`` of them, each with its negative."""
    half = np.random.default_rng(0).standard_normal(_NORMAL_NUMBERS // 2, np.float32)
    half /= np.sqrt(np.mean(np.square(half)))
    return np.concatenate([half, -half])


def _changes(outputs: Outputs, exact: Outputs) -> list[float | None]:
    """Of each output, see ``_change``."""
    return [_change(array, expected) for array, expected in zip(outputs, exact, strict=True)]


def _change(array: NDArray[Any], exact: NDArray[Any]) -> float | None:
    """The largest difference relative to the largest element; None where all are zero or infinite.

    What becomes finite or is no longer differs as much as the largest element.  Integers differ by
    steps, however little changes, but the less changes, the fewer of them do: of those it is the
    mean of all differences, relative to the mean element.
    """
    wanted, found = exact.astype(np.float64), array.astype(np.float64)
    finite = np.isfinite(wanted)
    sizes = np.abs(wanted[finite])
    if not sizes.any():
        return None
    if (finite != np.isfinite(found)).any():
        return 1.0
    differences = np.abs(found[finite] - wanted[finite])
    if exact.dtype.kind in "biu":
        return float(differences.mean() / sizes.mean())
    return float(differences.max() / sizes.max())
