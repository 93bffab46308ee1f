"""The context of a device: whose is current, who waits for a capture, what is given back to it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from codegen.gpu import open as opening
from codegen.gpu.device_kernel import DeviceKernel
from codegen.gpu.driver import Driver
from codegen.gpu.errors import DeviceError, DeviceLostError, DeviceMemoryError
from codegen.gpu.host import device_target
from codegen.gpu.protocol import capturing
from codegen.gpu.real import CudaDevice
from sketch.target.gpu_targets import emulated
from tests.support.driver_bindings import H200, PRIMARY, Bindings, opened, real, some_kernel

ANOTHER = 99  # the context of another device


def test_the_context_is_made_for_devices_alone_and_is_that_of_every_call() -> None:
    bindings = Bindings()
    assert device_target(Driver(bindings)) == H200
    assert not bindings.named("cuDevicePrimaryCtxRetain")
    with opened(bindings) as device:
        device.stream().copy_in(device.allocate(16), np.zeros(4, np.float32))
        device.synchronise()
    assert bindings.elsewhere == [] and bindings.alive == []


@pytest.mark.parametrize("context", [0, ANOTHER])
def test_the_context_of_the_caller_is_current_again_also_after_errors(context: int) -> None:
    bindings = Bindings()
    bindings.current = context
    with opened(bindings) as device:
        device.free(device.allocate(8))
        assert bindings.current == context
        bindings.fail["cuMemAlloc"] = "CUDA_ERROR_OUT_OF_MEMORY"
        with pytest.raises(DeviceMemoryError):
            device.allocate(8)
        assert bindings.current == context
    assert bindings.current == context and bindings.elsewhere == []


def test_where_the_context_is_current_it_is_not_set() -> None:
    bindings = Bindings()
    bindings.current = PRIMARY
    with opened(bindings) as device:
        device.free(device.allocate(8))
    assert not bindings.named("cuCtxSetCurrent")


def test_one_that_is_captured_is_waited_for_by_all_of_the_same_gpu() -> None:
    first, second = Bindings(), Bindings()
    other = CudaDevice(H200, Driver(Bindings(), ordinal=1))
    with opened(first) as device, opened(second) as twin, other, ThreadPoolExecutor(1) as pool:
        with capturing(device.stream()):
            pool.submit(other.synchronise).result(timeout=5)
            waiting = pool.submit(twin.synchronise)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.02)
            assert not second.named("cuCtxSynchronize")
        waiting.result(timeout=5)
    assert second.named("cuCtxSynchronize")


def test_closing_gives_everything_back_others_keep_the_context() -> None:
    bindings = Bindings()
    device = opened(bindings)
    stream, kept = device.stream(), device.allocate(8)
    with capturing(stream) as graphs:
        stream.record()
    device.free(device.allocate(8))
    device.unload(device.load(some_kernel(), 1.0))
    code = device.load(some_kernel(), 1.0)
    device.close()
    assert bindings.alive == [] and bindings.elsewhere == []
    del stream, graphs
    assert kept and code


def test_pinned_memory_is_given_back_with_the_array() -> None:
    bindings = Bindings()
    memory = np.zeros(64, np.uint8)
    bindings.answers["cuMemAllocHost"] = (memory.ctypes.data,)
    with opened(bindings) as device:
        array = device.host_array(16)
        array[:] = 7
        part = array[4:]
        del array
        assert not bindings.named("cuMemFreeHost")
        del part
        assert len(bindings.named("cuMemFreeHost")) == 1
    assert memory[:16].tolist() == [7] * 16 and not memory[16:].any()


def test_arrays_in_pinned_memory_outlive_the_device() -> None:
    bindings = Bindings()
    with opened(bindings) as device:
        arrays = [device.host_array(16), device.host_array(16)]
    arrays.pop()
    assert {end for end, _ in bindings.alive} == {"cuMemFreeHost", "cuDevicePrimaryCtxRelease"}
    assert (arrays[0] == 0).all()
    arrays.clear()
    assert bindings.alive == [] and bindings.elsewhere == []


def _graph(device: CudaDevice) -> None:
    with capturing(device.stream()):
        pass


@pytest.mark.parametrize(
    "function, work",
    [
        ("cuModuleGetFunction", lambda device: device.load(some_kernel(), 1.0)),
        ("cuFuncSetAttribute", lambda device: device.load(some_kernel(shared_bytes=1 << 20), 1.0)),
        ("cuGraphInstantiate", _graph),
        ("cuEventRecordWithFlags", lambda device: device.stream().record()),
    ],
)
def test_what_fails_in_the_middle_leaves_nothing(
    function: str, work: Callable[[CudaDevice], object]
) -> None:
    bindings = Bindings()
    bindings.fail[function] = "CUDA_ERROR_INVALID_VALUE"
    with opened(bindings) as device:
        with pytest.raises(DeviceError, match=function):
            work(device)
        assert [end for end, _ in bindings.alive] == ["cuDevicePrimaryCtxRelease"]


@pytest.mark.parametrize(
    "status",
    [
        "ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE", "CONTAINED", "EXTERNAL_DEVICE",
        "TENSOR_MEMORY_LEAK", "MPS_CLIENT_TERMINATED", "INVALID_CONTEXT", "CONTEXT_IS_DESTROYED",
    ],
)  # fmt: skip
def test_a_device_is_lost_by_whatever_ends_the_process_or_the_context(status: str) -> None:
    bindings = Bindings()
    device = opened(bindings)
    bindings.fail["cuCtxSynchronize"] = f"CUDA_ERROR_{status}"
    with pytest.raises(DeviceLostError, match=status):
        device.synchronise()
    assert device.lost


def test_a_context_of_the_callers_that_is_gone_takes_no_device_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bindings = Bindings()
    bindings.current = PRIMARY
    device = opened(bindings)
    bindings.current = ANOTHER
    set_current = bindings.cuCtxSetCurrent

    def gone(context: int) -> tuple[object, ...]:
        done = set_current(context)
        return (real.CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED,) if context == ANOTHER else done

    monkeypatch.setattr(bindings, "cuCtxSetCurrent", gone, raising=False)
    device.free(device.allocate(8))
    assert not device.lost


def test_a_gpu_has_a_name_that_does_not_depend_on_what_else_is_visible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = Bindings(), Bindings()
    second.answers["cuDeviceGetUuid"] = (SimpleNamespace(bytes=bytes(16)),)
    monkeypatch.setattr(opening, "check_runs", lambda *_: None)
    monkeypatch.setattr("cuda.bindings.driver", first)
    assert opening.device_identity(H200) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    monkeypatch.setattr("cuda.bindings.driver", second)
    assert opening.device_identity(H200) == "00000000-0000-0000-0000-000000000000"
    assert opening.device_identity(emulated(H200)) == "h200"
    assert first.elsewhere == [] and not first.named("cuDevicePrimaryCtxRetain")


def test_events_of_a_graph_are_read_when_it_has_run() -> None:
    bindings = Bindings()
    with opened(bindings) as device, DeviceKernel(device, some_kernel(), {}) as kernel:
        assert kernel.seconds(2) == pytest.approx(2.5e-3)
    names = [call[0] for call in bindings.asked]
    launched = names.index("cuGraphLaunch")
    read = names.index("cuEventSynchronize", launched)
    assert "cuStreamSynchronize" in names[launched:read]
