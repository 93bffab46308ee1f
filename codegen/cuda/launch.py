"""Runs and times CUDA kernels on the first GPU of this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codegen.cuda.kernel import CudaKernel
from codegen.errors import CodegenError
from sketch.errors import TargetError

Array = NDArray[Any]
_DRIVER: Final = "libcuda.so.1"
_WARM_UP_RUNS: Final = 3


def missing_gpu() -> str | None:
    """Why no kernel can run here, or None where one can.

    Asks the driver itself: without a driver, a first failing call of ``cuda.core`` can make the
    next one hang.
    """
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError as error:
        return f"no CUDA driver ({error})"
    status = driver.cuInit(0)
    if status != 0:
        return f"the CUDA driver does not start (error {status})"
    count = ctypes.c_int(0)
    status = driver.cuDeviceGetCount(ctypes.byref(count))
    if status != 0 or count.value < 1:
        return f"the CUDA driver finds no device (error {status})"
    try:
        import cuda.core  # noqa: F401
    except ImportError as error:
        return f"cuda.core is not installed ({error})"
    return None


def host_arch() -> str:
    """The architecture of the first GPU, ``sm_90``.  Raises TargetError where there is none."""
    major, minor = _device().compute_capability
    return f"sm_{major}{minor}"


def _device() -> Any:
    reason = missing_gpu()
    if reason is not None:
        raise TargetError(reason, "running CUDA code", "use a machine with an NVIDIA GPU")
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    return device


class DeviceKernel:
    """A kernel on the GPU with its arguments in device memory; a context manager.

    Raises:
        TargetError: no GPU, or one of another architecture.
        CodegenError: an input is missing or has a wrong size.
    """

    def __init__(self, kernel: CudaKernel, arrays: Mapping[str, Array]) -> None:
        device = _device()
        if host_arch() != kernel.target.arch:
            raise TargetError(f"the code is for {kernel.target.arch}, the GPU is {host_arch()}")
        from cuda.core import LaunchConfig, ObjectCode

        self._source = kernel.source
        self._stream = device.create_stream()
        self._memory: dict[str, Any] = {}
        self._allocate(device)
        self._upload(arrays)
        self._code = ObjectCode.from_cubin(kernel.cubin)
        self._launches = [
            (
                LaunchConfig(grid=launch.grid, block=launch.block),
                self._code.get_kernel(launch.symbol),
                [self._memory[name] for name in launch.buffers],
            )
            for launch in kernel.source.launches
        ]

    def __enter__(self) -> DeviceKernel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the device memory."""
        for buffer in self._memory.values():
            buffer.close(self._stream)
        self._memory.clear()
        self._launches.clear()
        self._stream.sync()

    def run(self) -> dict[str, Array]:
        """Execute once; outputs by name, in the shapes of the arguments."""
        self._submit()
        self._stream.sync()
        from cuda.bindings import driver

        outputs: dict[str, Array] = {}
        for argument in self._source.arguments:
            if argument.scope == "output":
                array = np.empty(argument.shape, argument.dtype)
                address = int(self._memory[argument.name].handle)
                _checked(driver.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes))
                outputs[argument.name] = array
        return outputs

    def time(self, repeats: int = 10, runs: int = 10) -> tuple[float, ...]:
        """Seconds of one run, ``repeats`` times, each the mean of ``runs`` back to back.

        Measured by events on the GPU; caches are warm.
        """
        from cuda.core import EventOptions

        options = EventOptions(timing_enabled=True)
        for _ in range(_WARM_UP_RUNS):
            self._submit()
        seconds = []
        for _ in range(repeats):
            start = self._stream.record(options=options)
            for _ in range(runs):
                self._submit()
            end = self._stream.record(options=options)
            end.sync()
            seconds.append((end - start) * 1e-3 / runs)
        return tuple(seconds)

    def _submit(self) -> None:
        from cuda.core import launch

        for config, function, arguments in self._launches:
            launch(self._stream, config, function, *arguments)

    def _allocate(self, device: Any) -> None:
        sizes = dict(self._source.workspaces)
        for argument in self._source.arguments:
            count = int(np.prod(argument.shape, dtype=np.int64))
            sizes[argument.name] = count * np.dtype(argument.dtype).itemsize
        for name, size in sizes.items():
            self._memory[name] = device.allocate(size, stream=self._stream)
        self._stream.sync()

    def _upload(self, arrays: Mapping[str, Array]) -> None:
        from cuda.bindings import driver

        for argument in self._source.arguments:
            if argument.scope == "output":
                continue
            if argument.name not in arrays:
                raise CodegenError(f"no array for {argument.name}", self._source.name)
            array = np.ascontiguousarray(arrays[argument.name], argument.dtype)
            if array.size != int(np.prod(argument.shape, dtype=np.int64)):
                raise CodegenError(
                    f"{argument.name} has shape {array.shape}, the kernel needs {argument.shape}",
                    self._source.name,
                )
            address = int(self._memory[argument.name].handle)
            _checked(driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))


def _checked(result: tuple[Any, ...]) -> None:
    if int(result[0]) != 0:
        raise CodegenError(f"a copy to or from the GPU failed: {result[0]}", "CUDA driver")
