"""Every kind of program, sketched, lowered, compiled and run, against the float64 oracle."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.build import build, emit
from codegen.llvm.jit import aligned_workspace, call, load
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.lower.packing import preparations
from sketch.oracle.interpret import interpret
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target
from tests.support.cpu_targets import in_turns, instruction_sets, label
from tests.support.teams import team_address
from tests.support.workloads import WORKLOADS, random_inputs

TARGETS = instruction_sets()


def run(sketch: Sketch, row: dict[str, int], inputs: dict[str, np.ndarray]) -> dict:
    """Compile one candidate and execute it; outputs by name, dense."""
    kernel = build(lower(sketch, row), sketch.target)
    packs = preparations(sketch, row)
    outputs: dict[str, np.ndarray] = {}
    arrays = []
    for argument in kernel.arguments:
        if argument.scope == "output":
            fill = np.nan if argument.dtype == "float32" else 0
            outputs[argument.name] = np.full(argument.shape, fill, argument.dtype)
            arrays.append(outputs[argument.name])
            continue
        array = inputs[argument.name]
        if argument.name in packs:
            array = packs[argument.name].apply(array)
        assert array.size == np.prod(argument.shape)
        arrays.append(np.ascontiguousarray(array))
    library = load([kernel])
    workspace = aligned_workspace(kernel.workspace_bytes)
    team = team_address(sketch.target.threads)
    call(library.address(kernel.symbol), arrays, workspace, team)
    return outputs


def check(dag: ComputeDAG, target: Target, rng: np.random.Generator) -> None:
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)
    for sketch in generate(dag, target):
        row = sample(sketch, 1, rng).row(0)
        for name, result in run(sketch, row, inputs).items():
            scale = max(float(np.max(np.abs(expected[name]))), 1e-30)
            error = np.max(np.abs(result.reshape(expected[name].shape) - expected[name]))
            assert error <= 1e-4 * scale, (name, row, str(sketch))


# In the long run: what differs from another in extents or in a stage.
LONG = {"conv2d_bare", "dense_relu", "distance_matrix", "outer_product_sum", "total_sum"}


@pytest.mark.parametrize(
    "name",
    [
        *sorted(WORKLOADS.keys() - LONG),
        *(pytest.param(name, marks=pytest.mark.slow) for name in sorted(LONG)),
    ],
)
def test_host(name: str, rng: np.random.Generator) -> None:
    check(WORKLOADS[name](), TARGETS[0].with_threads(2), rng)


@pytest.mark.parametrize(("name", "target"), in_turns(("conv2d_residual", "softmax"), TARGETS[1:]))
def test_other_instruction_sets(name: str, target: Target, rng: np.random.Generator) -> None:
    check(WORKLOADS[name](), target, rng)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS[1:], ids=label)
@pytest.mark.parametrize("name", ["dense_relu", "depthwise"])
def test_more_on_other_instruction_sets(
    name: str, target: Target, rng: np.random.Generator
) -> None:
    check(WORKLOADS[name](), target, rng)


def test_prefetch_is_a_decision_that_changes_code_and_no_result(rng: np.random.Generator) -> None:
    dag, target = WORKLOADS["matmul"](), TARGETS[0]
    inputs = random_inputs(dag, rng)
    sketch = generate(dag, target)[0]
    (name,) = [d.id for d in sketch.decisions if d.id.level == "prefetch"]
    row = sample(sketch, 1, rng).row(0)
    texts, results = [], []
    for ahead in (0, 1):
        chosen = row | {name: ahead}
        texts.append(emit(lower(sketch, chosen), target, "kernel").text)
        results.append(run(sketch, chosen, inputs)["C"])
    assert ["llvm.prefetch" in text for text in texts] == [False, True]
    assert np.array_equal(*results)
