"""The last of several passes over a row fetches the next one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.build import prepare
from codegen.host import cpu_target, host_target
from codegen.llvm.machine import emit_assembly, triple_of
from codegen.llvm.module import emit_module
from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import exp
from sketch.lang.tensor import Tensor, placeholder
from sketch.lower.lower import lower
from sketch.nest.loopnest import Loop, LoopNest
from sketch.nest.walk import stores, walk
from sketch.operators.elementwise import map_elements
from sketch.operators.normalization import normalize
from sketch.operators.softmax import softmax
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs

ONE = host_target(threads=1)
AVX2 = replace(cpu_target("cpu-avx2"), threads=1)


def kernels(result: Tensor, target: Target) -> list[LoopNest]:
    dag, rng = ComputeDAG([result]), np.random.default_rng(0)
    found = []
    for sketch in generate(dag, target):
        rows = sample(sketch, 4, rng)
        found += [prepare(lower(sketch, rows.row(n)), target) for n in range(len(rows.values))]
    return found


def fetches(nest: LoopNest) -> list[Loop]:
    return [node for node in walk(nest.roots) if isinstance(node, Loop) and node.fetch]


def data(*shape: int) -> Tensor:
    return placeholder(shape, name="x")


@pytest.mark.parametrize("target", [ONE, AVX2], ids=["host", "avx2"])
@pytest.mark.parametrize("norm", [False, True], ids=["softmax", "normalize"])
def test_the_last_pass_fetches_as_many_rows_as_a_trip_reads(norm: bool, target: Target) -> None:
    x = data(64, 96)
    result = normalize(x, [1], 1e-5) if norm else softmax(x)
    found = [loop for nest in kernels(result, target) for loop in fetches(nest)]
    assert {ahead for loop in found for _, ahead in loop.fetch} == {96, 4 * 96}
    for loop in found:
        names = {store.stage_name for store, _ in stores((loop,))}
        assert names <= ({"normalize"} if norm else {"softmax.exp", "softmax"})


@pytest.mark.parametrize(
    "result",
    [
        map_elements(data(64, 96), lambda x: exp(x), "y"),  # one pass
        softmax(data(64, 96), 0),  # of columns
        softmax(data(64, 1 << 13)),  # rows that fill the cache
    ],
    ids=["one", "columns", "long"],
)
def test_other_loops_fetch_nothing(result: Tensor) -> None:
    assert not any(fetches(nest) for nest in kernels(result, ONE))


def test_code_fetches_into_the_first_cache() -> None:
    nest = next(nest for nest in kernels(softmax(data(64, 96)), AVX2) if fetches(nest))
    text = emit_module(nest, AVX2, "kernel", triple_of(AVX2)).text
    assert "prefetcht0" in emit_assembly(text, AVX2)


@pytest.mark.parametrize("rows", [64, 37])
def test_what_lies_behind_the_last_row_is_not_read(rows: int) -> None:
    """Between guard pages."""
    dag, rng = ComputeDAG([softmax(data(rows, 32))]), np.random.default_rng(1)
    inputs = random_inputs(dag, rng)
    shifted = np.exp(inputs["x"] - inputs["x"].max(axis=1, keepdims=True))
    for sketch in generate(dag, ONE)[::2]:
        outputs = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, ONE)
        expected = shifted / shifted.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(outputs["softmax"].reshape(rows, 32), expected, rtol=1e-5)
