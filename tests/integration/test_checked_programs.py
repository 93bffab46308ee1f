"""Emulation that sees memory: no alarm on what the compiler emits, each fault in it is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from autosched.workloads import get
from codegen.cuda.kernel import CudaSource
from codegen.gpu.emulation.checked import CheckedProgram, compile_checked
from codegen.gpu.emulation.library import EmulationError, compiler
from sketch.dag.dag import ComputeDAG
from sketch.oracle.interpret import interpret
from sketch.variants.winograd_blocks import winograd_four
from tests.support.cuda_mutants import mutants_of
from tests.support.cuda_programs import GPU, prepared_sources
from tests.support.errors import relative_error
from tests.support.small_workloads import SMALL
from tests.support.units import HALVES, int_product
from tests.support.workloads import (
    WORKLOADS,
    chain,
    conv2d_relu,
    matmul_dag,
    random_inputs,
    row_sum,
    softmax_dag,
    two_outputs,
)

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")


def in_blocks(size: int, channels: int, outputs: int) -> ComputeDAG:
    """A convolution whose threads transform what they fill tiles with."""
    variant = winograd_four(conv2d_relu(size, channels, outputs))
    assert variant is not None
    return variant


CASES: Mapping[str, Callable[[], ComputeDAG]] = {
    "halves on units": lambda: int_product(37, 29, 76, HALVES),
    **WORKLOADS,
    **{name: partial(get(name).dag, *sizes) for name, sizes in SMALL.items()},
    "matmul 17 19 23": lambda: matmul_dag(17, 19, 23),
    "matmul 1 41 13": lambda: matmul_dag(1, 41, 13),
    # Multiples of what moves as one piece.
    "matmul 32 64 48": lambda: matmul_dag(32, 64, 48),
    "chain 16 64": lambda: chain(16, 64),
    "two_outputs 16 64": lambda: two_outputs(16, 64),
    "softmax 8 256": lambda: softmax_dag(8, 256),
    "row_sum 8 1024": lambda: row_sum(8, 1024),
    "conv2d 7 3 11 kernel 5": lambda: conv2d_relu(7, 3, 11, 5, 1, 2),
    "winograd 5 16 20": lambda: in_blocks(5, 16, 20),
}
_QUICK = ("matmul 17 19 23", "softmax 8 256")
_TOLERANCE = 1e-5
_ROWS = 2
_LEAST_MUTANTS = 300
# Every sort of fault that the text can have.
KINDS = {
    "barrier deleted", "shared array halved", "local array halved", "guard dropped",
    "piece misaligned", "rest of a copy for all threads", "members of an exchange halved",
    "offset of an exchange doubled", "wait for copies dropped", "wait for a tile less",
}  # fmt: skip


def sources_of(dag: ComputeDAG, rows: int) -> list[CudaSource]:
    """Random rows of every sketch."""
    return [source for source, _ in prepared_sources(dag, rows, GPU)]


def faults(dag: ComputeDAG, rows: int, folder: Path) -> Iterator[tuple[str, str]]:
    """Of random rows and of all their mutants: the fault, empty for a row as it is, and what is
    noticed.
    """
    inputs = random_inputs(dag, np.random.default_rng(0))
    expected = interpret(dag, inputs)
    cases = []
    for source, layouts in prepared_sources(dag, rows, GPU):
        given = inputs | {name: layout.apply(inputs[name]) for name, layout in layouts.items()}
        cases.append(("", source, given))
        cases += [(mutant.fault, mutant.source, given) for mutant in mutants_of(source)]
    programs = compile_checked([source for _, source, _ in cases], folder)
    for (fault, _, given), program in zip(cases, programs, strict=True):
        yield fault, noticed(program, given, expected)


def noticed(
    program: CheckedProgram, inputs: dict[str, np.ndarray], expected: Mapping[str, np.ndarray]
) -> str:
    """What is wrong with a program in ascending or in descending order; empty: nothing."""
    for reverse in (False, True):
        try:
            for name, result in program.run(inputs, reverse).items():
                if not relative_error(result, expected[name]) < _TOLERANCE:
                    return f"{name} is wrong"
        except EmulationError as error:
            return error.what
    return ""


def check(name: str, rows: int, folder: Path) -> Counter[str]:
    """Fails for false alarms and missed faults; how many faults there were of each sort."""
    found = list(faults(CASES[name](), rows, folder))
    assert [what for fault, what in found if not fault and what] == [], name
    assert [fault for fault, what in found if fault and not what] == [], name
    return Counter(fault.partition(" in line ")[0] for fault, _ in found if fault)


def test_faults_of_some_programs_are_noticed(tmp_path: Path) -> None:
    found = sum((check(name, 1, tmp_path) for name in _QUICK), Counter[str]())
    assert found["barrier deleted"] > 2 and found["shared array halved"] > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_faults_of_random_rows_are_noticed(name: str, tmp_path: Path) -> None:
    check(name, _ROWS, tmp_path)


@pytest.mark.slow
def test_the_programs_have_every_sort_of_fault() -> None:
    sources = (source for name in CASES for source in sources_of(CASES[name](), _ROWS))
    found = Counter(mutant.kind for source in sources for mutant in mutants_of(source))
    assert found.keys() == KINDS
    assert found.total() > _LEAST_MUTANTS
