"""Tiles that are copied ahead: every depth and layout equals the oracle, and no wait can go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest

from autosched.workloads import get
from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import missing_compiler
from sketch.dag.dag import ComputeDAG
from sketch.oracle.interpret import interpret
from tests.integration.test_ptx_interpreter import error_of, noticed
from tests.support.cuda_mutants import mutants_of
from tests.support.cuda_programs import GPU
from tests.support.emulate import COMPILER, compile_programs
from tests.support.errors import relative_error
from tests.support.pipelines import pipelined_nests
from tests.support.ptx.run import ptx_of
from tests.support.small_workloads import SMALL
from tests.support.workloads import batch_matmul_dag, conv2d_relu, matmul_dag, random_inputs

needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
CASES: Mapping[str, Callable[[], ComputeDAG]] = {
    "matmul 32 48 64": lambda: matmul_dag(32, 48, 64),
    "matmul 17 19 23": lambda: matmul_dag(17, 19, 23),
    "matmul 20 22 30": lambda: matmul_dag(20, 22, 30),
    "batch_matmul 3 7 12 15": lambda: batch_matmul_dag(3, 7, 12, 15),
    "conv2d 11 9 7 stride 2": lambda: conv2d_relu(11, 9, 7, 3, 2, 1),
    **{name: partial(get(name).dag, *SMALL[name]) for name in ("C3D", "TBMM")},
}
DEPTHS, LAYOUTS = (1, 2, 3, 4), (0, 1, 2, 3)
_TOLERANCE = 2e-6


def sources_of(
    dag: ComputeDAG, depths: tuple[int, ...], layouts: tuple[int, ...], rng: np.random.Generator
) -> list[CudaSource]:
    return [emit(nest, GPU) for nest in pipelined_nests(dag, depths, layouts, rng)]


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")
@pytest.mark.parametrize("every_pair", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_depth_and_layout_equals_the_oracle_in_the_emulation(
    every_pair: bool, tmp_path_factory: pytest.TempPathFactory, rng: np.random.Generator
) -> None:
    """Each depth with each layout: of every program, or of one or two of them."""
    made = {name: make() for name, make in CASES.items()}
    sources: dict[str, list[CudaSource]] = {name: [] for name in made}
    for place, (name, dag) in enumerate(made.items()):
        for depth in DEPTHS:
            layouts = LAYOUTS if every_pair else (LAYOUTS[(place + depth) % len(LAYOUTS)],)
            sources[name] += sources_of(dag, (depth,), layouts, rng)
    assert [name for name, found in sources.items() if not found] == []
    every = [source for found in sources.values() for source in found]
    programs = iter(compile_programs(every, tmp_path_factory.mktemp("pipelines")))
    for name, dag in made.items():
        inputs = random_inputs(dag, rng)
        expected = interpret(dag, inputs)
        for source in sources[name]:
            program = next(programs)
            forward, backward = program.run(inputs), program.run(inputs, reverse=True)
            for key, value in forward.items():
                assert np.array_equal(value, backward[key]), source.text
                assert relative_error(value, expected[key]) < 1e-5, name


@needs_nvrtc
@pytest.mark.parametrize(
    "name", ["TBMM", "matmul 17 19 23", pytest.param("matmul 20 22 30", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("depth", DEPTHS)
def test_every_depth_equals_the_oracle_in_ptx(
    name: str, depth: int, rng: np.random.Generator
) -> None:
    dag = CASES[name]()
    layout = depth % 2 + 1
    for source in sources_of(dag, (depth,), (layout,), rng):
        text = ptx_of(source.text)
        assert ("cp.async" in text) == (depth > 1)
        assert error_of(source, text, dag, random_inputs(dag, rng)) <= _TOLERANCE, source.text


@needs_nvrtc
@pytest.mark.parametrize(
    "depth", [3, *(pytest.param(depth, marks=pytest.mark.slow) for depth in (2, 4))]
)
@pytest.mark.parametrize("name", ["matmul 20 22 30"])
def test_no_barrier_wait_or_tile_can_go(name: str, depth: int, rng: np.random.Generator) -> None:
    dag = CASES[name]()
    inputs = random_inputs(dag, rng)
    for source in sources_of(dag, (depth,), (0,), rng):
        found = [m for m in mutants_of(source) if "guard" not in m.fault]
        kinds = {mutant.kind for mutant in found}
        assert {"barrier deleted", "wait for copies dropped", "wait for a tile less"} <= kinds
        assert [m.fault for m in found if not noticed(m, dag, inputs)] == []
