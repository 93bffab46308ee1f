"""Errors of networks: from what they compute in float64, and from what onnxruntime computes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import OURS, Comparison, relative_error
from benchmarks.workloads import Network

REFERENCE = "onnxruntime"


def error_from_float64(workload: Network, result: Comparison) -> float:
    """The largest error of our outputs, relative to the largest element of the output in float64;
    of onnxruntime's, where a module makes float32 itself and PyTorch refuses to mix both.

    Runs in a process of its own, so that no weights stay in this one.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            exact = pool.submit(float64_outputs, workload).result()
        except RuntimeError:
            return error_from_onnxruntime(workload, result)
    ours = result.outputs[OURS]
    return max(relative_error(ours[name], exact[name]) for name in workload.outputs)


def float64_outputs(workload: Network) -> Mapping[str, NDArray[Any]]:
    """The outputs of the network as PyTorch computes them in float64, by name."""
    import torch

    from benchmarks.rivals.torch_models import torch_model

    model = torch_model(workload)
    module = model.module.double()
    inputs = [tensor.double() if tensor.is_floating_point() else tensor for tensor in model.inputs]
    with torch.inference_mode():
        found: Mapping[str, NDArray[Any]] = model.arrays(module(*inputs))
    assert all(array.dtype != np.float32 for array in found.values())
    return found


def error_from_onnxruntime(workload: Network, result: Comparison) -> float:
    """The same, relative to the largest output of onnxruntime; NaN where it did not run."""
    if REFERENCE not in result.outputs:
        return float("nan")
    ours, reference = result.outputs[OURS], result.outputs[REFERENCE]
    return max(relative_error(ours[name], reference[name]) for name in workload.outputs)
