"""Random rows of every sketch of the workload library and of the zoo's tasks, without a GPU.

They equal the oracle in the emulation that checks every access and, where that is quick, in the PTX
interpreter; NVRTC has code for them on every architecture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from autosched import zoo
from autosched.graph.extract import extract
from autosched.graph.ir import Network
from autosched.zoo.bert import Bert, add_bert
from autosched.zoo.layers import LayerBuilder
from codegen.cuda.kernel import CudaSource
from codegen.cuda.nvrtc import compile_source, missing_compiler
from codegen.gpu.emulation.checked import compile_checked
from codegen.gpu.emulation.library import compiler
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators import elementwise
from sketch.operators.matmul import dense
from sketch.oracle.interpret import interpret
from sketch.rules.backend import GPU_SKETCHES
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.integration.test_checked_programs import CASES
from tests.support.cuda_programs import prepared_sources
from tests.support.errors import relative_error
from tests.support.ptx.run import ptx_of, run_ptx
from tests.support.units import HALVES, int_product
from tests.support.workloads import (
    WORKLOADS,
    attention_dag,
    random_inputs,
    row_sum,
    transposed_add,
)

H200 = cuda_target("h200")
# So few processors that small sums are split among blocks.
FEW = replace(H200, threads=2)
T4 = cuda_target("t4")  # without asynchronous copies
_TOLERANCE = 1e-5
_ROWS = 2
_PARTS = 4
_QUICK = ("argmax", "relu of an operand")
_ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100")
_IMAGE = 32
_MOST_OPERATIONS = 1e7  # of a task: above, the oracle takes seconds
_MOST_INTERPRETED = 1e5  # the same for the PTX interpreter

needs_nvrtc = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")


def small_bert() -> Network:
    layers = LayerBuilder("small-bert", seed=0)
    add_bert(layers, Bert(layers=1, heads=2, hidden=32, inner=48, words=20), 1, 7)
    return layers.finish()


@cache
def zoo_tasks() -> Mapping[str, ComputeDAG]:
    """Programs of some networks with small images, by names fit to print; of those that differ in
    extents alone the first and the last.
    """
    networks = (
        *(make(image=_IMAGE) for make in (zoo.resnet18, zoo.mobilenet_v2, zoo.squeezenet)),
        zoo.resnet3d18(image=16),
        small_bert(),
    )
    calls = [call for net in networks for call in extract(net).subgraphs]
    dags = [call.dag for call in calls if call.dag.flops < _MOST_OPERATIONS]
    kinds = [re.sub(r"\d+", "#", str(dag)) for dag in dags]
    first, last = (
        dict(zip(kinds[::-1], dags[::-1], strict=True)),
        dict(zip(kinds, dags, strict=True)),
    )
    ends = {dag.key: dag for dag in (*first.values(), *last.values())}
    return {f"{number} {dag.outputs[0].name}": dag for number, dag in enumerate(ends.values())}


def relu_of_operand(m: int = 12, n: int = 20, k: int = 40) -> ComputeDAG:
    """A stage that a tiled sum reads."""
    data, weight = placeholder((m, k), name="data"), placeholder((k, n), name="weight")
    return ComputeDAG([dense(elementwise.relu(data), weight)])


LIBRARY = {
    **CASES,
    "relu of an operand": relu_of_operand,
    "attention": lambda: attention_dag(2, 11, 13, 10),
    "transpose in tiles": lambda: transposed_add(40, 36),
    "halves on units": lambda: int_product(20, 24, 40, HALVES),
    "one long row": lambda: row_sum(1, 16384),
}


def sources_of(dag: ComputeDAG, rows: int, target: Target = H200) -> list[CudaSource]:
    return [source for source, _ in prepared_sources(dag, rows, target)]


def wrong(dag: ComputeDAG, rows: int, folder: Path, target: Target = H200) -> Iterator[str]:
    """What is wrong with random rows of every sketch, in both orders of threads and as PTX.

    Args:
        dag: the program.
        rows: of each sketch.
        folder: for what is compiled.
        target: what the sketches are for.

    Raises:
        EmulationError, MemoryFault, DivergenceError: a row does what a GPU does not allow.
    """
    inputs = random_inputs(dag, np.random.default_rng(1))
    expected = interpret(dag, inputs)
    chosen = prepared_sources(dag, rows, target)
    assert chosen
    programs = compile_checked([source for source, _ in chosen], folder, "-O1")
    for program, (_, layouts) in zip(programs, chosen, strict=True):
        given = inputs | {name: layout.apply(inputs[name]) for name, layout in layouts.items()}
        results = [program.run(given), program.run(given, reverse=True)]
        if dag.flops < _MOST_INTERPRETED and missing_compiler() is None:
            results.append(run_ptx(program.source, ptx_of(program.source.text), given))
        for result in results:
            for name, found in result.items():
                if not relative_error(found, expected[name]) < _TOLERANCE:
                    yield f"{name} of\n{program.source.text}"


@needs_compiler
@pytest.mark.parametrize("name", _QUICK)
def test_random_rows_equal_the_oracle(name: str, tmp_path: Path) -> None:
    assert list(wrong(LIBRARY[name](), 1, tmp_path, FEW)) == []


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_rows_of_the_library_equal_the_oracle(name: str, tmp_path: Path) -> None:
    for target in (H200, FEW, T4):
        assert list(wrong(LIBRARY[name](), _ROWS, tmp_path, target)) == []


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_rows_of_the_zoo_equal_the_oracle(part: int, tmp_path: Path) -> None:
    tasks = list(zoo_tasks().values())
    assert len(tasks) > 40
    assert [what for dag in tasks[part::_PARTS] for what in wrong(dag, _ROWS, tmp_path)] == []


def test_every_rule_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    used = set()
    for rule in GPU_SKETCHES.rules:
        kind, apply = type(rule), type(rule).apply

        def noted(self: object, *arguments: object, apply: object = apply) -> object:
            used.add(type(self))
            return apply(self, *arguments)  # type: ignore[operator]

        monkeypatch.setattr(kind, "apply", noted)
    for make in LIBRARY.values():
        list(generate(make(), FEW))
    assert used == {type(rule) for rule in GPU_SKETCHES.rules}


@needs_nvrtc
@pytest.mark.parametrize("arch", _ARCHS)
def test_architectures_have_code(arch: str) -> None:
    for dag in (WORKLOADS["dense_relu"](), row_sum()):
        for source in sources_of(dag, 1, cuda_target(arch)):
            assert compile_source(source, arch)[0]


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("arch", _ARCHS)
def test_architectures_have_code_for_every_sketch(arch: str) -> None:
    for dag in (*(make() for make in LIBRARY.values()), *zoo_tasks().values()):
        for source in sources_of(dag, 1, cuda_target(arch)):
            assert compile_source(source, arch)[0]
