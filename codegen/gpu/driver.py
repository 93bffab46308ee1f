"""The CUDA driver's functions on the first GPU, with its errors as ours."""

from __future__ import annotations

import threading
from collections.abc import Mapping
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
# After these no call of the process succeeds any more (CUDA Driver API, "CUresult").
_LOST: Final = (
    "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_TIMEOUT", "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_ECC_UNCORRECTABLE",
)  # fmt: skip
_HINTS: Final[Mapping[type[DeviceError], str]] = {
    DeviceMemoryError: "use smaller shapes, or end other programs on the GPU",
    DeviceLaunchError: "compile for this GPU",
    DeviceLostError: "use the device in a new process",
}


class Driver:
    """Calls of ``cuda.bindings.driver`` for one device.

    What asks for a number of the device needs no context, which takes a part of a second to make;
    everything else is called in the device's primary one, from ``retain`` on.

    Attributes:
        capture: held by whoever captures a stream, and for calls that are errors meanwhile:
            waiting for all streams of the context.

    Args:
        bindings: the module.
        ordinal: of the device.

    Raises:
        DeviceError: the device cannot be used.
    """

    def __init__(self, bindings: Any, ordinal: int = 0) -> None:
        self.bindings = bindings
        self.lost = self.name = ""
        self.capture = threading.RLock()
        self._context: Any = None
        self.call("cuInit", 0)
        self.device = self.call("cuDeviceGet", ordinal)
        self.name = self.call("cuDeviceGetName", 256, self.device).split(b"\0")[0].decode()

    @property
    def usable(self) -> bool:
        """Whether what was made in the context is still there."""
        return self._context is not None and not self.lost

    def retain(self) -> None:
        """Make the device's context, or share it with others of this process."""
        self._context = self.call("cuDevicePrimaryCtxRetain", self.device)

    def call(self, name: str, *arguments: Any) -> Any:
        """What a function returns beside its status: nothing, a value, or a tuple of them.

        Raises:
            DeviceMemoryError, DeviceLaunchError, DeviceLostError, DeviceError: it fails.
        """
        if self.lost:
            raise DeviceLostError(self.lost, self.name, _HINTS[DeviceLostError])
        if self._context is not None:  # a thread's caller may use another device in between
            self._checked("cuCtxSetCurrent", self.bindings.cuCtxSetCurrent(self._context))
        try:
            result = getattr(self.bindings, name)(*arguments)
        except RuntimeError as error:  # a driver of a release before the function
            what = f"the CUDA driver has no {name}: {error}"
            raise DeviceError(what, self.name, NEWER_DRIVER) from error
        return self._checked(name, result)

    def attribute(self, name: str) -> int:
        """``CU_DEVICE_ATTRIBUTE_<name>`` of the device."""
        wanted = getattr(self.bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", wanted, self.device))

    def close(self) -> None:
        """Let go of the context; nothing can be called any more."""
        if self.usable:
            self.call("cuDevicePrimaryCtxRelease", self.device)
        self._context = None

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
