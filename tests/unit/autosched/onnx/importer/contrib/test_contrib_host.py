"""Operators of onnxruntime's own that nothing imports: it computes them itself, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as asd

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.support.contrib_models import contrib_model, floats, inputs_of
from tests.support.onnx_sessions import reference_session


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes"),
    [
        ("Inverse", [(2, 4, 4)], {}),
        ("CDist", [(5, 3), (4, 3)], {"metric": "euclidean"}),
    ],
)
def test_onnxruntime_computes_them(
    operator: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    inputs = [floats(*shape, seed=n) for n, shape in enumerate(shapes)]
    model = contrib_model(operator, inputs, attributes)
    network = asd.from_onnx(model)
    assert [node.op.on_host for node in network.graph] == [True]
    feed = inputs_of(model, inputs)
    (expected,) = reference_session(model.SerializeToString()).run(None, feed)
    np.testing.assert_array_equal(asd.compile(network).run(feed)["y0"], expected)


def test_an_operator_that_onnxruntime_does_not_have_is_one_error() -> None:
    model = contrib_model("Sharpen", [floats(2, 3)], {})
    with pytest.raises(asd.AutoschedError, match=r"com\.microsoft\.Sharpen .*needs onnxruntime"):
        asd.from_onnx(model)


def test_random_results_are_refused() -> None:
    model = contrib_model("BitmaskDropout", [floats(2, 3)], {})
    with pytest.raises(asd.AutoschedError, match="BitmaskDropout draws new random numbers"):
        asd.from_onnx(model)
