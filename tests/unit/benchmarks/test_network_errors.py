"""Errors of networks from a run in float64."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import zoo
from benchmarks.harness import Comparison
from benchmarks.network_errors import error_from_float64, error_from_onnxruntime, float64_outputs
from benchmarks.networks import exported

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    net = zoo.build("squeezenet-1.1", image=64)
    return exported(net, 1.0, tmp_path_factory.mktemp("network"), "NCHW")


def comparison(**outputs):
    return Comparison({}, outputs, {}, {}, {})


def test_the_reference_is_of_float64(workload):
    exact = float64_outputs(workload)
    assert {array.dtype for array in exact.values()} == {np.dtype(np.float64)}
    assert any((array != array.astype(np.float32)).any() for array in exact.values())


def test_the_error_is_relative_to_the_largest_output(workload):
    exact = float64_outputs(workload)
    moved = {name: array + 1e-3 * np.abs(array).max() for name, array in exact.items()}
    assert error_from_float64(workload, comparison(ours=moved)) == pytest.approx(1e-3, rel=1e-6)
    assert error_from_onnxruntime(workload, comparison(ours=moved, onnxruntime=exact)) == (
        pytest.approx(1e-3, rel=1e-6)
    )
    assert np.isnan(error_from_onnxruntime(workload, comparison(ours=moved)))
