"""What a GPU can do at best: nominal numbers of an emulated one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.runtime.explanation import Machine

if TYPE_CHECKING:
    from codegen.gpu.protocol import Device
    from sketch.target.target import Target


def nominal_machine(target: Target, working_bytes: int) -> Machine:
    """The numbers of the data sheet."""
    card = target.card
    return Machine(
        2.0 * target.threads * card.fma_lanes * card.hertz,
        card.memory_bytes_per_s,
        working_bytes,
        target.threads,
        on_gpu=True,
        note="nominal numbers of the card, not measured",
    )


def device_machine(device: Device, working_bytes: int) -> Machine:
    """A device, nominal where it is emulated."""
    return nominal_machine(device.target, working_bytes)
