"""What the CUDA driver is asked for, and what becomes of its errors; the driver is a stand-in."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from codegen.gpu.driver import Driver
from codegen.gpu.errors import (
    DeviceError,
    DeviceLaunchError,
    DeviceLostError,
    DeviceMemoryError,
)
from codegen.gpu.host import card_name, device_target
from codegen.gpu.protocol import capturing, submit
from codegen.gpu.real import CudaDevice
from sketch.target.gpu_targets import cuda_target
from tests.support.driver_bindings import H200, Bindings, opened, real, some_kernel


def test_a_kernel_is_launched_with_its_grid_block_and_addresses() -> None:
    bindings = Bindings()
    with opened(bindings) as device:
        assert device.name == "NVIDIA H200" and device.memory().free == 3 << 30
        code, stream = device.load(some_kernel(), 1.0), device.stream()
        submit(stream, code, {"x": 512, "y": 1024})
    (call,) = bindings.named("cuLaunchKernel")
    assert call[2:9] == (3, 1, 1, 64, 1, 1, 0) and call[9] == stream.handle
    assert call[10][0] == (512, 1024) and len(call[10][1]) == 2
    assert bindings.named("cuModuleGetFunction")[0][2] == b"scale_0"
    assert bindings.named("cuDevicePrimaryCtxRelease")


def test_a_kernel_gets_the_shared_memory_that_its_launch_asks_for() -> None:
    bindings = Bindings()
    with opened(bindings) as device:
        code, stream = device.load(some_kernel(shared_bytes=98304), 1.0), device.stream()
        submit(stream, code, {"x": 512, "y": 1024})
    (allowed,), (call,) = bindings.named("cuFuncSetAttribute"), bindings.named("cuLaunchKernel")
    assert allowed[1] == call[1] and call[8] == allowed[3] == 98304
    most = real.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert allowed[2] == most


def test_events_in_a_capture_are_recorded_by_every_replay() -> None:
    bindings = Bindings()
    with opened(bindings) as device:
        stream = device.stream()
        start = stream.record()
        stream.begin_capture()
        inside = stream.record()
        graph = stream.end_capture()
        stream.replay(graph)
        assert inside.seconds_since(start) == pytest.approx(2.5e-3)
        with pytest.raises(DeviceError, match="begin_capture"):
            stream.end_capture()
        graph.close()
        graph.close()
    outside, captured = (call[3] for call in bindings.named("cuEventRecordWithFlags"))
    flags = real.CUevent_record_flags
    assert (outside, captured) == (
        int(flags.CU_EVENT_RECORD_DEFAULT), int(flags.CU_EVENT_RECORD_EXTERNAL),
    )  # fmt: skip
    assert len(bindings.named("cuGraphExecDestroy")) == 1
    assert len(bindings.named("cuGraphLaunch")) == 1


def test_a_stream_that_the_caller_made_is_left_alone() -> None:
    bindings = Bindings()
    with opened(bindings) as device:
        stream = device.stream_of(77)
        stream.copy_in(256, np.zeros(4, np.float32))
        stream.close()
        device.stream().close()
    assert bindings.named("cuMemcpyHtoDAsync")[0][1::2] == (256, 16)
    assert bindings.named("cuMemcpyHtoDAsync")[0][4] == 77
    assert len(bindings.named("cuStreamDestroy")) == 1


def test_what_python_collects_during_a_capture_does_not_end_it() -> None:
    bindings = Bindings()
    with opened(bindings) as device:
        stream = device.stream()
        stream.begin_capture()
        stream.end_capture()
    (call,) = bindings.named("cuStreamBeginCapture")
    assert call[2] is real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


def test_all_streams_are_waited_for_only_when_none_is_captured() -> None:
    bindings, stream_error = Bindings(), RuntimeError("in the block")
    with opened(bindings) as device, ThreadPoolExecutor(1) as pool:
        stream = device.stream()
        with pytest.raises(RuntimeError, match="in the block"), capturing(stream):
            waiting = pool.submit(device.synchronise)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.02)
            assert not bindings.named("cuCtxSynchronize")
            raise stream_error
        waiting.result(timeout=5)
    assert bindings.named("cuCtxSynchronize") and bindings.named("cuStreamEndCapture")


def test_a_closed_device_is_not_asked_to_take_things_back() -> None:
    bindings = Bindings()
    device = opened(bindings)
    stream, event = device.stream(), device.stream().record()
    device.close()
    asked = len(bindings.asked)
    stream.close()
    del stream, event
    with pytest.raises(DeviceError, match="device that is closed"):
        device.allocate(8)
    device.close()
    assert len(bindings.asked) == asked


@pytest.mark.parametrize(
    "function, status, kind, lost",
    [
        ("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", DeviceMemoryError, False),
        ("cuMemAlloc", "CUDA_ERROR_INVALID_VALUE", DeviceError, False),
        ("cuMemAlloc", "CUDA_ERROR_UNKNOWN", DeviceLostError, True),
        ("cuModuleLoadData", "CUDA_ERROR_NO_BINARY_FOR_GPU", DeviceLaunchError, False),
        ("cuCtxSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", DeviceLostError, True),
        ("cuCtxSynchronize", "CUDA_ERROR_LAUNCH_FAILED", DeviceLostError, True),
    ],
)
def test_statuses_are_errors_of_ours(
    function: str, status: str, kind: type[DeviceError], lost: bool
) -> None:
    bindings = Bindings()
    device = opened(bindings)
    bindings.fail[function] = status
    requests: dict[str, Callable[[], Any]] = {
        "cuMemAlloc": lambda: device.allocate(8),
        "cuModuleLoadData": lambda: device.load(some_kernel(), 1.0),
        "cuCtxSynchronize": device.synchronise,
    }
    with pytest.raises(kind, match=f"{function} fails: {status}"):
        requests[function]()
    bindings.fail.clear()
    assert device.lost is lost
    if lost:
        asked = len(bindings.asked)
        for request in requests.values():
            with pytest.raises(DeviceLostError, match=status):
                request()
        device.close()
        assert len(bindings.asked) == asked  # a lost driver is not asked again


def test_other_architectures_and_emulated_kernels_are_refused() -> None:
    with pytest.raises(DeviceLaunchError, match=r"the target is sm_80, the GPU .* is sm_90"):
        CudaDevice(cuda_target("a100"), Driver(Bindings()))
    with opened(Bindings()) as device, pytest.raises(DeviceLaunchError, match="emulated"):
        device.load(some_kernel(b""), 1.0)


def test_a_card_that_is_read_is_the_card_of_that_name() -> None:
    assert device_target(Driver(Bindings(L2_CACHE_SIZE=50 << 20))) == H200
    part = device_target(Driver(Bindings(MULTIPROCESSOR_COUNT=60)))
    assert (part.card.name, part.threads, part.arch) == ("h200-60", 60, "sm_90")
    assert part.card.memory_bytes_per_s == pytest.approx(4.9e12, rel=0.02)
    unknown = device_target(
        Driver(Bindings("NVIDIA RTX A2000", COMPUTE_CAPABILITY_MAJOR=8, COMPUTE_CAPABILITY_MINOR=7))
    )
    assert (unknown.card.name, unknown.arch) == ("rtxa2000-132", "sm_87")


@pytest.mark.parametrize(
    "name, card",
    [
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
    ],
)
def test_names_of_makers_are_left_out(name: str, card: str) -> None:
    assert card_name(name) == card


def test_a_driver_without_a_function_is_said_to_be_old(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any) -> None:
        raise RuntimeError('Function "cuMemAlloc" not found')

    with opened(Bindings()) as device:
        monkeypatch.setattr(Bindings, "cuMemAlloc", absent, raising=False)
        with pytest.raises(DeviceError, match=r"has no cuMemAlloc.*580 or newer"):
            device.allocate(64)
