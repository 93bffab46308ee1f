"""Copies of host arrays on a device: many kernels read one."""

from __future__ import annotations

from contextlib import closing

from codegen.gpu.protocol import Array, Device


class ResidentArrays:
    """Host arrays by address on a device, copied there when they are asked for first.

    They must not change from then on.  They are kept alive, so that no other array can be where
    one was.

    Args:
        device: that they are copied to.
        most_bytes: of all copies; what has no room is left to the caller.
    """

    def __init__(self, device: Device, most_bytes: int) -> None:
        self._device, self._most_bytes = device, most_bytes
        self._kept: dict[tuple[int, int], tuple[Array, int]] = {}
        self._bytes = 0

    def address(self, array: Array) -> int | None:
        """Where a copy of a contiguous array is on the device; None: there is no room for it.

        Raises:
            DeviceError: the device fails, or its memory is full.
        """
        key = array.ctypes.data, array.nbytes
        if key not in self._kept:
            if self._bytes + array.nbytes > self._most_bytes:
                return None
            address = self._device.allocate(array.nbytes)
            self._kept[key] = array, address
            self._bytes += array.nbytes
            with closing(self._device.stream()) as stream:
                stream.copy_in(address, array)
                stream.synchronise()
        return self._kept[key][1]

    def clear(self) -> None:
        """Free all copies; no kernel may read them any more."""
        if not self._device.lost:
            for _, address in self._kept.values():
                self._device.free(address)
        self._kept.clear()
        self._bytes = 0
