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


class Lender:
    """Another library that says of an array that it is on a GPU."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

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
