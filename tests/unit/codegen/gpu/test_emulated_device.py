"""The emulated device: results of the text, times of the caller, faults as a GPU has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaKernel, CudaSource, Launch
from codegen.file_cache import FileCache
from codegen.gpu.alignment import DEVICE_ALIGNMENT
from codegen.gpu.emulated import EmulatedDevice
from codegen.gpu.emulation.library import compiler
from codegen.gpu.errors import (
    DeviceError,
    DeviceLaunchError,
    DeviceLostError,
    DeviceMemoryError,
)
from codegen.gpu.protocol import Array, DeviceStream, LoadedCode, submit
from sketch.oracle.interpret import interpret
from sketch.target.gpu_targets import cuda_target, emulated
from tests.support.cuda_programs import MATMUL, matmul_nest
from tests.support.workloads import matmul_dag, random_inputs

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

TARGET = emulated(cuda_target("h200"))
SCALE = """
extern "C" __global__ void scale(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
"""
TRAP = SCALE.replace("y[", "if (x[0] > 0) __trap(); y[")
COUNT = SCALE.replace("= 2 * x[threadIdx.x]", "+= x[threadIdx.x]")


@pytest.fixture
def device() -> Iterator[EmulatedDevice]:
    with EmulatedDevice(TARGET) as made:
        yield made


def kernel(text: str = SCALE, arch: str = "sm_90") -> CudaKernel:
    launch = Launch("scale", 1, 8, ("x", "y"), ("const float*", "float*"))
    target = emulated(cuda_target(arch))
    return CudaKernel(CudaSource("scale", text, (launch,), (), ()), target, b"", ())


def loaded(device: EmulatedDevice, text: str = SCALE) -> tuple[LoadedCode, dict[str, int]]:
    return device.load(kernel(text), 1e-3), {name: device.allocate(32) for name in ("x", "y")}


def value(stream: DeviceStream, address: int) -> Array:
    array = np.empty(8, np.float32)
    stream.copy_out(array, address)
    stream.synchronise()
    return array


def test_a_generated_kernel_equals_the_oracle(
    device: EmulatedDevice, rng: np.random.Generator
) -> None:
    source = emit(matmul_nest(), TARGET)
    code = device.load(CudaKernel(source, TARGET, b"", ()), 1.0)
    inputs = random_inputs(matmul_dag(*MATMUL), rng)
    stream, addresses = device.stream(), {}
    for argument in source.arguments:
        addresses[argument.name] = device.allocate(4 * int(np.prod(argument.shape)))
        assert addresses[argument.name] % DEVICE_ALIGNMENT == 0
        if argument.scope != "output":
            stream.copy_in(addresses[argument.name], inputs[argument.name])
    submit(stream, code, addresses)
    result = np.empty((MATMUL[0], MATMUL[1]), np.float32)
    stream.copy_out(result, addresses["C"])
    expected = interpret(matmul_dag(*MATMUL), inputs)["C"]
    assert np.allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_the_clock_advances_by_what_is_expected(device: EmulatedDevice) -> None:
    code, addresses = loaded(device)
    stream, other = device.stream(), device.stream()
    start = stream.record()
    for _ in range(3):
        submit(stream, code, addresses)
    end = stream.record()
    assert end.seconds_since(start) == pytest.approx(3e-3)
    other.wait(end)
    submit(other, code, addresses)
    assert other.record().seconds_since(start) == pytest.approx(4e-3)


def test_what_is_captured_is_done_at_each_replay(device: EmulatedDevice) -> None:
    code, addresses = loaded(device)
    stream, x = device.stream(), np.arange(8, dtype=np.float32)
    stream.begin_capture()
    stream.copy_in(addresses["x"], x)
    before = stream.record()
    submit(stream, code, addresses)
    after = stream.record()
    graph = stream.end_capture()
    for factor in (1.0, 3.0):
        x[:] = factor * np.arange(8)
        stream.replay(graph)
        assert np.array_equal(value(stream, addresses["y"]), 2 * x)
        assert after.seconds_since(before) == pytest.approx(1e-3)
    with pytest.raises(DeviceError, match="begin_capture"):
        stream.end_capture()


def test_a_kernel_runs_again_once_something_wrote_to_its_buffers(device: EmulatedDevice) -> None:
    code, addresses = loaded(device)
    count, _ = loaded(device, COUNT)
    stream, x = device.stream(), np.ones(8, np.float32)
    stream.copy_in(addresses["x"], x)
    stream.fill(addresses["y"], 0, 32)
    submit(stream, count, addresses)
    submit(stream, count, addresses)  # the same again: only the clock advances
    assert np.array_equal(value(stream, addresses["y"]), x)
    submit(stream, code, addresses)
    submit(stream, count, addresses)
    assert np.array_equal(value(stream, addresses["y"]), 3 * x)


def test_too_little_memory_is_an_error_and_nothing_else(device: EmulatedDevice) -> None:
    total = device.memory().total
    with pytest.raises(DeviceMemoryError, match=f"{total + 1} bytes .* {total} are free"):
        device.allocate(total + 1)
    address = device.allocate(1000)
    assert device.memory().free == total - 1000
    device.free(address)
    assert device.memory().free == total and not device.lost


def test_a_machine_with_less_memory_than_the_card_says_so() -> None:
    card = replace(TARGET.card, memory_bytes=1 << 48)
    with EmulatedDevice(replace(TARGET, card=card)) as device:
        with pytest.raises(DeviceMemoryError, match="this machine has fewer"):
            device.allocate(1 << 46)
        assert device.memory().free == 1 << 48 and not device.lost


@pytest.mark.parametrize("fault", ["trap", "address"])
def test_what_a_gpu_does_not_allow_is_sticky(device: EmulatedDevice, fault: str) -> None:
    code, addresses = loaded(device, TRAP)
    stream = device.stream()
    stream.copy_in(addresses["x"], np.ones(8, np.float32))
    submit(stream, code, addresses | ({"y": 0} if fault == "address" else {}))
    assert device.lost
    message = "trap" if fault == "trap" else "illegal address"
    for request in (stream.synchronise, lambda: device.allocate(8), stream.record):
        with pytest.raises(DeviceLostError, match=message):
            request()


def test_code_of_another_architecture_and_no_code_are_refused(device: EmulatedDevice) -> None:
    with pytest.raises(DeviceLaunchError, match="for sm_80, the device is sm_90"):
        device.load(kernel(arch="sm_80"), 1.0)
    with pytest.raises(DeviceLaunchError, match="refuses the program"):
        device.load(kernel("no C++"), 1.0)


def renamed(kernel: CudaKernel) -> CudaKernel:
    """The same code for kernels of another name."""
    source = kernel.source
    launches = tuple(replace(each, symbol=f"k7_{each.symbol}") for each in source.launches)
    text = source.text
    for launch in source.launches:
        text = text.replace(launch.symbol, f"k7_{launch.symbol}")
    return replace(kernel, source=replace(source, text=text, launches=launches))


def test_a_program_is_compiled_once(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    for _ in range(2):
        with EmulatedDevice(TARGET, FileCache(folder)) as device:
            device.load(kernel(), 1.0)
            device.load(renamed(kernel()), 1.0)
    # And a copy for each further worker.
    assert len({path.name.partition("-")[0].removesuffix(".so") for path in folder.iterdir()}) == 1
    assert len(list(folder.iterdir())) == len(os.sched_getaffinity(0))


def test_other_cards_have_other_memory() -> None:
    card = replace(TARGET.card, memory_bytes=512)
    with EmulatedDevice(replace(TARGET, card=card)) as device, pytest.raises(DeviceMemoryError):
        device.allocate(513)
