"""Arrays of the device and graphs of a run: nothing is copied twice, nothing submitted twice."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.runtime.errors import InputError
from autosched.runtime.gpu.device_array import DeviceArray, read_array
from autosched.runtime.gpu.dlpack import CPU, CUDA
from codegen.gpu.emulated import EmulatedDevice, EmulatedStream
from codegen.gpu.emulation.library import compiler
from tests.support.device_networks import EMULATED, loop_network, mixed_network

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")


class RealDevice:
    """What of a GPU is asked for."""

    kind = "gpu"
    name = "NVIDIA H200"

    def __init__(self, ordinal: int = 0) -> None:
        self.ordinal = ordinal


class Lender:
    """Another library that says of an array that it is on a GPU, the first or another."""

    def __init__(self, array: np.ndarray, number: int = 0) -> None:
        self.array, self.number = array, number
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.number

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__()


def test_arrays_of_other_libraries_are_read_in_place_and_given_back() -> None:
    lender = Lender(np.arange(6, dtype=np.float32).reshape(2, 3))
    array = read_array(lender, RealDevice(), "x")  # type: ignore[arg-type]
    assert isinstance(array, DeviceArray)
    assert array.address == lender.array.ctypes.data
    assert (array.shape, array.dtype) == ((2, 3), np.float32)
    assert lender.streams == [-1]
    alive = weakref.ref(lender.array)
    del lender
    gc.collect()
    assert alive() is not None  # as long as somebody has the array
    del array
    gc.collect()
    assert alive() is None


def test_arrays_with_gaps_and_of_a_gpu_that_is_not_there_are_refused() -> None:
    whole = np.zeros((2, 3), np.float32)
    with EmulatedDevice(EMULATED) as device, pytest.raises(InputError, match="is emulated"):
        read_array(Lender(whole), device, "x")
    for gaps in (whole[:, :2], whole.T):
        with pytest.raises(InputError, match="gaps between its elements"):
            read_array(Lender(gaps), RealDevice(), "x")  # type: ignore[arg-type]


def test_an_array_of_another_gpu_is_refused() -> None:
    lender = Lender(np.zeros((2, 3), np.float32), 1)
    with pytest.raises(InputError, match=r"on GPU 1, the module is on GPU 0.*\.to\('cuda:0'\)"):
        read_array(lender, RealDevice(), "x")  # type: ignore[arg-type]
    assert lender.streams == []
    assert isinstance(read_array(lender, RealDevice(1), "x"), DeviceArray)  # type: ignore[arg-type]
    array = DeviceArray(256, (2,), "float32", RealDevice(1), None)  # type: ignore[arg-type]
    assert array.__dlpack_device__() == (CUDA, 1)


def test_arrays_of_other_modules_are_read_in_place_where_the_memory_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied = np.arange(2, dtype=np.float32)
    monkeypatch.setattr(DeviceArray, "numpy", lambda _: copied)
    gpu = DeviceArray(256, (2,), "float32", RealDevice(), None)  # type: ignore[arg-type]
    assert read_array(gpu, RealDevice(), "x") is gpu  # type: ignore[arg-type]
    assert read_array(gpu, RealDevice(1), "x") is copied  # type: ignore[arg-type]
    with EmulatedDevice(EMULATED) as device, EmulatedDevice(EMULATED) as other:
        array = DeviceArray(device.allocate(8), (2,), "float32", device, None)
        assert read_array(array, device, "x") is array
        assert read_array(array, other, "x") is copied
        assert read_array(array, RealDevice(), "x") is copied  # type: ignore[arg-type]


def test_results_of_one_emulated_module_go_into_another() -> None:
    first, second = (asd.compile(loop_network(), EMULATED) for _ in range(2))
    inputs = first.random_inputs()
    out = next(iter(first.run_on_device(inputs).values()))
    name = next(name for name, array in inputs.items() if array.shape == out.shape)
    expected = first.run(inputs | {name: out.numpy()})
    for key, found in second.run(inputs | {name: out}).items():
        np.testing.assert_array_equal(found, expected[key])


def test_results_are_shared_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    module = asd.compile(loop_network(), EMULATED)
    out, *_ = module.run_on_device(module.random_inputs()).values()
    monkeypatch.setattr(EmulatedStream, "copy_out", lambda *_: pytest.fail("a copy"))
    shared = np.from_dlpack(out)
    assert out.__dlpack_device__()[0] == CPU
    assert shared.ctypes.data == out.address and shared.shape == out.shape


def test_results_that_are_collected_are_waited_for_by_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not at once: this thread may be capturing."""
    module = asd.compile(loop_network(), EMULATED)
    inputs = module.random_inputs()
    out = module.run_on_device(inputs)
    waited = []
    wait = EmulatedDevice.synchronise
    monkeypatch.setattr(
        EmulatedDevice, "synchronise", lambda device: waited.append(device) or wait(device)
    )
    del out
    gc.collect()
    assert not waited
    module.run(inputs)
    module.run(inputs)
    assert len(waited) == 1


def test_an_input_on_the_device_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    module = asd.compile(loop_network(), EMULATED)
    inputs = module.random_inputs()
    expected, device = module.run(inputs), module._loaded._resident.device
    given = {}
    for name, array in inputs.items():
        given[name] = DeviceArray(device.allocate(array.nbytes), array.shape, "float32", device, 0)
        device.stream().copy_in(given[name].address, array)
    monkeypatch.setattr(EmulatedStream, "copy_in", lambda *_: pytest.fail("a copy"))
    for name, found in module.run(given).items():
        np.testing.assert_array_equal(found, expected[name])


@pytest.mark.parametrize(("host_steps", "graphs"), [(0, 1), (1, 2)])
def test_kernels_between_host_steps_are_one_graph(
    host_steps: int, graphs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = asd.compile(mixed_network() if host_steps else loop_network(), EMULATED)
    inputs = module.random_inputs()
    module.run(inputs)
    replayed: list[object] = []
    replay = EmulatedStream.replay
    monkeypatch.setattr(
        EmulatedStream, "replay", lambda *each: replayed.append(each[1]) or replay(*each)
    )
    monkeypatch.setattr(EmulatedStream, "begin_capture", lambda _: pytest.fail("captured again"))
    monkeypatch.setattr(EmulatedStream, "launch", lambda *_: pytest.fail("outside of a graph"))
    for _ in range(2):
        module.run(inputs)
    assert len(replayed) == 2 * graphs and len(set(map(id, replayed))) == graphs
