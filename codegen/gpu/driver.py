"""The CUDA driver's functions on the first GPU, with its errors as ours."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

from codegen.gpu.errors import (
    DeviceError,
    DeviceLaunchError,
    DeviceLostError,
    DeviceMemoryError,
)

NEWER_DRIVER: Final = "install NVIDIA's driver, 580 or newer"
"""What to do where there is none, or an old one."""

_NO_MEMORY: Final = ("CUDA_ERROR_OUT_OF_MEMORY",)
_NOT_LOADED: Final = (
    "CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUDA_ERROR_NOT_FOUND",
)  # fmt: skip
# After these no call of the process succeeds any more (CUDA Driver API, "CUresult"), or what was
# made in the context is gone: somebody has destroyed it.
_LOST: Final = (
    "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_TIMEOUT", "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_CONTAINED", "CUDA_ERROR_EXTERNAL_DEVICE", "CUDA_ERROR_TENSOR_MEMORY_LEAK",
    "CUDA_ERROR_MPS_CLIENT_TERMINATED", "CUDA_ERROR_INVALID_CONTEXT",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED", "CUDA_ERROR_UNKNOWN", "CUDA_ERROR_NOT_INITIALIZED",
    "CUDA_ERROR_DEINITIALIZED", "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA_ERROR_SYSTEM_NOT_READY",
)  # fmt: skip
_HINTS: Final[Mapping[type[DeviceError], str]] = {
    DeviceMemoryError: "use smaller shapes, or end other programs on the GPU",
    DeviceLaunchError: "compile for this GPU",
    DeviceLostError: "use the device in a new process",
}
_PINNED: Final = "cuMemFreeHost"
_FIRST: Final = threading.Lock()  # two threads that ask first for a device's lock get one


class Driver:
    """Calls of ``cuda.bindings.driver`` for one device.

    What asks for a number of the device needs no context, which takes a part of a second to make;
    everything else is called in the device's primary one, from ``retain`` on.  The context that a
    thread's caller had is current again after each call.

    Attributes:
        ordinal: of the device, as ``CUDA_VISIBLE_DEVICES`` lets this process count.
        capture: held by whoever captures a stream, and for calls that are errors meanwhile:
            waiting for all streams of the context.  One for each device of this process.

    Args:
        bindings: the module.
        ordinal: of the device.

    Raises:
        DeviceError: the device cannot be used.
    """

    def __init__(self, bindings: Any, ordinal: int = 0) -> None:
        self.bindings, self.ordinal = bindings, ordinal
        self.lost = self.name = ""
        self.capture = capture_lock(ordinal)
        self._context: Any = None
        self._closed = False
        # What is to be given back, by the function that does it and by address.
        self._made: dict[tuple[str, int], Any] = {}
        self._pinned: dict[tuple[str, int], Any] = {}
        self._release = threading.RLock()  # Python may collect an array in the middle
        self.call("cuInit", 0)
        self.device = self.call("cuDeviceGet", ordinal)
        self.name = self.call("cuDeviceGetName", 256, self.device).split(b"\0")[0].decode()

    def retain(self) -> None:
        """Make the device's context, or share it with others of this process.

        Raises:
            DeviceError: it cannot be made.
        """
        self._context = self.call("cuDevicePrimaryCtxRetain", self.device)

    def call(self, name: str, *arguments: Any) -> Any:
        """What a function returns beside its status: nothing, a value, or a tuple of them.

        Raises:
            DeviceMemoryError, DeviceLaunchError, DeviceLostError, DeviceError: it fails, or the
                device is closed.
        """
        if self._closed:
            raise DeviceError(f"{name} of a device that is closed", self.name)
        return self._call(name, *arguments)

    def make(self, end: str, name: str, *arguments: Any) -> Any:
        """``call`` of what makes something, which ``give_back`` or ``close`` ends.

        Args:
            end: the function that takes it back.
            name: the function that makes it.
            arguments: of ``name``.

        Raises:
            DeviceMemoryError, DeviceLaunchError, DeviceLostError, DeviceError: as ``call``.
        """
        made = self.call(name, *arguments)
        self._of(end)[end, int(made)] = made
        return made

    def give_back(self, end: str, made: Any) -> None:
        """Call ``end`` for what ``make`` made; nothing where that was done, here or by ``close``.

        Raises:
            DeviceLostError, DeviceError: it fails.
        """
        if self._of(end).pop((end, int(made)), None) is not None:
            try:
                self._call(end, made)
            finally:
                self._let_go()

    def give_back_quietly(self, end: str, made: Any) -> None:
        """``give_back``; where the device is lost there is nothing left to give."""
        with suppress(DeviceError):
            self.give_back(end, made)

    def attribute(self, name: str) -> int:
        """``CU_DEVICE_ATTRIBUTE_<name>`` of the device."""
        wanted = getattr(self.bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", wanted, self.device))

    def close(self) -> None:
        """Give back what was made, and let go of the context; nothing can be called any more.

        Other users of the context keep it alive, so that nothing may be left to its end.  Pinned
        memory stays as long as its arrays, and the context with it.
        """
        self._closed = True
        while self._made:  # the last first: freeing memory waits for the code that uses it
            (end, _), made = self._made.popitem()
            with suppress(DeviceError):
                self._call(end, made)
        self._let_go()

    def _of(self, end: str) -> dict[tuple[str, int], Any]:
        return self._pinned if end == _PINNED else self._made

    def _let_go(self) -> None:
        """Release the context, once the device is closed and no array is left of it."""
        with self._release:
            if not self._closed or self._pinned or self._context is None:
                return
            self._context = None
            with suppress(DeviceError):
                self._call("cuDevicePrimaryCtxRelease", self.device)

    def _call(self, name: str, *arguments: Any) -> Any:
        if self.lost:
            raise DeviceLostError(self.lost, self.name, _HINTS[DeviceLostError])
        before = self._enter()
        try:
            result = getattr(self.bindings, name)(*arguments)
        except RuntimeError as error:  # a driver of a release before the function
            what = f"the CUDA driver has no {name}: {error}"
            raise DeviceError(what, self.name, NEWER_DRIVER) from error
        finally:
            if before is not None:  # its status says nothing of this device
                self.bindings.cuCtxSetCurrent(before)
        return self._checked(name, result)

    def _enter(self) -> Any:
        """Make the device's context current; the one that was, where it is another.

        Asking costs what setting does: where ours is current, as with another library that uses
        the device, a call is no slower.
        """
        if self._context is None:
            return None
        before = self._checked("cuCtxGetCurrent", self.bindings.cuCtxGetCurrent())
        if int(before) == int(self._context):
            return None
        self._checked("cuCtxSetCurrent", self.bindings.cuCtxSetCurrent(self._context))
        return before

    def _checked(self, name: str, result: tuple[Any, ...]) -> Any:
        status, *values = result
        if int(status) != 0:
            self._fail(name, status.name)
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)

    def _fail(self, name: str, status: str) -> None:
        what = f"the CUDA driver's {name} fails: {status}"
        kind: type[DeviceError] = DeviceError
        if status in _NO_MEMORY:
            kind = DeviceMemoryError
        elif status in _NOT_LOADED:
            kind = DeviceLaunchError
        elif status in _LOST:
            kind, self.lost = DeviceLostError, what
        raise kind(what, self.name, _HINTS.get(kind, ""))


def capture_lock(ordinal: int) -> threading.RLock:
    """The lock of a device's primary context, which all users in this process share."""
    with _FIRST:
        return _capture_lock(ordinal)


@cache
def _capture_lock(ordinal: int) -> threading.RLock:
    return threading.RLock()
