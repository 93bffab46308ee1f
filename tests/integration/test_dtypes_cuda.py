"""Every scalar type in the text of CUDA programs, run on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from sketch.dag import ComputeDAG
from sketch.dtypes import SUPPORTED, is_float
from sketch.interpret import interpret
from sketch.reference import relative_error
from tests.compiled import TOLERANCES
from tests.cuda_programs import GPU, feasible_nests
from tests.dtype_programs import NUMBERS, arithmetic, conversions, inputs_of, small_inputs
from tests.emulation.emulate import COMPILER, compile_programs

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")


def test_operators_and_casts(tmp_path: Path) -> None:
    dags: list[ComputeDAG] = []
    for dtype in SUPPORTED:
        dags += conversions(dtype, (2, 67))
    for dtype in NUMBERS:
        dags += [ComputeDAG([result]) for result in arithmetic(dtype)]
    rng = np.random.default_rng(0)
    sources = [emit(next(feasible_nests(dag, 1, rng)), GPU) for dag in dags]
    programs = compile_programs(sources, tmp_path)
    for dag, program in zip(dags, programs, strict=True):
        small = is_float(dag.inputs[0].dtype) and not dag.outputs[0].name.startswith("to_")
        inputs = small_inputs(dag, 3) if small else inputs_of(dag, 3)
        output = dag.outputs[0]
        got, expected = program.run(inputs)[output.name], interpret(dag, inputs)[output.name]
        assert relative_error(got, expected) <= TOLERANCES.get(output.dtype, 0.0), (
            dag.inputs[0].dtype, output.name, got, expected,
        )  # fmt: skip
