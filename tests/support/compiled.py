"""Compile a program with some sketch and row, run it between guard pages, and compare with the
oracle.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from codegen.build import build
from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import is_float
from sketch.lower import lower
from sketch.lower.packing import preparations
from sketch.oracle.expected import relative_error
from sketch.oracle.interpret import interpret
from sketch.oracle.reference import reference
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target
from tests.support.guard_pages import run_guarded

# One rounding to the stored dtype may fall the other way; sums of float32 lose a little more.
TOLERANCES = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 1e-5, "float64": 1e-13}


def packed_inputs(
    sketch: Sketch, row: Mapping[str, int], inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    layouts = preparations(sketch, row)
    return {k: layouts[k].apply(a) if k in layouts else a for k, a in inputs.items()}


def run_compiled(
    sketch: Sketch, row: Mapping[str, int], inputs: Mapping[str, np.ndarray], target: Target
) -> dict[str, np.ndarray]:
    """The outputs, from a run between guard pages."""
    return run_guarded(build(lower(sketch, row), target), packed_inputs(sketch, row, inputs))


def random_run(
    dag: ComputeDAG,
    inputs: Mapping[str, np.ndarray],
    target: Target,
    choice: int,
    seed: int,
    rows: int = 1,
) -> dict[str, np.ndarray]:
    """The outputs of one random row of one sketch, in the outputs' shapes.

    ``rows``: so many are drawn, and the one of the smallest tiles is taken: a table of functions
    takes long to compile, and copies of it compute the same.
    """
    rng = np.random.default_rng(seed)
    sketches = generate(dag, target)
    sketch = sketches[choice % len(sketches)]
    population = mutate(sample(sketch, rows, rng), rng)
    row = population.row(int(population.values.sum(axis=1).argmin()))
    outputs = run_compiled(sketch, row, inputs, target)
    return {t.name: outputs[t.name].reshape(t.shape) for t in dag.outputs}


def check_run(
    dag: ComputeDAG,
    inputs: Mapping[str, np.ndarray],
    target: Target,
    choice: int,
    seed: int,
    rows: int = 1,
) -> None:
    """Compare one random row of one sketch with the oracle; see ``random_run``."""
    outputs = random_run(dag, inputs, target, choice, seed, rows)
    expected = interpret(dag, inputs)
    for tensor in dag.outputs:
        got, wanted = outputs[tensor.name], expected[tensor.name]
        assert str(got.dtype) == tensor.dtype
        error = relative_error(got, wanted)
        assert error <= TOLERANCES.get(tensor.dtype, 0.0), (tensor, error, got, wanted)
    if all(is_float(tensor.dtype) for tensor in dag.outputs):
        elements = reference(dag, inputs, np.random.default_rng(seed)).check(outputs)
        assert elements <= 1e-5, (elements, outputs)
