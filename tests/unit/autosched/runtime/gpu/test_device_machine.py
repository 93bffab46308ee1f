"""What is measured of a device: an emulated one has what its data sheet says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.runtime.gpu.machine import (
    device_machine,
    measured_bandwidth,
    measured_flops,
    nominal_machine,
)
from codegen.gpu.open import open_device
from sketch.target.gpu_targets import cuda_target, emulated


def test_what_is_measured_is_what_the_clock_says() -> None:
    h200 = emulated(cuda_target("h200"))
    assert nominal_machine(h200, 0).flops == pytest.approx(67e12, rel=0.01)
    units = nominal_machine(h200, 0).units
    assert units["mma.m16n8k16.bf16"] == pytest.approx(1070e12, rel=0.01)
    assert units["mma.m16n8k32.u8.s8"] == pytest.approx(2 * units["mma.m16n8k16.bf16"])
    target = replace(h200, threads=2)
    nominal = nominal_machine(target, 1 << 20)
    with open_device(target) as device:
        assert device_machine(device, 1 << 20) == nominal
        assert measured_bandwidth(device, 1 << 20) == pytest.approx(nominal.bandwidth)
        assert measured_flops(device, trips=1) == pytest.approx(nominal.flops)
        assert device.memory().free == device.memory().total
