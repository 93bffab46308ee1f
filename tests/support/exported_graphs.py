"""Graphs that onnxruntime computes, as ONNX models, beside the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph
from autosched.onnx.export import to_onnx
from sketch.lang.dtypes import is_float
from tests.support.onnx_sessions import reference_session

_FLOAT = 1e-5


def assert_exported(
    graph: Graph, feeds: Mapping[str, NDArray[Any]], exact: bool = False, tolerance: float = _FLOAT
) -> None:
    """Fail unless onnxruntime computes of the exported graph what the reference does.

    Args:
        graph: the graph.
        feeds: its inputs.
        exact: floats may not differ either.
        tolerance: of floats, relative to the largest one.
    """
    expected = evaluate(graph, feeds)
    names = [value.name for value in graph.outputs]
    found = reference_session(to_onnx(graph).SerializeToString()).run(names, dict(feeds))
    for value, theirs in zip(graph.outputs, found, strict=True):
        ours = expected[value.name]
        assert (theirs.shape, str(theirs.dtype)) == (value.shape, value.dtype)
        if exact or not is_float(value.dtype):
            np.testing.assert_array_equal(theirs, ours.astype(theirs.dtype), value.name)
        else:
            finite = np.abs(ours[np.isfinite(ours)])
            scale = max(float(finite.max(initial=0)), 1e-30)
            np.testing.assert_allclose(
                theirs, ours, rtol=tolerance, atol=tolerance * scale, err_msg=value.name
            )
