"""The tile that is not whole comes first: the loop over tiles copies without tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import device_functions, emit
from codegen.cuda.device import Cooperative, DeviceFunction, Fetch, Pipeline, walk_device
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import compiler
from sketch.lang.affine import UNBOUNDED
from sketch.nest.intervals import predicates_of
from sketch.nest.loopnest import LoopNest
from sketch.oracle.interpret import interpret
from tests.support.cuda_programs import GPU, MATMUL_ROW, matmul_nest, row_of
from tests.support.pipelines import pipelined_nests
from tests.support.workloads import conv2d_relu, matmul_dag, random_inputs

TAIL = (20, 24, 26)  # of tiles of 4 along k, the pieces of which are 4 and 2 elements


def nest_of(tiles: int, shape: tuple[int, int, int] = TAIL) -> LoopNest:
    return matmul_nest(shape, {**MATMUL_ROW, **row_of({"C.local.k@tiles": tiles})})


def pipeline_of(nest: LoopNest) -> Pipeline:
    (function,) = device_functions(nest, GPU)
    (found,) = (n for n in walk_device(function.body) if isinstance(n, Pipeline))
    return found


def names_tested(copies: tuple[Cooperative, ...]) -> list[set[str]]:
    """Names of the variables of each copy's test."""
    found = [each for part in copies for each in part.body if isinstance(each, Fetch)]
    assert len(found) == len(copies)
    tests = [[] if (c := each.condition) is None else predicates_of(c) or () for each in found]
    return [{var.name for test in of for var, _ in test.index.terms} for of in tests]


@pytest.mark.parametrize("tiles", [2, 3, 4])
def test_the_first_tile_alone_is_tested(tiles: int) -> None:
    found = pipeline_of(nest_of(tiles))
    own = [{"C.local.k.0", "A.cache.d1.0"}, {"C.local.k.0", "B.cache.d0.0"}]
    assert names_tested(found.fetch) == own
    assert names_tested(found.later) == [set(), set()]


def test_whole_tiles_are_copied_from_where_they_were() -> None:
    found = pipeline_of(nest_of(2, (20, 24, 28)))
    assert names_tested(found.fetch) == names_tested(found.later) == [set(), set()]


def test_one_tile_in_memory_leaves_the_last_one_where_it_is() -> None:
    (function,) = device_functions(nest_of(1), GPU)
    conditions = [n.condition for n in walk_device(function.body) if isinstance(n, Fetch)]
    tests = [test for each in conditions if each is not None for test in predicates_of(each) or ()]
    assert tests and all(test.low <= -UNBOUNDED for test in tests)


def test_a_reduction_along_several_axes_tests_every_tile() -> None:
    """The inner loops start again: what is not whole comes several times."""
    dag = conv2d_relu(11, 9, 7, 3, 2, 1)
    made = pipelined_nests(dag, (2,), (0,), np.random.default_rng(0))
    functions: list[DeviceFunction] = [f for nest in made for f in device_functions(nest, GPU)]
    found = [n for f in functions for n in walk_device(f.body) if isinstance(n, Pipeline)]
    assert [p for p in found if len(p.bindings) > 1]
    for each in found:
        if len(each.bindings) > 1:
            assert names_tested(each.later) == names_tested(each.fetch)


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_sums_with_the_rest_first_equal_the_oracle(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    programs = compile_checked([emit(nest_of(tiles), GPU) for tiles in (2, 3)], tmp_path)
    dag = matmul_dag(*TAIL)
    arrays = random_inputs(dag, rng)
    expected = interpret(dag, arrays)["C"]
    for program in programs:
        for reverse in (False, True):
            found = program.run(arrays, reverse)["C"]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
