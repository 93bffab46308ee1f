"""Every scalar type in the text of CUDA programs, run on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import SUPPORTED, is_float
from sketch.oracle.expected import relative_error
from sketch.oracle.interpret import interpret
from tests.support.compiled import TOLERANCES
from tests.support.cuda_programs import GPU, feasible_nests
from tests.support.dtype_programs import NUMBERS, arithmetic, conversions, inputs_of, small_inputs
from tests.support.emulate import COMPILER, compile_programs

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")


def test_operators_and_casts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cases: list[tuple[ComputeDAG, dict[str, np.ndarray]]] = []
    for dtype in SUPPORTED:
        casts = conversions(dtype, (2, 67))
        cases.append((casts, inputs_of(casts, 3)))
    for dtype in NUMBERS:
        draw = small_inputs if is_float(dtype) else inputs_of
        cases += [(dag, draw(dag, 3)) for dag in arithmetic(dtype)]
    sources = [emit(next(feasible_nests(dag, 1, rng)), GPU) for dag, _ in cases]
    programs = compile_programs(sources, tmp_path)
    for (dag, inputs), program in zip(cases, programs, strict=True):
        got, expected = program.run(inputs), interpret(dag, inputs)
        for output in dag.outputs:
            error = relative_error(got[output.name], expected[output.name])
            assert error <= TOLERANCES.get(output.dtype, 0.0), (dag.inputs[0].dtype, output)
