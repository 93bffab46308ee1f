"""Devices to test on: the emulated one, and the GPU of this machine where there is one."""

from __future__ import annotations

import pytest

from codegen.gpu.host import gpu_here
from codegen.gpu.missing import missing_device, missing_gpu
from sketch.target.gpu_targets import cuda_target, emulated
from sketch.target.target import Target


@pytest.fixture(scope="session")
def gpu() -> Target:
    """The GPU of this machine; tests that ask for it are marked ``gpu``."""
    reason = missing_gpu()
    if reason is None:
        reason = missing_device(gpu_here())
    if reason is not None:
        pytest.skip(reason)
    return gpu_here()


@pytest.fixture(scope="session", params=["emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def target(request: pytest.FixtureRequest) -> Target:
    """Both, in turn."""
    if request.param == "gpu":
        return request.getfixturevalue("gpu")
    stand_in = emulated(cuda_target("h200"))
    reason = missing_device(stand_in)
    if reason is not None:
        pytest.skip(reason)
    return stand_in
