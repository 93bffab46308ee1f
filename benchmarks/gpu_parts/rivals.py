"""What kernels are compared with on a GPU: PyTorch's libraries, cuBLAS itself, a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final, Protocol

from codegen.gpu.protocol import Device, DeviceStream, capturing

COPIES: Final = 10
"""Executions in a graph: launching does not show."""

_CUBLAS: Final = ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11")
_NO_TRANSPOSE: Final = 0
EMULATED: Final = "times of an emulated device are estimates"


class Rival(Protocol):
    """Something that computes the same."""

    @property
    def name(self) -> str:
        """With its version."""
        ...

    def seconds(self) -> float:
        """Of one execution, the mean of several in a row, by the device's clock."""
        ...

    def close(self) -> None:
        """Give back what it took, before the device is closed."""
        ...


class Timed:
    """What ``call`` submits to a stream, several times in a graph with events before and after: as
    our kernels are timed, so that the time of submitting is nobody's.
    """

    def __init__(self, stream: DeviceStream, call: Callable[[], object]) -> None:
        self._stream = stream
        with capturing(stream) as graphs:
            self._before = stream.record()
            for _ in range(COPIES):
                call()
            self._after = stream.record()
        (self._graph,) = graphs

    def seconds(self) -> float:
        """Of one call."""
        self._stream.replay(self._graph)
        self._stream.synchronise()  # until the graph runs, its events have passed long ago
        return self._after.seconds_since(self._before) / COPIES

    def close(self) -> None:
        """Let go of the graph."""
        self._graph.close()


class Copies:
    """Copies of as many bytes inside device memory as a kernel reads and writes."""

    name: Final = "copy inside device memory"

    def __init__(self, device: Device, size: int) -> None:
        self._device, self._stream, half = device, device.stream(), size // 2
        self._memory = memory = device.allocate(2 * half)
        self._runs = Timed(self._stream, lambda: self._stream.copy(memory + half, memory, half))

    def seconds(self) -> float:
        """Of one copy."""
        return self._runs.seconds()

    def close(self) -> None:
        """Free the memory."""
        self._runs.close()
        self._stream.close()
        self._device.free(self._memory)


class TorchGraph:
    """Calls of PyTorch, captured in a CUDA graph with events before and after, as ours are."""

    def __init__(self, torch: Any, name: str, call: Callable[[], object]) -> None:
        self.name, self._torch = f"{name} (torch {torch.__version__})", torch
        torch.cuda.synchronize()  # what the calls read is made in another stream
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):  # libraries choose their algorithms
                call()
        side.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        self._before, self._after = (
            torch.cuda.Event(enable_timing=True, external=True) for _ in range(2)
        )
        with torch.cuda.graph(self._graph):
            self._before.record()
            for _ in range(COPIES):
                call()
            self._after.record()

    def seconds(self) -> float:
        """Of one call."""
        self._graph.replay()
        self._torch.cuda.synchronize()
        return float(self._before.elapsed_time(self._after)) * 1e-3 / COPIES

    def close(self) -> None:
        """Let go of the graph."""
        self._graph.reset()


class Cublas:
    """``cublasSgemm`` by its C interface: C = A @ B, all of [size, size], float32 throughout.

    Raises:
        OSError: the library is not there, or does not work.
    """

    def __init__(self, device: Device, size: int) -> None:
        self._library = _cublas()
        self._device, self._size, self._stream = device, size, device.stream()
        self._matrices = [device.allocate(4 * size * size) for _ in range(3)]
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(self._stream.handle))
        version = ctypes.c_int()
        self._call("cublasGetVersion_v2", self._handle, ctypes.byref(version))
        self.name = f"cublas {version.value}"
        self._multiply()  # takes the memory that it works with
        self._runs = Timed(self._stream, self._multiply)

    def seconds(self) -> float:
        """Of one product."""
        return self._runs.seconds()

    def close(self) -> None:
        """End the library and free the matrices."""
        self._runs.close()
        self._call("cublasDestroy_v2", self._handle)
        self._stream.close()
        for matrix in self._matrices:
            self._device.free(matrix)

    def _multiply(self) -> None:
        one, zero, n = ctypes.c_float(1), ctypes.c_float(0), self._size
        lhs, rhs, out = map(ctypes.c_void_p, self._matrices)
        # Column-major: the product of the transposed matrices in the other order.
        self._call(
            "cublasSgemm_v2", self._handle, _NO_TRANSPOSE, _NO_TRANSPOSE, n, n, n,
            ctypes.byref(one), rhs, n, lhs, n, ctypes.byref(zero), out, n,
        )  # fmt: skip

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise OSError(f"{name} fails with status {status}")


def _cublas() -> ctypes.CDLL:
    for name in _CUBLAS:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = error
    raise last


def cuda_torch() -> Any:
    """PyTorch with its GPU, TF32 off.

    Raises:
        OSError: it is not installed, or finds no GPU.
    """
    try:
        import torch
    except ImportError as error:
        raise OSError(f"PyTorch is not installed ({error})") from error
    if not torch.cuda.is_available():
        raise OSError("PyTorch finds no GPU")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    return torch


def torch_seconds(torch: Any, call: Callable[[], object]) -> float:
    """Seconds between two events around a call."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3
