"""Which variants a network's tasks may have, so that together they leave its outputs accurate.

An error of a task is not the network's: each layer that follows makes it larger or smaller.  By how
much is measured, with noise in the values of one step after another; errors of different kernels
are independent, so their squares add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, hypot, inf
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosched.compilation.scheduled import expected_seconds
from autosched.runtime.amplification import amplifications, moved_together
from autosched.runtime.backend import runtime_of
from autosched.runtime.cpu_program import CpuProgram
from autosched.runtime.random_arrays import random_arrays
from sketch.analysis.jumps import jumps
from sketch.variants import error_growth

if TYPE_CHECKING:
    from autosched.compilation.scheduled import Scheduled
    from autosched.runtime.archive import Contents
    from sketch.target.target import Target

# A hundred tasks lose less than a hundredth of what is allowed by rounding up.
_PARTS: Final = 1 << 14
# Two runs tell the errors of all steps together this well; one more for each step tells them apart.
_WELL_WITHIN: Final = 0.7
# Below it, relative errors have no meaning in float32.
_LEAST_ERROR: Final = 2.0**-126


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to compute a task.

    Attributes:
        item: its schedule.
        seconds: of all places in a network together.
        error: what it adds to the largest of the network's outputs, relative to that, in all of
            its places together.
    """

    item: Scheduled
    seconds: float
    error: float


def within(tasks: Sequence[Sequence[Choice]], limit: float) -> list[Choice]:
    """One choice for each task, the first of all where their errors are at most ``limit`` together.

    Else those that take the least time with that, by dynamic programming over the sum of squares in
    parts of ``limit`` squared, rounded up; those with the least errors where nothing is within it.
    """
    firsts = [choices[0] for choices in tasks]
    if _squares(firsts) <= limit**2:
        return firsts
    least = [min(choices, key=lambda choice: choice.error) for choices in tasks]
    if limit <= 0.0:
        return least
    seconds = np.zeros(_PARTS + 1)  # of the tasks so far, by the parts that are left for the others
    taken: list[NDArray[np.int64]] = []
    for choices in tasks:
        ways = np.full((len(choices), _PARTS + 1), np.inf)
        for way, choice in zip(ways, choices, strict=True):
            parts = _parts(choice, limit)
            if parts <= _PARTS:
                way[: _PARTS + 1 - parts] = seconds[parts:] + choice.seconds
        taken.append(ways.argmin(axis=0))
        seconds = ways.min(axis=0)
    if np.isinf(seconds[0]):
        return least
    chosen: list[Choice] = []
    left = int(np.argmin(seconds))
    for choices, numbers in zip(reversed(tasks), reversed(taken), strict=True):
        chosen.append(choices[int(numbers[left])])
        left += _parts(chosen[-1], limit)
    return chosen[::-1]


def _squares(choices: Sequence[Choice]) -> float:
    return sum(choice.error**2 for choice in choices)


def _parts(choice: Choice, limit: float) -> int:
    """Of the square of the limit that the square of an error takes."""
    share = min((choice.error / limit) ** 2, 2.0)
    return ceil(share * _PARTS)


def held(
    contents: Contents,
    items: Sequence[Scheduled],
    limit: float,
    others: Callable[[Scheduled], Iterable[Scheduled]],
) -> list[Scheduled] | None:
    """The schedules with which variants add at most ``limit`` to the errors of a network's outputs,
    relative to their largest elements; None where those that it has do.

    Such a network makes errors large: what is not computed by such a variant has short sums.

    It is not known of programs with loops or steps on the host, and for other machines.

    Args:
        contents: of the network with ``items``.
        items: its schedules, one a task.
        limit: relative error.
        others: other schedules of a task, with less error, one a variant; asked where necessary.
    """
    if limit == inf:
        return None
    found = [(item.task.key, error_of(item), _result_type(item)) for item in items]
    errors = {key: error for key, error, dtype in found if error >= _LEAST_ERROR and dtype}
    gains = _amplifications(contents, errors, {key: dtype for key, _, dtype in found}, limit)
    if hypot(*(gain * errors[key] for key, gain in gains.items())) <= limit:
        return None
    choices = {
        item.task.key: [_choice(one, item, gains[item.task.key]) for one in (item, *others(item))]
        for item in items
        if item.task.key in gains
    }
    chosen = dict(zip(choices, within(list(choices.values()), limit), strict=True))
    left = [
        _instead(choices[key][0], chosen[key]) if (key := item.task.key) in chosen else item
        for item in items
    ]
    return [replace(item, short_sums=True) if _growth(item) <= 1.0 else item for item in left]


def _choice(item: Scheduled, first: Scheduled, gain: float) -> Choice:
    return Choice(item, expected_seconds(item) * item.task.weight, gain * error_of(item, first))


def _instead(first: Choice, chosen: Choice) -> Scheduled:
    if chosen is first:
        return chosen.item
    refused = f"{first.item.candidate.sketch.variant} adds {first.error:.1e} to the network's error"
    return replace(chosen.item, refused=refused)


def error_of(item: Scheduled, other: Scheduled | None = None) -> float:
    """Of its variant, on normal data; 0 for the task as it is written, and what is as accurate.

    Where it was never measured it is estimated: from what is known of how errors grow, and of the
    error of an ``other`` variant of the task, or of how values are rounded.  So it is where results
    jump: a check allows what rounding may do there, and errors before a jump do not show.
    """
    growth = _growth(item)
    if growth <= 1.0:
        return 0.0
    if item.known_errors:
        hidden = growth * float(np.finfo(np.float32).eps) if jumps(item.task.dag.stages) else 0.0
        return max(item.known_errors[0], hidden)
    if other is not None and other.known_errors and _growth(other) > 1.0:
        return other.known_errors[0] * growth / _growth(other)
    return growth * float(np.finfo(np.float32).eps)


def _result_type(item: Scheduled) -> str:
    """Of its results, where errors as small as those of variants show in them; "" where they do
    not, as rounding to integers or 16 bits makes larger ones.
    """
    dtypes = {array.dtype for array in item.task.dag.output_arrays}
    return dtypes.pop() if len(dtypes) == 1 and dtypes <= {"float32", "float64"} else ""


def _growth(item: Scheduled) -> float:
    """At most this many times the errors of the task as it is written."""
    return error_growth(item.candidate.sketch.variant) if item.of_variant else 1.0


def runs_here(target: Target) -> bool:
    """Whether programs for such a machine run in this process."""
    runtime = runtime_of(target)
    return runtime.in_process and runtime.code.missing(target) is None


def _amplifications(
    contents: Contents, errors: Mapping[str, float], dtypes: Mapping[str, str], limit: float
) -> dict[str, float]:
    """By key of a task: how errors of all of its steps together move the outputs; of none where
    ``errors`` of all tasks together, by their keys, stay well within ``limit``.  ``dtypes``: of
    their results.
    """
    program, constants, objects, payloads = contents
    runtime, runs = runtime_of(program.target), runs_here(program.target)
    keys = {n: key for n, step in enumerate(program.steps) if (key := step.info.task) in errors}
    if not keys or not runs or program.loops or program.host_steps:
        return {}
    loaded = runtime.load(program, constants, objects, payloads)
    assert isinstance(loaded, CpuProgram)
    inputs = random_arrays(program.inputs)
    own = {number: errors[key] for number, key in keys.items()}
    kinds = {number: dtypes[key] for number, key in keys.items()}
    with loaded.lease() as team:
        address = 0 if team is None else team.address
        executor = loaded.take()
        if moved_together(program, executor, inputs, own, kinds, address) <= _WELL_WITHIN * limit:
            return {}
        found = amplifications(program, executor, inputs, kinds, address)
    gains: dict[str, float] = {}
    for number, gain in found.items():
        key = keys[number]
        gains[key] = hypot(gains.get(key, 0.0), gain)
    return gains
