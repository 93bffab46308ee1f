"""A stand-in for ``cuda.bindings.driver``: what it is asked, and what nobody has given back."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from codegen.cuda.kernel import CudaKernel, CudaSource, Launch
from codegen.gpu.driver import Driver
from codegen.gpu.real import CudaDevice
from codegen.kernel import Argument
from sketch.target.gpu_targets import cuda_target

real = pytest.importorskip("cuda.bindings.driver")
H200: Final = cuda_target("h200")
PRIMARY: Final = 77
"""The context of the device."""
ATTRIBUTES: Final = {
    "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132,
    "CLOCK_RATE": 1_980_000, "MEMORY_CLOCK_RATE": 3_201_000, "GLOBAL_MEMORY_BUS_WIDTH": 6144,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 << 10,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536, "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32, "L2_CACHE_SIZE": 60 << 20,
}  # fmt: skip
ENDS: Final = {
    "cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRelease", "cuEventCreate": "cuEventDestroy",
    "cuStreamCreate": "cuStreamDestroy", "cuModuleLoadData": "cuModuleUnload",
    "cuMemAlloc": "cuMemFree", "cuMemAllocHost": "cuMemFreeHost",
    "cuStreamEndCapture": "cuGraphDestroy", "cuGraphInstantiate": "cuGraphExecDestroy",
}  # fmt: skip
_IN_NO_CONTEXT: Final = ("cuInit", "cuDevice", "cuCtxGetCurrent", "cuCtxSetCurrent")


class Bindings:
    """Functions of the driver that answer and keep what they were asked; enums are the real ones.

    Attributes:
        asked: calls, with their arguments.
        alive: what was made and not ended, by the function that ends it.
        current: the context of this thread.
        elsewhere: calls that need the device's context, in another one.
        fail: by function, the status that it returns.
    """

    def __init__(self, name: str = "NVIDIA H200", **attributes: int) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.alive: list[tuple[str, int]] = []
        self.elsewhere: list[str] = []
        self.current = 0
        self.fail: dict[str, str] = {}
        self._numbers = ATTRIBUTES | attributes
        self._memory: list[np.ndarray] = []
        self.answers: dict[str, Any] = {
            "cuDeviceGet": (5,),
            "cuDeviceGetName": (name.encode() + b"\0\0",),
            "cuDeviceGetUuid": (SimpleNamespace(bytes=bytes(range(16))),),
            "cuDeviceTotalMem": (4 << 30,),
            "cuEventElapsedTime": (2.5,),
            "cuMemGetInfo": (3 << 30, 4 << 30),
        }

    def __getattr__(self, name: str) -> Any:
        assert hasattr(real, name), f"the driver has no {name}"
        return self._function(name) if name.startswith("cu") else getattr(real, name)

    def _function(self, name: str) -> Callable[..., tuple[Any, ...]]:
        def function(*arguments: Any) -> tuple[Any, ...]:
            self.asked.append((name, *arguments))
            if self.current != PRIMARY and not name.startswith(_IN_NO_CONTEXT):
                self.elsewhere.append(name)
            if name in self.fail:
                return getattr(real.CUresult, self.fail[name]), None
            return real.CUresult.CUDA_SUCCESS, *self._answer(name, arguments)

        return function

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if name == "cuCtxGetCurrent":
            return (self.current,)
        if name == "cuCtxSetCurrent":
            self.current = arguments[0]
            return ()
        if name == "cuDeviceGetAttribute":
            return (self._numbers[arguments[0].name.removeprefix("CU_DEVICE_ATTRIBUTE_")],)
        if name in ENDS.values():
            self.alive.remove((name, arguments[0]))
        answer = self.answers.get(name) or (self._made(name, arguments),)
        if name in ENDS:
            ends = ENDS[name]
            self.alive.append((ends, 5 if ends == "cuDevicePrimaryCtxRelease" else answer[0]))
        return tuple(answer)

    def _made(self, name: str, arguments: tuple[Any, ...]) -> int:
        if name == "cuDevicePrimaryCtxRetain":
            return PRIMARY
        if name == "cuMemAllocHost":
            self._memory.append(np.zeros(arguments[0], np.uint8))
            return int(self._memory[-1].ctypes.data)
        return 4096 + len(self.asked)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.asked if call[0] == name]


def some_kernel(cubin: bytes = b"cubin", shared_bytes: int = 0) -> CudaKernel:
    launch = Launch("scale_0", 3, 64, ("x", "y"), ("const float*", "float*"), shared_bytes)
    arguments = (Argument("x", "float32", (8,), "output"), Argument("y", "float32", (8,), "output"))
    return CudaKernel(CudaSource("scale", "", (launch,), arguments, ()), H200, cubin, ())


def opened(bindings: Bindings) -> CudaDevice:
    return CudaDevice(H200, Driver(bindings))
