"""Products and depthwise convolutions in one nest, block by block, or one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import maximum
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.lower.lower import lower
from sketch.operators.broadcast import add
from sketch.operators.conv import conv2d
from sketch.operators.elementwise import relu
from sketch.oracle.reference import reference
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.verify import verify
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs

TWO = host_target(threads=2)
# Sums of float32, in another order than the oracle's.
_TOLERANCE = 1e-5
CHANNELS = 21  # no whole vectors


def filtered(data: Tensor, name: str, outputs: int, kernel: int, stride: int) -> Tensor:
    """A convolution, a bias and a ReLU; depthwise where the kernel is larger than 1."""
    groups = 1 if kernel == 1 else outputs
    shape = (kernel, kernel, data.shape[-1] // groups, outputs)
    weight = placeholder(shape, name=f"{name}.weight", constant=True)
    bias = placeholder((outputs,), name=f"{name}.bias", constant=True)
    found = conv2d(data, weight, stride, kernel // 2, groups=groups, name=name)
    return relu(add(found, bias, f"{name}.biased"), f"{name}.relu")


def expanded(size: int, stride: int) -> ComputeDAG:
    data = placeholder((2, size, size + 3, 5), name="data")
    return ComputeDAG(
        [filtered(filtered(data, "wide", CHANNELS, 1, 1), "deep", CHANNELS, 3, stride)]
    )


def projected(size: int) -> ComputeDAG:
    data = placeholder((1, size, size + 2, CHANNELS), name="data")
    return ComputeDAG([filtered(filtered(data, "deep", CHANNELS, 3, 1), "narrow", 18, 1, 1)])


def attached(sketch: Sketch, name: str) -> bool:
    plan = next(plan for plan in sketch.program.stages if plan.op.name == name)
    return plan.attach is not None


@pytest.mark.parametrize(
    ("dag", "between"),
    [
        (expanded(9, 1), "wide.relu"),
        (expanded(10, 2), "wide.relu"),
        (projected(11), "deep.relu"),
    ],
    ids=["stride 1", "stride 2", "depthwise first"],
)
def test_every_sketch_computes_what_the_oracle_does(dag: ComputeDAG, between: str) -> None:
    rng = np.random.default_rng(3)
    inputs = random_inputs(dag, rng)
    expected = reference(dag, inputs, rng)
    sketches = generate(dag, TWO)
    assert {attached(sketch, between) for sketch in sketches} == {True, False}
    for sketch in sketches[::2]:
        row = sample(sketch, 1, rng).row(0)
        verify(lower(sketch, row))
        outputs = run_compiled(sketch, row, inputs, TWO)
        name = dag.outputs[0].name
        shaped = {name: outputs[name].reshape(dag.outputs[0].shape)}
        assert expected.check(shaped) <= _TOLERANCE, sketch.key


def test_between_the_two_is_as_much_as_a_block_reads() -> None:
    """Nothing of the size of the image is in memory, but for the results."""
    dag = expanded(40, 2)
    for sketch in generate(dag, TWO):
        nest = lower(sketch, sample(sketch, 1, np.random.default_rng(0)).row(0))
        names = {buffer.name for buffer in nest.workspaces}
        assert ("wide.relu" in names) != attached(sketch, "wide.relu")


def test_two_products_of_matrices_are_no_pair() -> None:
    """Chains have rules of their own: blocks of rows alone, several levels of tiles."""
    data = placeholder((1, 24, 24, 5), name="data")
    first = filtered(data, "first", CHANNELS, 1, 1)
    dag = ComputeDAG([filtered(first, "second", 18, 1, 1)])
    assert not any(attached(s, "first.relu") and len(s.decisions) < 20 for s in generate(dag, TWO))


def test_what_two_reductions_read_is_computed_once() -> None:
    data = placeholder((1, 12, 12, 5), name="data")
    wide = filtered(data, "wide", 16, 1, 1)
    deep, other = filtered(wide, "deep", 16, 3, 1), filtered(wide, "other", 16, 3, 1)
    both = compute(deep.shape, lambda *i: maximum(deep[i], other[i]), "both")
    for sketch in generate(ComputeDAG([both]), TWO):
        verify(lower(sketch, sample(sketch, 1, np.random.default_rng(0)).row(0)))


def test_of_three_convolutions_two_are_in_a_nest() -> None:
    data = placeholder((1, 7, 9, 5), name="data")  # too few rows for a chain
    deep = filtered(filtered(data, "wide", CHANNELS, 1, 1), "deep", CHANNELS, 3, 1)
    dag = ComputeDAG([filtered(deep, "narrow", 18, 1, 1)])
    rng = np.random.default_rng(3)
    inputs = random_inputs(dag, rng)
    expected = reference(dag, inputs, rng)
    sketches = [sketch for sketch in generate(dag, TWO) if attached(sketch, "deep.relu")]
    assert sketches
    for sketch in sketches[::8]:
        assert not attached(sketch, "wide.relu")
        outputs = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, TWO)
        (name,) = outputs
        shaped = {name: outputs[name].reshape(dag.outputs[0].shape)}
        assert expected.check(shaped) <= _TOLERANCE


def test_tiles_of_the_two_need_not_fit_each_other() -> None:
    """Of 33 channels two tiles of 32 are computed: of a panel of 48 weights there is no second."""
    data = placeholder((1, 3, 4, 5), name="data")
    dag = ComputeDAG([filtered(filtered(data, "wide", 33, 1, 1), "deep", 33, 3, 1)])
    rng = np.random.default_rng(0)
    for sketch in generate(dag, TWO):
        rows = sample(sketch, 24, rng)
        for number in range(rows.count):
            verify(lower(sketch, rows.row(number)))
