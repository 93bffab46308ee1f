"""The benchmarks' workloads as programs and as ONNX models compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.harness import relative_error
from benchmarks.operator_rows import Bar, Case, _bars
from benchmarks.programs import program
from benchmarks.workloads import Conv, IntegerConv, Matmul, OuterProducts, Stencil
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


@pytest.mark.parametrize(
    "conv", [Conv("padded", 6, 5, 7, 3), Conv("pointwise", 5, 8, 6, 1)], ids=lambda conv: conv.name
)
def test_convolutions_of_bytes_agree_with_onnxruntime(conv):
    """Their scale is a power of two: no rounding differs."""
    from benchmarks.onnx_models import onnx_model, to_nchw, to_nhwc

    case = IntegerConv(conv)
    arrays = case.arrays()
    ours = interpret(program(case), arrays)["Y"]
    session = reference_session(onnx_model(case))
    (theirs,) = session.run(["Y"], {"X": to_nchw(arrays["X"])})
    np.testing.assert_array_equal(to_nhwc(theirs), ours)
    assert ours.dtype == np.uint8 and 20 < ours.astype(float).std() < 110


def test_a_bar_that_a_row_does_not_reach_fails():
    case = Case(IntegerConv(Conv("pointwise", 5, 8, 6, 1)), Bar(fastest=1.0, times_float=2.8))
    row = {"ratio_low": 1.2, "float_ratio_low": 2.7, "max_error": 1 / 255}
    assert case.bar is not None
    assert _bars(case, case.bar, row) == {
        "times the fastest rival >= 1": True,
        "times our float32 >= 2.8": False,
        "error <= 0.00392157": True,
    }


@pytest.mark.parametrize("case", [c for c in SMALL if isinstance(c, Conv | Matmul)])
def test_renamed_program_has_the_same_key_and_flops(case):
    plain, renamed = program(case), program(case, renamed=True)
    assert plain.key == renamed.key
    assert plain.flops == renamed.flops == case.flops
    assert {t.name for t in plain.inputs} == set(case.arrays())
    assert not np.intersect1d(plain.output_names, renamed.output_names).size
