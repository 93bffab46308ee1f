"""What all callers of a program share on a device: its code and its constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.program import ExecutionPlan
from codegen.cuda.kernel_files import StoredKernel

if TYPE_CHECKING:
    from codegen.gpu.protocol import Device


class DeviceHold:
    """Closes a device when nobody holds it any more."""

    __slots__ = ("__weakref__", "device")

    def __init__(self, device: Device) -> None:
        self.device = device
        finalize(self, device.close)


class Resident:
    """A program on a device of its own, which is closed when nobody uses the program any more.

    Closing it gives back code and constants.

    Attributes:
        hold: whoever has memory of the device to give back has this, too.
        device: that the program runs on.
        program: the plan.
        constants: the constants' segment in CPU memory, for host steps.
        address: of the constants in device memory.
        code: what the device has loaded, by symbol.
        buffers: names of each kernel's arguments and workspaces, in the order of a step's.
    """

    def __init__(
        self,
        device: Device,
        program: ExecutionPlan,
        constants: NDArray[np.uint8],
        kernels: Mapping[str, StoredKernel],
    ) -> None:
        """Load all code and copy the constants; raises DeviceError where there is no room."""
        self.hold = DeviceHold(device)
        self.device, self.program, self.constants = device, program, constants
        self.buffers = {
            symbol: tuple(a.name for a in stored.kernel.arguments)
            + tuple(name for name, _ in stored.kernel.workspaces)
            for symbol, stored in kernels.items()
        }
        try:
            self.code = {
                symbol: device.load(stored.kernel, stored.expected_s)
                for symbol, stored in kernels.items()
            }
            self.address = self._copied(constants)
        except BaseException:
            device.close()  # now: whoever tries again meanwhile still holds the error, and so us
            raise

    def _copied(self, constants: NDArray[np.uint8]) -> int:
        """The address of the constants on the device."""
        address = self.device.allocate(max(1, constants.nbytes))
        stream = self.device.stream()
        if constants.nbytes:
            stream.copy_in(address, constants)
        stream.synchronise()
        stream.close()
        return address
