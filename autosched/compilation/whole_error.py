"""Which variants a network's tasks may have, so that together they leave its outputs accurate.

An error of a task is not the network's: each layer that follows makes it larger or smaller.  By how
much is measured, with noise in the values of one step after another; errors of different kernels
are independent, so their squares add up, in each of the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import hypot, inf, prod
from typing import TYPE_CHECKING, Final

from autosched.compilation.accurate_choices import Choice, within_all
from autosched.compilation.scheduled import expected_seconds
from autosched.records.error_budget import expected_error
from autosched.runtime.amplification import Gains, amplifications, moved_together
from autosched.runtime.backend import runtime_of
from autosched.runtime.cpu_program import CpuProgram
from autosched.runtime.random_arrays import random_arrays
from codegen.passes.partial_sums import SHORT_TERMS
from sketch.analysis.jumps import jumps, rounded_to
from sketch.lang.reducers import adds_floats
from sketch.variants import error_growth

if TYPE_CHECKING:
    from autosched.compilation.scheduled import Scheduled
    from autosched.runtime.archive import Contents
    from sketch.target.target import Target

# Two runs tell the errors of all steps together this well; one more for each task tells them apart.
_WELL_WITHIN: Final = 0.7
# Of the limit: the errors of networks are estimated to 3 % or so.
_ESTIMATED: Final = 0.95
# Below it, relative errors have no meaning in float32.
_LEAST_ERROR: Final = 2.0**-126


def held(
    contents: Contents,
    items: Sequence[Scheduled],
    limit: float,
    others: Callable[[Sequence[Scheduled]], Sequence[Sequence[Scheduled]]],
) -> list[Scheduled] | None:
    """The schedules with which variants add at most ``limit`` to the errors of a network's outputs,
    relative to their largest elements; None where those that it has do.

    Such a network makes errors large: what is not computed by such a variant has short sums.

    It is not known of programs with loops or steps on the host, and for other machines.

    Args:
        contents: of the network with ``items``.
        items: its schedules, one a task.
        limit: relative error.
        others: other schedules of tasks, with less error, one a variant; asked where necessary.
    """
    if limit == inf:
        return None
    found = [(item.task.key, error_of(item), _result_type(item)) for item in items]
    errors = {key: error for key, error, dtype in found if error >= _LEAST_ERROR and dtype}
    limit *= _ESTIMATED
    gains = _amplifications(contents, errors, {key: dtype for key, _, dtype in found}, limit)
    if _largest(errors, gains) <= limit:
        return None
    moving = [item for item in items if item.task.key in gains]
    choices = {
        item.task.key: [_choice(one, item) for one in (item, *own)]
        for item, own in zip(moving, others(moving), strict=True)
    }
    numbers = within_all(list(choices.values()), [gains[key] for key in choices], limit)
    chosen = {
        key: _instead(choices[key][0], choices[key][number], max(gains[key]))
        for key, number in zip(choices, numbers, strict=True)
    }
    left = [chosen.get(item.task.key, item) for item in items]
    return [replace(item, short_sums=True) if _may_be_short(item) else item for item in left]


def add_errors(items: Iterable[Scheduled]) -> bool:
    """Whether some schedule has more error than the task as it is written."""
    return any(error_of(item) >= _LEAST_ERROR for item in items)


def _largest(errors: Mapping[str, float], gains: Mapping[str, Gains]) -> float:
    """Error of the worst output."""
    moved = [[errors[key] * gain for gain in own] for key, own in gains.items()]
    return max((hypot(*output) for output in zip(*moved, strict=True)), default=0.0)


def _choice(item: Scheduled, first: Scheduled) -> Choice:
    return Choice(item, expected_seconds(item) * item.task.weight, error_of(item, first))


def _instead(first: Choice, chosen: Choice, gain: float) -> Scheduled:
    if chosen.error >= first.error:
        return chosen.item
    added = f"adds {gain * first.error:.1e} to the network's error"
    return replace(chosen.item, refused=f"{first.item.candidate.sketch.variant} {added}")


def _may_be_short(item: Scheduled) -> bool:
    """Whether a kernel sums so many products, as they are written, that other sums matter."""
    terms = (
        prod(axis.extent for axis in op.reduce_axes)
        for op in item.task.dag.stages
        if op.reduce is not None and adds_floats(op.reduce.reducer)
    )
    return _growth(item) <= 1.0 and max(terms, default=0) > SHORT_TERMS


def error_of(item: Scheduled, other: Scheduled | None = None) -> float:
    """Of its variant, on normal data; 0 for the task as it is written, and what is as accurate.

    Where it was never measured it is estimated: from what is known of how errors grow, and of the
    error of an ``other`` variant of the task, or of how values are rounded.
    """
    growth = _growth(item)
    if growth <= 1.0:
        return 0.0
    hides = jumps(item.task.dag.stages)
    if not item.known_errors and other is not None and other.known_errors and _growth(other) > 1.0:
        return other.known_errors[0] * growth / _growth(other)
    return expected_error(growth, item.known_errors, hides)


def _result_type(item: Scheduled) -> str:
    """Of its results, where errors as small as those of variants show in them; "" where they do
    not, as rounding to integers or 16 bits makes larger ones.
    """
    if rounded_to(item.task.dag.outputs) is not None:
        return ""
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
) -> dict[str, Gains]:
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
        return amplifications(program, executor, inputs, keys, dtypes, address)
