"""The benchmarks' workloads as programs and as ONNX models compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.harness import relative_error
from benchmarks.programs import program
from benchmarks.workloads import Conv, Matmul, OuterProducts, Stencil
from sketch.oracle.interpret import interpret
from tests.support.onnx_sessions import reference_session

SMALL = (
    Conv("padded", 6, 3, 4, 3),
    Conv("strided", 8, 3, 4, 7, stride=2),
    Conv("pointwise", 5, 4, 6, 1),
    Matmul("constant", 4, 5, 6, constant_b=True),
    Matmul("inputs", 4, 5, 6, constant_b=False),
    OuterProducts("outer", 2, 3, 4, 5),
    Stencil("stencil", 7),
)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_program_agrees_with_onnxruntime(case):
    from benchmarks.onnx_models import onnx_model, to_nchw, to_nhwc

    arrays = case.arrays()
    dag = program(case)
    ours = interpret(dag, arrays)[dag.output_names[0]]
    session = reference_session(onnx_model(case))
    nchw = isinstance(case, Conv)
    feeds = {
        value.name: to_nchw(arrays[value.name]) if nchw else arrays[value.name]
        for value in session.get_inputs()
    }
    (theirs,) = session.run(list(case.outputs), feeds)
    assert relative_error(to_nhwc(theirs) if nchw else theirs, ours) < 1e-5


@pytest.mark.parametrize("case", [c for c in SMALL if isinstance(c, Conv | Matmul)])
def test_renamed_program_has_the_same_key_and_flops(case):
    plain, renamed = program(case), program(case, renamed=True)
    assert plain.key == renamed.key
    assert plain.flops == renamed.flops == case.flops
    assert {t.name for t in plain.inputs} == set(case.arrays())
    assert not np.intersect1d(plain.output_names, renamed.output_names).size
