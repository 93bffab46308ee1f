"""The device of a target."""

from __future__ import annotations

from uuid import UUID

from codegen.backend import check_runs
from codegen.gpu.driver import Driver
from codegen.gpu.emulated import EmulatedDevice
from codegen.gpu.protocol import Device
from codegen.gpu.real import CudaDevice, arch_of
from sketch.target.target import Target


def device_arch(target: Target) -> str:
    """The architecture of the device that there is for ``target``: it may be another than asked.

    Raises:
        TargetError: there is none here; the message says what to install or change.
    """
    check_runs(target, "run kernels")
    if target.card.emulated:
        return target.arch
    from cuda.bindings import driver as bindings

    return arch_of(Driver(bindings))


def device_identity(target: Target) -> str:
    """A name of the device that there is for ``target``, whichever GPUs this process may see.

    Raises:
        TargetError: there is none here; the message says what to install or change.
        DeviceError: it does not work.
    """
    check_runs(target, "run kernels")
    if target.card.emulated:
        return target.card.name
    from cuda.bindings import driver as bindings

    driver = Driver(bindings)
    return str(UUID(bytes=driver.call("cuDeviceGetUuid", driver.device).bytes))


def open_device(target: Target) -> Device:
    """The device that kernels for ``target`` run on; the caller closes it.

    Raises:
        TargetError: there is none here; the message says what to install or change.
    """
    check_runs(target, "run kernels")
    if target.card.emulated:
        return EmulatedDevice(target)
    from cuda.bindings import driver as bindings

    return CudaDevice(target, Driver(bindings))
