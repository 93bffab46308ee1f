"""Blocks at the end of an axis start earlier: copies are not tested, results are stored once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import device_functions, emit
from codegen.cuda.device import DeviceFunction, Fetch, walk_device
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import EmulationError, compiler
from sketch.nest.intervals import predicates_of
from sketch.nest.loopnest import LoopNest
from sketch.oracle.interpret import interpret
from tests.support.cuda_programs import GPU, MATMUL, matmul_nest
from tests.support.workloads import matmul_dag, random_inputs


def function_of(nest: LoopNest) -> DeviceFunction:
    (function,) = device_functions(nest, GPU)
    return function


def starts_of(function: DeviceFunction) -> dict[str, int]:
    return {shift.of.var.name: shift.most for shift in function.shifts}


def names_in_tests(function: DeviceFunction) -> set[str]:
    """Variables that tests of copies into shared memory are about."""
    copies = (node for node in walk_device(function.body) if isinstance(node, Fetch))
    conditions = (copy.condition for copy in copies if copy.condition is not None)
    tests = (test for condition in conditions for test in predicates_of(condition) or ())
    return {var.name for test in tests for var, _ in test.index.terms}


def test_only_the_reduction_is_tested_where_tiles_are_shorter_than_their_axes() -> None:
    function = function_of(matmul_nest())  # tiles of 16 x 8 x 4 in 20 x 22 x 10
    assert starts_of(function) == {"C.i.0": 4, "C.j.0": 14}
    assert names_in_tests(function) == {"C.local.k.0", "A.cache.d1.0", "B.cache.d0.0"}


def test_blocks_start_at_multiples_of_what_both_starts_are() -> None:
    steps = function_of(matmul_nest((22, 19, 16))).steps
    assert {v.name: step for v, step in steps.items() if v.name.endswith("from")} == {
        "C.i.0.from": 2,
        "C.j.0.from": 1,
    }


def test_an_axis_shorter_than_its_tile_and_one_of_whole_tiles_stay() -> None:
    assert starts_of(function_of(matmul_nest((15, 7, 10)))) == {}
    assert starts_of(function_of(matmul_nest((32, 16, 10)))) == {}


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_results_are_right_and_stored_once(tmp_path: Path, rng: np.random.Generator) -> None:
    """The checked device sees it when two blocks write one element."""
    source = emit(matmul_nest(), GPU)
    twice = re.sub(r" - C_i_0 >= 0", " >= 0", source.text)
    assert twice != source.text
    right, wrong = compile_checked([source, replace(source, text=twice)], tmp_path)
    dag = matmul_dag(*MATMUL)
    arrays = random_inputs(dag, rng)
    expected = interpret(dag, arrays)["C"]
    for reverse in (False, True):
        np.testing.assert_allclose(right.run(arrays, reverse)["C"], expected, rtol=1e-5, atol=1e-5)
        with pytest.raises(EmulationError, match="in the same launch"):
            wrong.run(arrays, reverse)
