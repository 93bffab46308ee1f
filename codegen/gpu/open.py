"""The device of a target."""

from __future__ import annotations

from codegen.gpu.missing import missing_device
from codegen.gpu.protocol import Device
from sketch.errors import TargetError
from sketch.target.target import Target


def open_device(target: Target) -> Device:
    """The device that kernels for ``target`` run on; the caller closes it.

    Raises:
        TargetError: there is none here; the message says what to install or change.
    """
    from codegen.gpu.emulated import EmulatedDevice

    missing = missing_device(target)
    if missing is not None:
        raise TargetError(missing, f"target {target.arch}")
    return EmulatedDevice(target)
