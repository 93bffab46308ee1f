"""Copies of host arrays on a device: one each, as long as there is room."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from codegen.cuda.build import build
from codegen.gpu.device_kernel import DeviceKernel
from codegen.gpu.emulation.library import compiler
from codegen.gpu.open import open_device
from codegen.gpu.resident_arrays import ResidentArrays
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target, emulated
from tests.support.cuda_programs import feasible_rows
from tests.support.workloads import WORKLOADS, random_inputs

EMULATED = emulated(cuda_target("h200"))


class Device:
    """Notes what is copied and freed."""

    lost = False

    def __init__(self) -> None:
        self.copied: list[int] = []
        self.freed: list[int] = []

    def allocate(self, size: int) -> int:
        return 1000 + len(self.copied)

    def free(self, address: int) -> None:
        self.freed.append(address)

    def stream(self) -> SimpleNamespace:
        return SimpleNamespace(
            copy_in=lambda address, array: self.copied.append(address),
            synchronise=lambda: None,
            close=lambda: None,
        )


def test_an_array_is_copied_once_and_what_has_no_room_is_not() -> None:
    device = Device()
    kept = ResidentArrays(device, 100)  # type: ignore[arg-type]
    one, other, large = np.zeros(10, np.float32), np.zeros(10, np.float32), np.zeros(6, np.float32)
    assert [kept.address(array) for array in (one, other, one)] == [1000, 1001, 1000]
    assert kept.address(large) is None and device.copied == [1000, 1001]
    kept.clear()
    assert device.freed == [1000, 1001]
    assert kept.address(large) == 1002
    device.lost = True
    kept.clear()
    assert device.freed == [1000, 1001]  # nothing of a lost device can be freed


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_kernels_that_share_arrays_leave_them_and_outputs_are_their_own(
    rng: np.random.Generator,
) -> None:
    dag = WORKLOADS["chain"]()
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)
    population = feasible_rows(generate(dag, EMULATED)[0], 2, rng)
    outputs = {name: np.full(array.shape, np.nan, array.dtype) for name, array in expected.items()}
    with open_device(EMULATED) as device:
        kept = ResidentArrays(device, 1 << 30)
        for index in range(population.count):
            made = build(lower(population.sketch, population.row(index)), EMULATED)
            written = {
                a.name: outputs[a.name].reshape(a.shape)
                for a in made.arguments
                if a.scope == "output"
            }
            with DeviceKernel(device, made, inputs | written, resident=kept) as kernel:
                assert all(np.isnan(array).all() for array in kernel.results().values())
                found = kernel.run()
            for name, value in found.items():
                assert value == pytest.approx(expected[name].reshape(value.shape), rel=1e-5)
        used = device.memory().total - device.memory().free
        assert used >= sum(array.nbytes for array in (*inputs.values(), *outputs.values()))
        kept.clear()
        assert device.memory().free == device.memory().total
