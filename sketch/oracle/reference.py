"""The oracle's results of a task: whole, or sampled if large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from sketch.dag.dag import ComputeDAG
from sketch.lang.scalar_functions import Array
from sketch.oracle.expected import Reference, adds_up_floats, samples_of
from sketch.oracle.interpret import compute_regions, full_region, load_inputs, loader, whole_outputs
from sketch.oracle.known_errors import KnownErrors
from sketch.oracle.sampled import sample_reference
from sketch.oracle.stage_errors import box_errors

SAMPLE_ABOVE_FLOPS: Final = 1e9


def reference(dag: ComputeDAG, inputs: Mapping[str, Array], rng: np.random.Generator) -> Reference:
    """All outputs, or a sample of them above 1 GFLOP.

    ``rng`` draws the sample; inputs are by name.
    """
    if dag.flops > SAMPLE_ABOVE_FLOPS:
        return sample_reference(dag, inputs, rng)
    values, errors = load_inputs(dag, inputs), KnownErrors()
    compute_regions(dag, values, {id(t.op): full_region(t.op) for t in dag.outputs})
    for op in dag.stages:
        if id(op) in values:
            errors.add(op, box_errors(op, loader(values), errors))
    bounds, stages = whole_outputs(dag, errors.values), dag.stages_of_outputs
    return Reference(
        {
            name: samples_of(array.shape, array, None, bounds[name], stages[name])
            for name, array in whole_outputs(dag, values).items()
        },
        adds_up_floats(dag),
    )
