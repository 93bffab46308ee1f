"""Names of programs mean nothing else in the text of kernels, whatever they are."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from autosched.records.old_names import Names, with_names
from codegen.cuda.build import build, emit
from codegen.cuda.names import RESERVED, Identifiers, identifier
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.emulation.library import FOLDER, LANGUAGE, compiler
from sketch.dag.dag import ComputeDAG
from sketch.lang import functions
from sketch.lang.dtypes import SUPPORTED
from sketch.lang.expr import Expr, cast
from sketch.lang.operator_names import FLOAT_CALLS
from sketch.lang.tensor import compute, placeholder
from sketch.lower import lower
from sketch.oracle.expected import relative_error
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.compiled import TOLERANCES
from tests.support.cuda_programs import GPU, feasible_nests, feasible_rows
from tests.support.dtype_programs import NUMBERS, arithmetic, conversions
from tests.support.emulate import compile_programs
from tests.support.odd_names import names_of
from tests.support.units import BYTES, HALVES, int_product
from tests.support.workloads import WORKLOADS, matmul_dag

# A few of the programs, or each of them.
SOME_OR_ALL = pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.slow)])

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def programs() -> Iterator[tuple[ComputeDAG, Target]]:
    """Of each kind: operators, copies ahead and through registers, tensor units, rows, blocks."""
    for dtype in SUPPORTED:
        yield conversions(dtype, (2, 67)), GPU
    for dtype in NUMBERS:
        yield from ((dag, GPU) for dag in arithmetic(dtype))
    yield from ((make(), GPU) for make in WORKLOADS.values())
    yield from ((matmul_dag(64, 96, 128), cuda_target(card)) for card in ("t4", "a100"))
    yield matmul_dag(4096, 4096, 512), GPU
    yield from ((int_product(128, 256, 256, types), GPU) for types in (BYTES, HALVES))


@SOME_OR_ALL
def test_all_words_of_kernels_are_names_of_programs_or_reserved(
    step: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    given: set[str] = set()
    fresh = Identifiers.fresh

    def noted(self: Identifiers, name: str) -> str:
        given.add(found := fresh(self, name))
        return found

    monkeypatch.setattr(Identifiers, "fresh", noted)
    unknown: set[str] = set()
    for dag, target in [*programs()][::step]:
        for sketch in generate(dag, target):
            for row in map(feasible_rows(sketch, 1, rng).row, range(1)):
                source = emit(lower(sketch, row), target)
                kernels = source.text[source.text.index('extern "C" __global__') :]
                words = set(_WORD.findall(re.sub(r'"[^"]*"', "", kernels)))
                words -= given | {launch.symbol for launch in source.launches}
                unknown |= {word for word in words if not word.startswith("__")}
    assert {word for word in unknown if identifier(word) == word} <= RESERVED


def test_reserved_words_get_a_number_and_macros_a_letter() -> None:
    names = Identifiers()
    for name in ("exp", "expf", "fabs", "left", "free", "copy_ahead", "class"):
        assert names.fresh(name) == f"{name}_1"
    for name in ("NULL", "M_PIf", "INT_MAX", "cudaStreamLegacy", "wgmma_m64n8k8_tf32", "1st", "_x"):
        assert names.fresh(name) == f"v_{name}"
    assert all(names.fresh(name) == name for name in ("A", "B_cache", "C1", "x", "cuda"))


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_macros_of_the_headers_of_c_are_reserved() -> None:
    command = [str(compiler()), *LANGUAGE, "-dM", "-E", "-x", "c++", str(FOLDER / "cuda_cpu.h")]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    macros = re.findall(r"^#define (\w+)(?![\w(])", listed, re.MULTILINE)
    assert len(macros) > 100
    assert {name for name in macros if identifier(name) == name} <= RESERVED


def doubles(names: Sequence[str]) -> ComputeDAG:
    """Functions of doubles, one after another, of tensors with such names."""
    inputs = [placeholder((64,), "float64", name=name) for name in names]
    calls = [getattr(functions, name) for name in (*FLOAT_CALLS, "abs", "isnan") if name != "acosh"]

    def body(i: Expr) -> Expr:
        value = functions.pow(inputs[0][i], inputs[1][i]) + functions.fmod(inputs[2][i], 0.3)
        for n, tensor in enumerate(inputs):
            value = value + cast(calls[n % len(calls)](tensor[i]), "float64")
        return value

    return ComputeDAG([compute((64,), body, name="rint")])


def product(first: str, second: str, result: str) -> ComputeDAG:
    """A product of matrices in tiles that are copied ahead."""
    dag = matmul_dag(40, 48, 32)
    (plain,) = names_of(dag).stages
    return with_names(dag, Names((first, second), ((result, plain[1]),)))


def renamed_programs() -> list[ComputeDAG]:
    words = sorted(word for word in RESERVED if word != "rint")
    thirds = zip(words[::3], words[1::3], words[2::3], strict=False)
    halves = (words[::2], words[1::2])  # a statement may have so many levels
    return [*map(doubles, halves), *(product(*each) for each in thirds)]


@pytest.mark.slow
@pytest.mark.skipif(missing_compiler() is not None, reason="no NVRTC")
def test_reserved_words_are_names_of_tensors_on_a_gpu(rng: np.random.Generator) -> None:
    first, second, *products = renamed_programs()
    for dag in (first, second, *products[::12]):
        for nest in feasible_nests(dag, 1, rng):
            assert build(nest, GPU).cubin


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
@SOME_OR_ALL
def test_reserved_words_are_names_of_tensors(
    step: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    first, second, *products = renamed_programs()
    dags = [first, second, *products[::step]]
    nests = [next(feasible_nests(dag, 1, rng)) for dag in dags]
    made = compile_programs([emit(nest, GPU) for nest in nests], tmp_path)
    for dag, program in zip(dags, made, strict=True):
        inputs = {t.name: rng.random(t.shape).astype(t.dtype) * 0.9 for t in dag.inputs}
        (output,) = dag.outputs
        found, expected = program.run(inputs)[output.name], interpret(dag, inputs)[output.name]
        assert relative_error(found, expected) < TOLERANCES[output.dtype]
