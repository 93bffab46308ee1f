"""What goes wrong on a device: one class for each thing that a caller does about it."""

from __future__ import annotations

from sketch.errors import AutoschedError


class DeviceError(AutoschedError):
    """A device refuses a request, or does not work."""


class DeviceMemoryError(DeviceError):
    """A device has too little free memory; everything else on it goes on."""


class DeviceLaunchError(DeviceError):
    """A kernel cannot be loaded or launched: wrong architecture, too many resources."""


class DeviceLostError(DeviceError):
    """A kernel did what a device does not recover from, such as reading an illegal address.

    The error is sticky: every later request of this process to the device fails as well.  A new
    process can use the device again.
    """
