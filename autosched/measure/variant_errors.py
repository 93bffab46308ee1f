"""The errors of a variant of a task, on normal data and on data with a large mean.

They hardly depend on the schedule: the kernel of one candidate stands for all of a variant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from autosched.measure.bench import Bench
from autosched.measure.execution import aligned_empty
from autosched.measure.inputs import normal_inputs
from autosched.measure.task_memory import TaskMemory
from sketch.dag.dag import ComputeDAG
from sketch.lang.prepared import Allocator
from sketch.oracle.expected import Reference
from sketch.oracle.sampled import Sampling, sample_reference
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.variants import error_growth

# Of arrays that are not constant, in standard deviations.
MEANS: Final = (0.0, 16.0)
SMALL: Final = 1e-5
"""Errors that any task may have: beyond them those of the task as it is written count."""
# Cheap beside a burst: a stage that is computed whole needs all of what it reads, so none is.
_SAMPLING: Final = Sampling(32, per_face=1, per_tile=2, tiles=(8, 32), whole_below_flops=-1.0)
# Numbers that are drawn of an array; a larger one repeats them.  A prime, as in checks of kernels.
_DISTINCT: Final = 8191


def variant_errors(
    bench: Bench[Any],
    dag: ComputeDAG,
    kernel: Any,
    sketch: Sketch,
    values: Mapping[DecisionId, int],
    seed: int,
) -> tuple[float, ...]:
    """``max|y - ref| / max|ref|`` over a sample of the results, one for each of ``MEANS``.

    At most 1.  Empty where the kernel does not run on such data.

    Args:
        bench: runs the kernel.
        dag: the task as it is written.
        kernel: of a candidate that was found to be right.
        sketch: of the candidate.
        values: of the candidate.
        seed: of the inputs.
    """
    found = []
    try:
        for memory in memories_of_means(dag, seed):
            loaded = bench.load(kernel, memory, sketch, values)
            try:
                bench.run(loaded, 1, "warm")
                found.append(min(1.0, bench.error(as_a_whole(memory), loaded)))
            finally:
                bench.unload(loaded)
    except Exception:  # the boundary: the time of the kernel stands without it
        return ()
    return tuple(reversed(found))


def memories_of_means(
    dag: ComputeDAG, seed: int, empty: Allocator = aligned_empty
) -> Iterator[TaskMemory]:
    """The arrays of a task and a sample of the oracle's results, for each of ``MEANS``, last first.

    The arrays are the same ones each time, filled anew; the constants stay what they are, and are
    packed once.  Only the last sample, of the mean 0, has bounds of single elements: the others are
    for errors as a whole.  ``empty`` makes the arrays.
    """
    drawn = normal_inputs(dag, seed, _DISTINCT, empty)
    inputs = {name: each.array for name, each in drawn.items()}
    packed: dict[tuple[str, str], tuple[Any, ...]] = {}
    for mean in reversed(MEANS):
        for each in drawn.values():
            each.move(mean)
        sampling = replace(_SAMPLING, bounds=not mean)
        oracle = sample_reference(dag, inputs, np.random.default_rng(seed), sampling)
        yield TaskMemory(dag, inputs, oracle, packed=packed, empty=empty, period=_DISTINCT)


def as_a_whole(memory: TaskMemory) -> TaskMemory:
    """The same arrays; elements that are small beside the largest do not count by themselves."""
    if not isinstance(memory.reference, Reference):
        return memory
    outputs = memory.reference.outputs.items()
    whole = {name: replace(samples, bounds=None) for name, samples in outputs}
    return replace(memory, reference=Reference(whole))


def of_variant(memory: TaskMemory, sketch: Sketch) -> TaskMemory:
    """The same arrays, to check what a sketch computes: with other sums than those of the task as
    it is written, roundings of large elements are seen in small ones.
    """
    same = sketch.dag.key == memory.dag.key or error_growth(sketch.variant) <= 1.0
    if same or not isinstance(memory.reference, Reference):
        return memory
    return replace(memory, reference=memory.reference.evenly_bounded())
