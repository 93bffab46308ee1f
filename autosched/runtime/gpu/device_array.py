"""Arrays in the memory of a device: what ``Module.run_on_device`` returns and takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.borrowed_array import resolved
from autosched.runtime.errors import InputError
from autosched.runtime.gpu.dlpack import CPU, CUDA, Borrowed, capsule
from autosched.system.element_types import element_type

if TYPE_CHECKING:
    from codegen.gpu.protocol import Device


class DeviceArray:
    """A dense array in device memory, row-major.

    Other libraries take it through DLPack without a copy: ``torch.from_dlpack(array)``.

    Attributes:
        address: of the first element.
        shape: extents.
        dtype: of the elements.
    """

    def __init__(
        self, address: int, shape: tuple[int, ...], dtype: str, device: Device, owner: Any
    ) -> None:
        """Name memory.

        Args:
            address: of the first element.
            shape: extents.
            dtype: name of the element type.
            device: whose memory it is.
            owner: keeps the memory as it is as long as it lives.
        """
        self.address, self.shape = address, shape
        self.dtype: np.dtype[Any] = element_type(dtype)
        self._name, self._device, self._owner = dtype, device, owner

    def numpy(self) -> NDArray[Any]:
        """A copy in CPU memory, once all work of the device is done."""
        found = np.empty(self.shape, self.dtype)
        if found.nbytes:
            self._device.synchronise()
            stream = self._device.stream()
            stream.copy_out(found.reshape(-1).view(np.uint8), self.address)
            stream.synchronise()
            stream.close()
        return found

    def __dlpack__(self, **_: Any) -> Any:
        """A capsule with the array; what computes it is waited for."""
        self._device.synchronise()
        return capsule(self.address, self.shape, self._name, self.__dlpack_device__(), self)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's kind of device, and its number."""
        return CPU if self._device.kind == "emulated" else CUDA, self._device.ordinal

    def is_on(self, device: Device) -> bool:
        """Whether ``device`` reads this memory in place: GPUs share it, emulated devices do not."""
        if "emulated" in (self._device.kind, device.kind):
            return self._device is device
        return self._device.ordinal == device.ordinal

    def __repr__(self) -> str:
        return f"DeviceArray({self._name}{list(self.shape)} on {self._device.name})"


def read_array(value: Any, device: Device, where: str) -> NDArray[Any] | DeviceArray:
    """An array that is no NumPy array: in place where it is on the device.

    Raises:
        InputError: it cannot be read, lies on another GPU, or on the device with gaps between its
            elements.
        DeviceError: it is of another device of ours, which fails.
    """
    if isinstance(value, DeviceArray):
        return value if value.is_on(device) else value.numpy()
    try:
        value = resolved(value)
        kind, number = value.__dlpack_device__()
        if kind != CUDA:
            return np.from_dlpack(value)
        _check_gpu(number, device, where)
        # The stream -1: everything on the device is waited for, or the caller orders it.
        borrowed = Borrowed(value.__dlpack__(stream=-1))
    except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
        raise InputError(
            f"cannot read {type(value).__name__} through DLPack: {error}",
            where,
            "give an array in CPU memory or on the GPU that needs no gradient",
        ) from error
    if not borrowed.dense and math.prod(borrowed.shape):
        raise InputError(
            "an array on the GPU with gaps between its elements", where, "use .contiguous()"
        )
    return DeviceArray(borrowed.address, borrowed.shape, borrowed.dtype, device, borrowed)


def _check_gpu(number: int, device: Device, where: str) -> None:
    """Raises InputError unless memory of this GPU is memory of the device."""
    if device.kind == "emulated":
        raise InputError("an array on a GPU, but the device is emulated", where)
    if number != device.ordinal:
        raise InputError(
            f"an array on GPU {number}, the module is on GPU {device.ordinal}",
            where,
            f"use .to('cuda:{device.ordinal}')",
        )
